//! Users and groups of the system.

pub(crate) use thalweg_sys::accounts::{group_id, user_id};
