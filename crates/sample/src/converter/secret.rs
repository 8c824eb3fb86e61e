//! Arguments in base64 that may come from a variable: keys, nonces, tags.

use super::encoding::base64_decode;
use super::shape::var_text;
use crate::args::{Arg, Args};
use crate::context::{Ctx, Out};
use crate::value::Text;
use crate::vars::VarRef;
use std::sync::Arc;

/// Bytes known when the configuration is read, or a variable that holds them in base64.
pub(super) enum Secret {
    Bytes(Box<[u8]>),
    Var(VarRef),
}

impl Secret {
    /// The bytes, in the scratch memory. `None` when the variable is not set or not base64.
    pub(super) fn text(&self, cx: &mut Ctx) -> Option<Text> {
        match self {
            Secret::Bytes(bytes) => cx.store(bytes),
            Secret::Var(var) => {
                let text = var_text(cx, *var)?;
                cx.map_bytes(text, base64_decode)
            }
        }
    }
}

/// Turns the text of argument `i`, if it was given, into a secret.
///
/// # Errors
/// It is neither the name of a variable nor base64.
pub(super) fn want_secret(args: &mut Args, i: usize, what: &str) -> Result<(), String> {
    let Some(text) = args.str(i) else { return Ok(()) };
    let var = std::str::from_utf8(text).ok().and_then(|name| VarRef::parse(name).ok());
    let secret = match var {
        Some(var) => Secret::Var(var),
        None => {
            let mut memory = vec![0; text.len()];
            let mut out = Out::new(&mut memory);
            if !base64_decode(text, &mut out) {
                return Err(format!(
                    "failed to parse {what} : argument needs to be base64 encoded, and can either be a string or a variable"
                ));
            }
            Secret::Bytes(out.as_slice().into())
        }
    };
    args.put(i, Arg::Compiled(Arc::new(secret)));
    Ok(())
}
