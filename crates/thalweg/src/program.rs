//! Under which name this program was started, and what it says about itself.

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of HAProxy whose configuration, command line and outputs this program follows.
pub const COMPATIBLE_VERSION: &str = "3.5-dev5";

/// The branch of that version.
pub const COMPATIBLE_BRANCH: &str = "3.5";

/// The date of that version, which `-v` shows after it.
pub const COMPATIBLE_DATE: &str = "2026/08/21";

/// The name the program goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// As typed: `argv[0]`.
    pub path: String,
    /// The last part of the path; tags log lines.
    pub name: String,
    /// Started as `haproxy`: answers as HAProxy would, so that scripts, packages and test suites accept it.
    pub as_haproxy: bool,
}

impl Program {
    /// From `argv[0]`.
    pub fn from_arg0(arg0: Option<String>) -> Program {
        let path = arg0.filter(|path| !path.is_empty()).unwrap_or_else(|| "thalweg".into());
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("thalweg").to_string();
        let as_haproxy = name == "haproxy" || name.starts_with("haproxy-");
        Program { path, name, as_haproxy }
    }

    /// What the start-up messages call the program.
    pub fn title(&self) -> &'static str {
        if self.as_haproxy { "haproxy" } else { "thalweg" }
    }

    /// The version in start-up messages.
    pub fn version(&self) -> &'static str {
        if self.as_haproxy { COMPATIBLE_VERSION } else { VERSION }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_who_answers() {
        for (arg0, name, as_haproxy) in [
            ("/usr/sbin/haproxy", "haproxy", true),
            ("./haproxy", "haproxy", true),
            ("haproxy-3.5", "haproxy-3.5", true),
            ("haproxyctl", "haproxyctl", false),
            ("/opt/thalweg", "thalweg", false),
            ("", "thalweg", false),
            ("/", "thalweg", false),
        ] {
            let program = Program::from_arg0(Some(arg0.into()));
            assert_eq!((program.name.as_str(), program.as_haproxy), (name, as_haproxy), "{arg0}");
        }
        assert_eq!(Program::from_arg0(None).name, "thalweg");
    }
}
