//! One exchange to play: a configuration, and what its clients and servers do.

use super::script::{Script, answers, ok};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Http,
    Tcp,
}

/// What stands at a server's address.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A server with a script for each connection that comes; the last one is for all that follow.
    Plays(Vec<Script>),
    /// Nobody.
    Refuses,
    /// A listener whose queue is full: a connection attempt takes for ever.
    Silent,
}

#[derive(Clone, Debug)]
pub struct Server {
    /// What follows the address on its `server` line.
    pub options: String,
    pub kind: Kind,
}

/// How much of what a peer received is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    All,
    /// Only how it starts: the amount depends on what fits into the kernel's buffers.
    Start(usize),
}

#[derive(Clone, Debug)]
pub struct Case {
    /// Family, and what is particular, with slashes.
    pub name: String,
    pub mode: Mode,
    /// Lines of `global`. Cases with the same ones share a process.
    pub global: String,
    /// Lines of the sections, without the proxies' own names: `<n>` stands for the number of the case, which makes
    /// names unique; `<s1>` for the address of its first server.
    pub defaults: String,
    pub front: String,
    pub back: String,
    /// More sections.
    pub more: String,
    pub servers: Vec<Server>,
    pub clients: Vec<Script>,
    pub bytes: Bytes,
    /// Only what peers see and the log is compared: neither counters, nor the order of fields.
    pub loose: bool,
    /// The log lines are those of the case's own options, not the common format with all its fields.
    pub own_log: bool,
}

/// A case in HTTP mode, without servers and clients so far.
pub fn http(name: impl Into<String>) -> Case {
    Case {
        name: name.into(),
        mode: Mode::Http,
        global: String::new(),
        defaults: String::new(),
        front: String::new(),
        back: String::new(),
        more: String::new(),
        servers: Vec::new(),
        clients: Vec::new(),
        bytes: Bytes::All,
        loose: false,
        own_log: false,
    }
}

/// A case in TCP mode.
pub fn tcp(name: impl Into<String>) -> Case {
    Case { mode: Mode::Tcp, ..http(name) }
}

fn add(to: &mut String, lines: &str) {
    to.push_str(lines);
    to.push('\n');
}

impl Case {
    pub fn global(mut self, lines: &str) -> Case {
        add(&mut self.global, lines);
        self
    }

    pub fn defaults(mut self, lines: &str) -> Case {
        add(&mut self.defaults, lines);
        self
    }

    pub fn front(mut self, lines: &str) -> Case {
        add(&mut self.front, lines);
        self
    }

    pub fn back(mut self, lines: &str) -> Case {
        add(&mut self.back, lines);
        self
    }

    pub fn more(mut self, lines: &str) -> Case {
        add(&mut self.more, lines);
        self
    }

    pub fn client(mut self, script: Script) -> Case {
        self.clients.push(script);
        self
    }

    /// A server where every connection follows the same script.
    pub fn server(self, script: Script) -> Case {
        self.server_of("", Kind::Plays(vec![script]))
    }

    /// A server with a script for each connection.
    pub fn server_each(self, scripts: Vec<Script>) -> Case {
        self.server_of("", Kind::Plays(scripts))
    }

    pub fn server_with(self, options: &str, script: Script) -> Case {
        self.server_of(options, Kind::Plays(vec![script]))
    }

    pub fn server_of(mut self, options: &str, kind: Kind) -> Case {
        self.servers.push(Server { options: options.into(), kind });
        self
    }

    /// A server that answers every request.
    pub fn plain_server(self) -> Case {
        self.server(answers(ok("hello")))
    }

    pub fn compare(mut self, bytes: Bytes) -> Case {
        self.bytes = bytes;
        self
    }

    pub fn loosely(mut self) -> Case {
        self.loose = true;
        self
    }

    pub fn own_log(mut self) -> Case {
        self.own_log = true;
        self
    }
}
