//! Changes of certificates, lists of them, authorities and revocation lists in a transaction: the commands are carried out on a
//! copy, which takes the place of what is served.

use std::sync::{MutexGuard, PoisonError};

use thalweg_config::model::SharedLive;
use thalweg_tls::live::{Answer, Live, Trial};

use super::{Change, NotMade};
use crate::commands::ssl;

/// What is tried out, and what it is a copy of.
pub(super) struct Certificates {
    served: SharedLive,
    trial: Trial,
}

/// Whether a change is one of these.
pub(super) fn concern(change: &Change) -> bool {
    change.words.get(1).is_some_and(|word| word == "ssl")
}

impl Certificates {
    /// Tries out these changes, which come with their positions. What is set and not committed is committed by what comes next.
    ///
    /// # Errors
    /// The position of the one that cannot be made, and why.
    pub fn plan(served: SharedLive, changes: &[(usize, &Change)]) -> Result<Certificates, (usize, String)> {
        let mut trial = locked(&served).try_out();
        let live = trial.live();
        // The last one that something was set by.
        let mut set_at = 0;
        for &(at, Change { words, payload }) in changes {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let [verb, _, kind, name, args @ ..] = &words[..] else {
                return Err((at, "A name is missing.".into()));
            };
            let sets = payload.is_some() && *kind != "crt-list";
            if *verb != "commit" && !(sets && live.is_being_set(kind, name)) {
                live.finish_changes().map_err(|why| (set_at, why))?;
            }
            if sets {
                set_at = at;
            }
            make(live, (verb, kind), name, args, payload.as_deref()).map_err(|why| (at, why))?;
        }
        live.finish_changes().map_err(|why| (set_at, why))?;
        Ok(Certificates { served, trial })
    }

    /// Puts them in place once `others` are made, if those are.
    pub fn carry_out_with(self, others: impl FnOnce() -> Result<(), NotMade>) -> Result<(), NotMade> {
        let mut served = locked(&self.served);
        // A file that is watched may have come in between.
        if !served.is_origin_of(&self.trial) {
            return Err(NotMade::Overtaken);
        }
        others()?;
        served.adopt(self.trial);
        Ok(())
    }
}

fn locked(live: &SharedLive) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries out `<verb> ssl <kind> <name>`.
fn make(live: &mut Live, command: (&str, &str), name: &str, args: &[&str], payload: Option<&str>) -> Answer {
    let text = payload.map(str::as_bytes);
    match (command, args, text) {
        (("new", "cert"), [], None) => live.new_certificate(name),
        (("set", "cert"), [], Some(text)) => live.set_certificate(name, text),
        (("commit", "cert"), [], None) => live.commit_certificate(name),
        (("del", "cert"), [], None) => live.delete_certificate(name),
        (("add", "crt-list"), ..) => live.add_to_list(name, &ssl::line_of_list(args, payload)?),
        (("del", "crt-list"), [entry], None) => live.delete_from_list(name, entry),
        (("new", "ca-file"), [], None) => live.new_ca_file(name),
        (("set", "ca-file"), [], Some(text)) => live.set_ca_file(name, text),
        (("add", "ca-file"), [], Some(text)) => live.add_ca_file(name, text),
        (("commit", "ca-file"), [], None) => live.commit_ca_file(name),
        (("del", "ca-file"), [], None) => live.delete_ca_file(name),
        (("new", "crl-file"), [], None) => live.new_crl_file(name),
        (("set", "crl-file"), [], Some(text)) => live.set_crl_file(name, text),
        (("commit", "crl-file"), [], None) => live.commit_crl_file(name),
        (("del", "crl-file"), [], None) => live.delete_crl_file(name),
        _ => Err("There are too few words, or too many, or a payload is missing.".into()),
    }
}
