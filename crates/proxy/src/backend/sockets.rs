//! What every socket towards a server has in common, whatever it is for.

use thalweg_config::model::Server;
use thalweg_runtime::net::{ConnectOptions, Md5Key};

/// Of traffic, of health checks, of what peers say.
pub(crate) fn options(server: &Server) -> ConnectOptions {
    let rare = server.rare();
    ConnectOptions {
        mptcp: rare.mptcp,
        namespace: rare.namespace.clone(),
        md5: rare.md5.as_deref().map(|password| Md5Key(password.as_bytes().into())),
        ..ConnectOptions::default()
    }
}
