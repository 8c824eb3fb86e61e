//! `ssl-passphrase-cmd`: the program that says what opens private keys.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;

use thalweg_syntax::Line;
use thalweg_tls::certificate::{Ask, Passphrases};

use crate::build::Cx;
use crate::keyword::Outcome;

/// The longest passphrase, in bytes: what OpenSSL has room for.
const PASSPHRASE_MAX: u64 = 1024;

/// A program and its arguments.
struct Program(Vec<String>);

impl Ask for Program {
    /// Runs it with the key's file before its own arguments.
    fn ask(&self, path: &str) -> Result<Vec<u8>, String> {
        let failed = |why: String| format!("'ssl-passphrase-cmd': '{}' {why}", self.0[0]);
        let mut child = Command::new(&self.0[0])
            .arg(path)
            .args(&self.0[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("cannot be run: {error}")))?;
        let mut answer = Vec::new();
        let read = child.stdout.take().map(|output| output.take(PASSPHRASE_MAX).read_to_end(&mut answer));
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        match read {
            _ if !status.success() => Err(failed(format!("failed: {status}"))),
            Some(Err(error)) => Err(failed(error.to_string())),
            _ => Ok(answer),
        }
    }
}

/// `ssl-passphrase-cmd`
pub(crate) fn tls_passphrase(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let words: Vec<String> = (1..line.words.len()).map(|index| line.text(index).to_owned()).collect();
    if words.first().is_none_or(String::is_empty) {
        cx.warn(
            line,
            0,
            "global statement 'ssl-passphrase-cmd' expects a command line to a passphrase-providing tool \
             (script/binary...) and its arguments.",
        );
        return Ok(());
    }
    cx.config.global.tls.load.passphrases = Some(Arc::new(Passphrases::new(Box::new(Program(words)))));
    Ok(())
}
