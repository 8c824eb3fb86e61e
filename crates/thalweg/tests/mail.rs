//! Alerts by e-mail: what a mailer is told when servers change.

mod support;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use support::{Proxy, Server, Setup, each_driver, eventually, nobody};

/// A mailer that answers with these codes, in order, and then with 250. Gives the mails that it was handed.
fn mailer(codes: &'static [&'static str]) -> (Server, Receiver<String>) {
    let (sender, mails) = channel();
    let sender = Mutex::new(sender);
    let server = Server::start(move |mut conn, _| {
        let mut codes = codes.iter();
        conn.send(codes.next().unwrap_or(&"220 hello\r\n"));
        while let Some(line) = conn.try_until(b"\r\n") {
            let is_data = line.starts_with(b"DATA");
            conn.send(codes.next().unwrap_or(if is_data { &"354 go\r\n" } else { &"250 fine\r\n" }));
            if is_data {
                let Some(mail) = conn.try_until(b"\r\n.\r\n") else { return };
                // The test may be over.
                let _ = sender.lock().unwrap().send(String::from_utf8(mail).expect("text"));
                conn.send("250 queued\r\n");
            }
        }
    });
    (server, mails)
}

fn setup(mailers: &[&Server], lines: &str) -> Setup {
    let mailer = |(at, mailer): (usize, &&Server)| format!("mailer m{at} {}\n", mailer.addr);
    let section: String = mailers.iter().enumerate().map(mailer).collect();
    let text = format!(
        "mailers ms\n{section}timeout mail 20s\nfrontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\n{lines}\n"
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin").defaults(
        "email-alert mailers ms\nemail-alert from lb@example.net\nemail-alert myhostname lb.example.net\n",
    )
}

fn subject(mail: &str) -> &str {
    let line = mail.lines().find_map(|line| line.strip_prefix("Subject: [thalweg alert] "));
    line.unwrap_or_else(|| panic!("no subject: {mail}"))
}

fn cli(proxy: &Proxy, line: &str) {
    proxy.tell("cli", line);
}

#[test]
fn servers_that_change_are_told_of() {
    each_driver(|io| {
        let ((one, first), (other, second)) = (mailer(&[]), mailer(&["220 a\r\n", "502 old\r\n"]));
        let lines = format!(
            "email-alert to ops@example.net\nemail-alert level notice\nserver down {} check inter 50ms\nserver b {}",
            nobody(),
            nobody()
        );
        let proxy = setup(&[&one, &other], &lines).start(io);
        for mails in [&first, &second] {
            let mail = mails.recv().expect("a mail");
            let head = "From: <lb@example.net>\r\nTo: <ops@example.net>\r\nDate: ";
            assert!(mail.starts_with(head), "over {io}: {mail}");
            let reason = "Server be/down is DOWN, reason: Layer4 connection problem";
            assert!(subject(&mail).starts_with(reason), "over {io}: {mail}");
            assert!(mail.contains("\r\n\r\nServer be/down is DOWN, reason"), "over {io}: {mail}");
            assert!(mail.contains("@lb.example.net>\r\n"), "over {io}: {mail}");
        }
        cli(&proxy, "disable server be/b");
        assert!(
            subject(&first.recv().expect("a mail")).starts_with("Server be/b is going DOWN for maintenance")
        );
        cli(&proxy, "enable server be/b");
        assert!(subject(&first.recv().expect("a mail")).starts_with("Server be/b is UP"));
    });
}

/// What is less severe than the level, and what goes on in a backend that nobody wants to hear of, is told to nobody.
#[test]
fn only_what_is_severe_enough_is_told() {
    each_driver(|io| {
        let (server, mails) = mailer(&[]);
        let lines = "email-alert to ops@example.net\nserver a 127.0.0.1:9\nserver b 127.0.0.1:9\n\
                     backend quiet\nserver q 127.0.0.1:9";
        let proxy = setup(&[&server], lines).start(io);
        for line in
            ["disable server quiet/q", "disable server be/a", "enable server be/a", "disable server be/b"]
        {
            cli(&proxy, line);
        }
        // Mails come in the order in which they are sent, or nearly so.
        let told: Vec<String> = (0..2).map(|_| subject(&mails.recv().expect("a mail")).to_owned()).collect();
        let down =
            |name: &str| told.iter().any(|line| line.starts_with(&format!("Server be/{name} is going DOWN")));
        assert!(down("a") && down("b"), "over {io}: {told:?}");
        assert!(mails.try_recv().is_err(), "over {io}");
    });
}

/// A mailer that takes no mail is said to, and troubles nobody else.
#[test]
fn mailers_that_take_nothing_are_said_to() {
    each_driver(|io| {
        let (refuses, _none) = mailer(&["220 a\r\n", "250 b\r\n", "250 c\r\n", "550 who\r\n"]);
        let (takes, mails) = mailer(&[]);
        let strange = Server::start(|mut conn, _| {
            conn.send("SSH-2.0-x\r\n");
            conn.rest();
        });
        let leaves = Server::start(|_, _| {});
        let all = [&refuses, &strange, &leaves, &takes];
        let proxy = setup(&all, "email-alert to ops@example.net\nserver a 127.0.0.1:9").start(io);
        cli(&proxy, "disable server be/a");
        assert!(subject(&mails.recv().expect("a mail")).starts_with("Server be/a is going DOWN"));
        let whys = [
            "mailer ms/m0 did not take a mail : it answered 550 to RCPT TO.",
            "mailer ms/m1 did not take a mail : what it says is not SMTP.",
            "mailer ms/m2 did not take a mail : it ended the connection.",
        ];
        for why in whys {
            eventually(why, || proxy.output().contains(why).then_some(()));
        }
    });
}
