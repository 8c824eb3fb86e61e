//! Cookies of servers that name none: `set dynamic-cookie-key`, `enable dynamic-cookie`, `disable dynamic-cookie`.

use thalweg_config::model::CliLevel::Admin;
use thalweg_config::model::Proxy;
use thalweg_proxy::backend::identity::DynamicCookies;

use super::find_proxy;
use crate::command::{Call, Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("set dynamic-cookie-key backend", Admin, Run::Now(set_key))
        .help("<bk> <k>", "change the secret of a backend's dynamic cookies"),
    Command::new("enable dynamic-cookie backend", Admin, Run::Now(|call| enable(&call, true)))
        .help("<bk>", "give cookies to the servers of a backend that name none"),
    Command::new("disable dynamic-cookie backend", Admin, Run::Now(|call| enable(&call, false)))
        .help("<bk>", "take such cookies away again"),
];

fn change(call: &Call<'_>, f: impl FnOnce(&mut DynamicCookies)) -> Reply {
    let instance = call.instance();
    let Some(name) = call.args.first() else { return Reply::error("A backend name is expected.") };
    let Some(proxy) = find_proxy(instance, name, Proxy::is_be) else {
        return Reply::error("No such backend.");
    };
    instance.backends[proxy.id.0 as usize].change_dynamic_cookies(proxy, f);
    Reply::Done
}

fn set_key(call: Call<'_>) -> Reply {
    let is_known =
        call.args.first().is_some_and(|name| find_proxy(call.instance(), name, Proxy::is_be).is_some());
    match call.args.get(1) {
        None if is_known => Reply::error("String value expected."),
        key => {
            let key = key.map(|key| (*key).into());
            change(&call, |cookies| cookies.key = key)
        }
    }
}

fn enable(call: &Call<'_>, on: bool) -> Reply {
    change(call, |cookies| cookies.enabled = on)
}
