//! What to explain, as people write it: on the command line, and on the CLI of a running process.

use std::net::IpAddr;

use crate::{Answer, Ask, Protocol, Url};

/// Where requests come from unless it is said.
const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Reads words one after the other: see [`AskReader::option`] and [`AskReader::request`].
#[derive(Debug, Default)]
pub struct AskReader {
    request: Option<(String, Url)>,
    fields: Vec<(String, String)>,
    from: Option<IpAddr>,
    to: Option<String>,
    protocol: Option<Protocol>,
    answer: Answer,
    /// One object instead of lines (`--format json`).
    pub json: bool,
}

impl AskReader {
    /// Takes an option, whose value `value` gives; false for a word that is none of them.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn option<'w>(
        &mut self,
        word: &str,
        mut value: impl FnMut(&str) -> Result<&'w str, String>,
    ) -> Result<bool, String> {
        match word {
            "--from" => {
                let from = value("an address")?;
                self.from = Some(from.parse().map_err(|_| format!("'{from}' is not an IP address"))?);
            }
            "--to" => self.to = Some(value("the name of a frontend or bind")?.to_owned()),
            "--http" => {
                let version = value("a version of HTTP")?;
                let number = version.parse().map_err(|_| format!("'{version}' is not a version of HTTP"))?;
                self.protocol = Some(Protocol::of_version(number)?);
            }
            "-H" => self.fields.push(field(value("a header field")?)?),
            "--status" => {
                let status = value("a status")?;
                let number = status.parse().ok().filter(|status| (200..600).contains(status));
                self.answer.status =
                    number.ok_or_else(|| format!("'{status}' is not a status from 200 to 599"))?;
            }
            "--answer-header" => self.answer.fields.push(field(value("a header field")?)?),
            "--format" => {
                self.json = match value("text or json")? {
                    "text" => false,
                    "json" => true,
                    other => return Err(format!("'{other}' is neither text nor json")),
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the request, `<method> <url>`; false when it was given already.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn request(&mut self, text: &str) -> Result<bool, String> {
        if self.request.is_some() {
            return Ok(false);
        }
        let (method, url) = text.split_once(' ').ok_or("a request is a method and a URL, in one argument")?;
        self.request = Some((method.to_owned(), Url::parse(url.trim())?));
        Ok(true)
    }

    /// All of it.
    ///
    /// # Errors
    /// There was no request.
    pub fn ask(self, body: Vec<u8>) -> Result<Ask, String> {
        let none = "no request was given; it looks like 'GET https://www.example.com/'";
        let (method, url) = self.request.ok_or(none)?;
        let AskReader { fields, from, to, protocol, answer, .. } = self;
        Ok(Ask { method, url, fields, body, from: from.unwrap_or(FROM), to, protocol, answer })
    }
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("'{text}' is not '<name>: <value>'"))?;
    if name.trim().is_empty() || text.contains(['\r', '\n']) {
        return Err(format!("'{text}' is not '<name>: <value>'"));
    }
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
