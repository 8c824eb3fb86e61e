//! What stands between the keyword of an ACL and its patterns.

use super::Expr;
use crate::pattern::Method;
use crate::value::Type;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Flags<'w> {
    /// `-i`
    pub(super) icase: bool,
    /// `-M`: files are read as maps.
    pub(super) as_map: bool,
    /// `-n`: names of hosts are not looked up.
    pub(super) no_lookup: bool,
    /// `-f`
    pub(super) files: Vec<&'w str>,
    /// `-m`
    pub(super) method: Option<Method>,
    /// `--`
    pub(super) forced: bool,
}

impl<'w> Flags<'w> {
    /// Reads the flags from word `at` on; returns where the patterns begin.
    pub(super) fn read(&mut self, words: &[&'w str], mut at: usize, expr: &Expr) -> Result<usize, String> {
        while let Some(word) = words.get(at).filter(|w| w.starts_with('-')) {
            let argument = words.get(at + 1).copied().unwrap_or("");
            match *word {
                "-i" => self.icase = true,
                "-n" => self.no_lookup = true,
                "-M" => self.as_map = true,
                "-u" => {
                    if argument.is_empty() || !argument.bytes().all(|b| b.is_ascii_digit()) {
                        return Err("the argument of -u must be an integer".into());
                    }
                    at += 1;
                }
                "-f" => {
                    self.files.push(argument);
                    at += 1;
                }
                "-m" => {
                    self.choose(argument, expr)?;
                    at += 1;
                }
                "--" => {
                    self.forced = true;
                    return Ok(at + 1);
                }
                word => {
                    return Err(format!(
                        "'{word}' is not a valid ACL option. Please use '--' before any pattern beginning with a '-'"
                    ));
                }
            }
            at += 1;
        }
        Ok(at)
    }

    /// `-m <name>`
    fn choose(&mut self, name: &str, expr: &Expr) -> Result<(), String> {
        if self.method.is_some() {
            return Err(
                "only one explicit matching method can be defined with '-m' parameter. if migrating \
                        from an old version, just keep the last one"
                    .into(),
            );
        }
        if !self.files.is_empty() {
            return Err(
                "'-m' must only be specified before patterns and files in parsing ACL expression".into()
            );
        }
        let Some(chosen) = Method::by_name(name) else {
            return Err(format!("unknown matching method '{name}' when parsing ACL expression"));
        };
        let able = match chosen {
            Method::Bool => {
                matches!(expr.output(), Type::Bool | Type::Int | Type::Str | Type::Any | Type::Ip4)
            }
            Method::Found => true,
            _ => crate::cast::possible(expr.output(), chosen.input()),
        };
        if !able {
            return Err(format!(
                "matching method '{name}' cannot be used with fetch keyword '{}'",
                expr.fetch.name
            ));
        }
        self.method = Some(chosen);
        Ok(())
    }
}
