//! The program and the reference, started side by side.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::support::{Conn, PATIENCE, Proxy, Setup, eventually, reference};

/// Something for every command: both kinds of proxies, servers in many settings, maps, ACLs, variables.
pub const CONFIGURATION: &str = "\
global
  nbthread 2
  maxconn 100
  node thisnode
  description what it is for
  set-var proc.five int(5)
  set-var-fmt proc.fmt \"a%[int(3)]\"
  stats socket <@dir>/admin mode 600 level admin
  stats socket <@dir>/oper level operator
  stats socket <@dir>/user level user
  stats socket <@dir>/numbers severity-output number level admin
  stats timeout 20s
ring ring1
  description what is said
  format raw
  size 32764
defaults one
  mode http
defaults two
  mode tcp
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
  retries 0
  # Without such a line a server that was not checked yet has no health in 3.5-dev5 (docs/differences.md).
  default-server weight 1
frontend fe
  bind <@fe> name b1
  bind unix@<@dir>/fe2
  description the front
  guid guid-of-fe
  option socket-stats
  http-request set-header x-map %[path,map(<@dir>/m.map)]
  http-request set-header x-number %[path,map_str_int(<@dir>/i.map)]
  http-request deny if { path -f <@dir>/a.acl }
  http-request deny if { src 10.0.0.0/8 192.168.1.1 }
  use_backend be if { path /be }
  default_backend spare
backend be
  balance roundrobin
  guid guid-of-be
  cookie SRV insert
  server s1 unix@<@dir>/none maxconn 7 cookie c1
  server s2 127.0.0.1:9 weight 10 disabled
  server s3 127.0.0.1:9 weight 20 check inter 1h id 33 guid guid-of-s3
  server s4 127.0.0.1:9 weight 20 backup
backend fixed
  balance source
  server t1 127.0.0.1:9 weight 10
  server t2 127.0.0.1:9 check inter 1h addr 127.0.0.2 port 8
backend far
  server f1 10.1.2.3:77 disabled
  server f2 [2001:db8::1]:77 disabled
  server f3 [::1]:9
backend spare
  http-request return status 200
backend off
  disabled
  server o1 127.0.0.1:9
frontend out
  disabled
  bind unix@<@dir>/out
  default_backend off
listen li
  mode tcp
  id 77
  bind unix@<@dir>/li
  server l1 127.0.0.1:9 maxconn 3 minconn 1
";

/// Both programs with the same configuration, each in a directory of its own.
pub struct Pair {
    pub ours: Side,
    pub theirs: Side,
}

/// What both answered.
#[derive(Debug)]
pub struct Answers {
    pub ours: String,
    pub theirs: String,
}

impl Pair {
    /// `None` where there is no reference to start.
    pub fn start(configuration: &str) -> Option<Pair> {
        let reference = reference()?;
        let setup = || {
            Setup::file(configuration)
                .file_beside("m.map", "k1 v1\nk2 v2 x\n")
                .file_beside("i.map", "a 1\nb 2\n")
                .file_beside("a.acl", "/p\n/q\n")
        };
        let ours = Side(setup().start("epoll"));
        let theirs = Side(setup().program(&reference).start("epoll"));
        for side in [&ours, &theirs] {
            eventually("the CLI listens", || UnixStream::connect(side.0.path("admin")).ok());
        }
        Some(Pair { ours, theirs })
    }

    /// Sends lines to a socket of both, says that there are no more, and reads both answers.
    pub fn ask(&self, socket: &str, lines: &str) -> Answers {
        Answers { ours: self.ours.ask(socket, lines), theirs: self.theirs.ask(socket, lines) }
    }
}

/// One of the two programs.
pub struct Side(Proxy);

impl Side {
    /// Sends lines to a socket, says that there are no more, and reads the whole answer.
    pub fn ask(&self, socket: &str, lines: &str) -> String {
        self.exchange(socket, format!("{lines}\n").as_bytes(), true)
    }

    /// The same with bytes that need not be lines; without `half_close` only what the answer is ends the connection.
    pub fn exchange(&self, socket: &str, bytes: &[u8], half_close: bool) -> String {
        let mut stream = UnixStream::connect(self.0.path(socket)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // Who has heard enough may close before it has read everything.
        let _ = stream.write_all(bytes);
        if half_close {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            let asked = String::from_utf8_lossy(bytes);
            assert!(error.kind() != ErrorKind::WouldBlock, "no end of the answer to {asked:?}");
            answer.extend_from_slice(format!("<{:?}>", error.kind()).as_bytes());
        }
        let directory = self.0.path("");
        let directory = directory.to_str().unwrap();
        // What is not UTF-8 shows as what it is: two wrong bytes are not equal.
        let mut text = String::new();
        for chunk in answer.utf8_chunks() {
            text.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("<{byte:02x}>")));
        }
        let text = text.replace(directory, "<dir>/");
        let text = text.replace(directory.trim_end_matches('/'), "<dir>");
        text.replace(&self.0.addr("fe").to_string(), "<fe>")
    }

    /// Sends a message to a listener, and waits for the end of what comes back.
    pub fn say(&self, listener: &str, message: &str) {
        let mut conn = Conn::connect(self.0.addr(listener));
        conn.send(message);
        conn.ended();
    }

    /// What the program printed.
    pub fn output(&self) -> String {
        self.0.output()
    }
}
