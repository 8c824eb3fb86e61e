//! How peers introduce themselves: whoever connects says hello in three lines, and the other answers with a number.

/// The most bytes of a hello: names are short.
pub const LINES_MAX: usize = 1024;

const PROTOCOL: &str = "HAProxyS";
/// The version that is spoken here.
const VERSION: (u32, u32) = (2, 1);

/// How a hello is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Welcome.
    Succeeded = 200,
    /// Not now.
    TryAgain = 300,
    /// That was no hello.
    Protocol = 501,
    /// Not that version.
    Version = 502,
    /// That is not the name here.
    NotMe = 503,
    /// That name is not known here.
    Unknown = 504,
}

impl Status {
    /// The line that says it.
    pub fn line(self) -> String {
        format!("{}\n", self as u16)
    }
}

/// Who says hello to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who is meant.
    pub to: String,
    /// Who it is.
    pub from: String,
    /// The second part of the version: peers of 0 know neither heartbeats nor entries with a deadline.
    pub minor: u32,
}

/// Reads a hello. `Ok(None)` as long as it is not complete; otherwise with how many bytes it has.
///
/// # Errors
/// The answer to what is none.
pub fn read_hello(bytes: &[u8]) -> Result<Option<(Hello, usize)>, Status> {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let mut line = || {
        let line = lines.next()?;
        std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).ok()
    };
    let complete = bytes.iter().filter(|byte| **byte == b'\n').count();
    if complete == 0 && bytes.len() < LINES_MAX {
        return Ok(None);
    }
    let first = line().ok_or(Status::Protocol)?;
    let (protocol, version) = first.split_once(' ').ok_or(Status::Protocol)?;
    if protocol != PROTOCOL || complete == 0 {
        return Err(Status::Protocol);
    }
    let minor = version
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .filter(|(major, minor): &(u32, u32)| *major == VERSION.0 && *minor <= VERSION.1)
        .ok_or(Status::Version)?
        .1;
    if complete < 3 {
        return if bytes.len() < LINES_MAX { Ok(None) } else { Err(Status::Protocol) };
    }
    let to = line().ok_or(Status::Protocol)?.to_owned();
    let (from, _processes) = line().and_then(|line| line.split_once(' ')).ok_or(Status::Protocol)?;
    let rest = lines.next().map_or(0, <[u8]>::len);
    Ok(Some((Hello { to, from: from.to_owned(), minor }, bytes.len() - rest)))
}

/// The hello of `from`, a process with that number, to `to`.
pub fn write_hello(to: &str, from: &str, pid: u32) -> String {
    format!("{PROTOCOL} {}.{}\n{to}\n{from} {pid} 0\n", VERSION.0, VERSION.1)
}

/// Reads the answer. `Ok(None)` as long as it is not complete; otherwise the number, and how many bytes it has.
///
/// # Errors
/// When it is none.
pub fn read_status(bytes: &[u8]) -> Result<Option<(u16, usize)>, Status> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINES_MAX { Ok(None) } else { Err(Status::Protocol) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    Ok(Some((number.ok_or(Status::Protocol)?, end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(Hello, usize)>, Status> {
        read_hello(text.as_bytes())
    }

    /// The answers are those that the reference gave.
    #[test]
    fn hellos_are_judged_as_the_reference_does() {
        let good = write_hello("A", "B", 123);
        assert_eq!(good, "HAProxyS 2.1\nA\nB 123 0\n");
        let hello = Hello { to: "A".into(), from: "B".into(), minor: 1 };
        assert_eq!(read(&good), Ok(Some((hello.clone(), good.len()))));
        assert_eq!(read(&format!("{good}\0\0more\n")), Ok(Some((hello.clone(), good.len()))));
        assert_eq!(read("HAProxyS 2.1\r\nA\r\nB 123 x\r\n"), Ok(Some((hello.clone(), 26))));
        assert_eq!(read("HAProxyS 2.0\nA\nB 123 0\n"), Ok(Some((Hello { minor: 0, ..hello }, good.len()))));
        for (text, status) in [
            ("HAProxyX 2.1\nA\nB 1 0\n", Status::Protocol),
            ("HAProxyS 2.1\nA\nB\n", Status::Protocol),
            ("HAProxyS\nA\nB 1 0\n", Status::Protocol),
            ("HAProxyS 2.2\nA\nB 1 0\n", Status::Version),
            ("HAProxyS 3.0\n", Status::Version),
            ("HAProxyS 1.0\nA\n", Status::Version),
            ("HAProxyS 2\nA\n", Status::Version),
        ] {
            assert_eq!(read(text), Err(status), "{text:?}");
        }
        assert_eq!(read(&"x".repeat(LINES_MAX)), Err(Status::Protocol));
    }

    #[test]
    fn what_is_cut_is_waited_for() {
        let good = write_hello("A", "B", 123);
        for cut in 0..good.len() {
            assert_eq!(read(&good[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(read_status(b"20"), Ok(None));
        assert_eq!(read_status(b"200\n\0\0"), Ok(Some((200, 4))));
        assert_eq!(read_status(b"2x0\n"), Err(Status::Protocol));
        assert_eq!(read_status(&[b'2'; LINES_MAX]), Err(Status::Protocol));
    }
}
