//! Configuration text to located words.
//!
//! This crate knows the grammar of the configuration language and none of its keywords: it reads lines, cuts
//! them into words (quotes, escapes, environment variables), runs the `.if` preprocessor, understands time,
//! size and address notation, and turns every complaint into a [`Diagnostic`] that shows the place it is about.
//!
//! It does no I/O of its own: files come through a [`Loader`], host names through a callback.
//!
//! The usual order of calls:
//!
//! ```
//! use thalweg_syntax::{Diagnostics, Environment, Facts, Reader, SourceMap};
//!
//! let mut sources = SourceMap::new();
//! let file = sources.add("demo.cfg", b"global\n  maxconn 100\n".to_vec());
//! let mut diagnostics = Diagnostics::new();
//! let mut reader = Reader::new(Facts::default(), Environment::empty());
//! reader.start_file(file);
//! while let Some(line) = reader.next_line(&sources, &mut diagnostics) {
//!     if line.words[0] == "global" {
//!         reader.set_section("global");
//!     }
//! }
//! assert!(!diagnostics.has_errors());
//! ```
#![forbid(unsafe_code)]

pub mod address;
pub mod arguments;
pub mod carry;
pub mod condition;
pub mod diagnostic;
pub mod environment;
pub mod layout;
pub mod reader;
pub mod render;
pub mod source;
pub mod suggest;
pub mod tokenizer;
pub mod units;
pub mod version;

pub use address::{Address, AddressOptions, AddressParser, PortSpec};
pub use arguments::{Argument, ArgumentError, ArgumentList, split_arguments};
pub use condition::{Facts, evaluate_condition};
pub use diagnostic::{Diagnostic, Diagnostics, Lead, Severity};
pub use environment::Environment;
pub use reader::Reader;
pub use render::RenderOptions;
pub use source::{DiskLoader, FileId, Loader, SourceMap, Span};
pub use suggest::did_you_mean;
pub use tokenizer::{Line, Word};
pub use units::{SizeError, TimeError, TimeUnit, parse_size, parse_time, parse_time_ms};
