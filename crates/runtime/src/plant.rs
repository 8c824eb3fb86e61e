//! Bugs that are planted to see whether the simulator finds them: `make simulate-planted`. They exist in builds with
//! `--cfg planted_bugs` only; elsewhere [`bug`] is the constant `false`, and what it guards is not compiled in.

/// Every bug that can be planted, and what it does.
pub const BUGS: [(&str, &str); 34] = [
    ("lost-wakeup", "a request that waits in a queue is not woken when its turn comes"),
    ("dirty-pool", "an idle connection on which bytes arrived is used again"),
    ("slot-kept", "a slot of a server's maxconn is not given back"),
    ("unsafe-repeat", "a POST is sent again when a kept connection ended under it"),
    ("line-lost", "a request that was tried again has no log line"),
    ("counted-twice", "the response of a request that was tried again counts twice"),
    ("buffer-leak", "what was received of a malformed response is never freed"),
    ("timer-left", "the client's timer runs on while a server is waited for"),
    ("answered-twice", "an error message is sent twice"),
    ("byte-dropped", "the byte at the end of a full buffer is lost"),
    ("missed-eof", "a response that was cut counts as complete"),
    ("queue-place-kept", "a request that gives up in a queue keeps its place"),
    ("cut-at-close", "a kept connection is closed before the last response has left"),
    ("deaf-listener", "a listener that could not be registered again stays paused"),
    ("spin", "the task that looks after idle connections never sleeps"),
    ("streams-crossed", "payload of HTTP/2 goes to the oldest stream of its connection"),
    ("window-kept", "what was taken of a stream of HTTP/2 is not given back to its sender"),
    ("end-unsaid", "the end of a message in frames that has a frame of its own is not sent"),
    ("reset-repeated", "a request whose stream its server of HTTP/2 gave up is sent again"),
    ("streams-counted", "streams of HTTP/2 that are over stay counted"),
    ("session-counted", "a session that ends with an error is counted for ever"),
    (
        "former-line",
        "connections made by a server's former line are used by its new one, and not those of the new one",
    ),
    ("pin-renewed", "a log line is written by the configuration in force at the end of its request"),
    ("pin-left", "who serves a request pins its configuration for good"),
    ("record-lost", "what comes behind the rest of a record of TLS is thrown away"),
    ("close-unsaid", "the end of a connection with TLS is not announced"),
    ("counters-forgotten", "what a server counted is forgotten when its line changes"),
    ("header-rest", "what comes at once behind a PROXY header is thrown away"),
    ("unix-check", "the check of a server on a unix socket finds no address to connect to"),
    ("check-content", "a check passes whatever its server says"),
    ("agent-unheard", "what an agent says is not heeded"),
    ("buffer-unwoken", "who waits for a buffer is not woken when there is one"),
    ("buffer-limit", "one buffer more is in use than there may be"),
    ("kept-lost", "a body that rules wait for is lost where there is no buffer for more of it"),
];

/// Whether the bug of this name is planted.
#[cfg(not(planted_bugs))]
#[inline(always)]
pub const fn bug(_name: &str) -> bool {
    false
}

/// Whether the bug of this name is planted.
#[cfg(planted_bugs)]
pub fn bug(name: &str) -> bool {
    debug_assert!(BUGS.iter().any(|(known, _)| *known == name), "{name}");
    CHOSEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner).as_deref() == Some(name)
}

#[cfg(planted_bugs)]
static CHOSEN: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);

/// Plants a bug, or none. False when this build has none.
pub fn choose(name: Option<&str>) -> bool {
    #[cfg(planted_bugs)]
    {
        *CHOSEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = name.map(str::to_owned);
    }
    let _ = name;
    cfg!(planted_bugs)
}
