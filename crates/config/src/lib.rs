#![forbid(unsafe_code)]
//! Sections become a typed, validated configuration: see [`model`] for what comes out and [`load()`] for how.

mod accounts;
mod bind;
mod build;
mod catalog;
mod check;
pub mod compare;
pub mod compiled;
mod dynamic;
mod finish;
pub mod follow;
mod global;
mod http_errors;
mod keyword;
mod load;
mod log;
mod log_forward;
mod log_profile;
mod made_tables;
mod mailers;
mod meaning;
pub mod model;
mod namespaces;
mod numbers;
mod opentelemetry;
pub mod outline;
mod peers;
mod presets;
mod proxy;
mod replies;
mod resolve;
mod resolvers;
mod ring;
mod rules;
mod sample_env;
mod server;
mod server_checks;
mod server_options;
mod server_state;
mod setter;
pub mod state_dir;
mod table;
mod tls;
mod traces;
mod userlist;
pub mod written;

pub use catalog::{
    Entry, Form, Inside, Known, Support, all_keywords, catalog, filters, forms, inside_sections,
};
pub use compare::{Comparison, compare};
pub use dynamic::{DYNAMIC_OPTIONS, NewServer, new_backend, new_server};
pub use follow::{After, Numbers};
pub use load::{
    DescriptorCheck, HostResolver, Input, LoadOptions, Loaded, ProcessSettings, load, process_settings,
};
pub use model::*;
pub use proxy::dynamic_cookie_value;
