//! Changes that are tried out first: made where nobody is served by them, and put in place as a whole if they all can be.

use std::sync::Arc;

use thalweg_shared::{AtomicBool, RwLock};

use super::authorities::FileSet;
use super::{Bind, BindLine, Live, Server, ServerLine, Updates, install};

/// A copy of what can be changed, with lines of its own. What is served is that of the original, until [`Live::adopt`].
#[derive(Debug)]
pub struct Trial {
    live: Live,
    /// The lines of the servers: those of the original, and the copies in the same order.
    servers: Vec<(Arc<ServerLine>, Arc<ServerLine>)>,
    /// The edition of the original.
    began_at: u64,
}

impl Trial {
    /// What commands change.
    pub fn live(&mut self) -> &mut Live {
        &mut self.live
    }
}

impl Live {
    /// A copy to try changes out on. What somebody else prepared and did not commit is not in it.
    pub fn try_out(&self) -> Trial {
        let used = || self.servers.iter().filter(|server| server.is_used());
        let servers: Vec<_> =
            used().map(|server| (server.line.clone(), Arc::new(server.line.copy()))).collect();
        let live = Live {
            shared: self.shared.clone(),
            options: self.options.clone(),
            certificates: self.certificates.clone(),
            transaction: None,
            trust: self.trust.copy(),
            crls: self.crls.copy(),
            lists: self.lists.clone(),
            changes: self.changes.clone(),
            binds: self.binds.iter().map(Bind::copy).collect(),
            servers: used().zip(&servers).map(|(server, (_, line))| server.with_line(line.clone())).collect(),
            ticket_files: self.ticket_files.clone(),
            updates: Updates::default(),
            tokens: None,
            base: self.base.clone(),
            loaded_at: self.loaded_at,
            edition: self.edition,
        };
        Trial { live, servers, began_at: self.edition }
    }

    /// Whether nothing else came into place since a trial began: then it can be adopted.
    pub fn is_origin_of(&self, trial: &Trial) -> bool {
        self.edition == trial.began_at
    }

    /// Puts what was tried out in place.
    pub fn adopt(&mut self, trial: Trial) {
        let Trial { live, servers, .. } = trial;
        self.certificates = live.certificates;
        self.trust.adopt(live.trust);
        self.crls.adopt(live.crls);
        self.lists = live.lists;
        self.changes = live.changes;
        for (bind, tried) in self.binds.iter_mut().zip(live.binds) {
            bind.contexts = tried.contexts;
            install(&bind.line.current, tried.line.selection());
        }
        servers.into_iter().for_each(|(line, tried)| install(&line.current, tried.context()));
        // What somebody prepared may be gone.
        let certificates = &self.certificates;
        self.transaction.take_if(|transaction| !certificates.contains_key(&transaction.name));
        self.edition += 1;
        self.updates.changed();
        self.publish_tokens();
    }

    /// Whether that file is the one that was set last and is not in place yet. `kind` is as in commands.
    pub fn is_being_set(&self, kind: &str, path: &str) -> bool {
        match kind {
            "cert" => {
                self.transaction.as_ref().is_some_and(|transaction| self.names(&transaction.name, path))
            }
            "ca-file" => self.trust.transaction.as_ref().is_some_and(|(name, _)| name == path),
            "crl-file" => self.crls.transaction.as_ref().is_some_and(|(name, _)| name == path),
            _ => false,
        }
    }

    /// Commits what was set and is not in place yet.
    ///
    /// # Errors
    /// It cannot be, for the reason that `commit ssl` gives.
    pub fn finish_changes(&mut self) -> Result<(), String> {
        if let Some(name) = self.transaction.as_ref().map(|transaction| transaction.name.clone()) {
            self.commit_certificate(&name)?;
        }
        if let Some(name) = self.trust.transaction.as_ref().map(|(name, _)| name.clone()) {
            self.commit_ca_file(&name)?;
        }
        if let Some(name) = self.crls.transaction.as_ref().map(|(name, _)| name.clone()) {
            self.commit_crl_file(&name)?;
        }
        Ok(())
    }
}

impl<T> FileSet<T> {
    /// What is in place.
    fn copy(&self) -> FileSet<T> {
        FileSet { kind: self.kind, files: self.files.clone(), transaction: None }
    }

    fn adopt(&mut self, tried: FileSet<T>) {
        self.files = tried.files;
        self.transaction.take_if(|(name, _)| !self.files.contains_key(name));
    }
}

impl Bind {
    /// The same with a line of its own.
    fn copy(&self) -> Bind {
        Bind {
            name: self.name.clone(),
            words: self.words.clone(),
            sources: self.sources.clone(),
            line: Arc::new(BindLine { current: RwLock::new(self.line.selection()) }),
            tickets: self.tickets.clone(),
            generator: self.generator.clone(),
            contexts: self.contexts.clone(),
        }
    }
}

impl Server {
    fn with_line(&self, line: Arc<ServerLine>) -> Server {
        Server { uses: self.uses.clone(), profile: self.profile.clone(), line, before: None }
    }
}

impl ServerLine {
    fn copy(&self) -> ServerLine {
        ServerLine {
            current: RwLock::new(self.context()),
            on: AtomicBool::new(self.is_on()),
            says_on: self.says_on,
            switched: AtomicBool::new(self.was_switched()),
        }
    }
}
