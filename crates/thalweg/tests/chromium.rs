//! A real browser, Chromium, driven through its debugging pipe: the statistics page, and a page of many files over HTTP/2. Skipped
//! where it is not installed.
//!
//! `THALWEG_SCREENSHOTS` names a directory to leave pictures in.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use support::tls::Authority;
use support::{Directory, Server, Setup, ok};

/// A browser has more to do than the proxy, and machines are busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// An installed Chromium: `CHROMIUM`, or one of its names in the path.
fn installed() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CHROMIUM") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let found = std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: no Chromium is installed to look at the page with");
    }
    found
}

/// A page in a browser of its own, which ends with it.
struct Browser {
    child: Child,
    to: File,
    answers: Receiver<Value>,
    /// What went wrong on the page: exceptions, refusals by its policy, errors in the console.
    complaints: Arc<Mutex<Vec<String>>>,
    session: String,
    number: u64,
    _home: Directory,
}

impl Browser {
    /// Opens a page; `None` if the browser does not start here.
    fn open(program: &PathBuf, url: &str) -> Option<Browser> {
        let home = Directory::new();
        let (to, from) = (home.0.join("to"), home.0.join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        // It reads commands from descriptor 3 and writes answers to descriptor 4.
        let child = Command::new("sh")
            .args(["-c", "program=$1; shift; exec \"$program\" \"$@\" 3<\"$HOME/to\" 4>\"$HOME/from\"", "sh"])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe"])
            .arg("--ignore-certificate-errors")
            .arg(format!("--user-data-dir={}", home.0.join("profile").display()))
            .arg("about:blank")
            .env("HOME", &home.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(home.0.join("log")).expect("a file in a directory of ours"))
            .spawn()
            .expect("sh");
        let to = fs::OpenOptions::new().read(true).write(true).open(&to).expect("a pipe");
        let from = File::open(&from).expect("a pipe");
        let (sender, answers) = channel();
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let ours = Arc::clone(&complaints);
        thread::spawn(move || {
            for message in BufReader::new(from).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice::<Value>(&message) else { return };
                match message["method"].as_str() {
                    Some("Runtime.exceptionThrown" | "Log.entryAdded") => {
                        ours.lock().unwrap().push(message["params"].to_string());
                    }
                    Some(_) => {}
                    None => drop(sender.send(message)),
                }
            }
        });
        let session = String::new();
        let mut browser = Browser { child, to, answers, complaints, session, number: 0, _home: home };
        let target = browser.try_ask("Target.createTarget", json!({"url": "about:blank"}))?;
        let attached =
            browser.ask("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.ask("Page.navigate", json!({"url": url}));
        browser.wait("document.readyState === 'complete' && location.protocol !== 'about:'");
        Some(browser)
    }

    fn try_ask(&mut self, method: &str, params: Value) -> Option<Value> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).ok()?;
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
            if answer["id"] == self.number {
                return Some(answer["result"].clone());
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|| panic!("the browser does not answer {method}"))
    }

    /// The value of an expression on the page.
    fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            assert!(Instant::now() < until, "never: {expression}\n{}", self.value("document.body.innerText"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Looks at the page on a screen of this size.
    fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Leaves a picture, if anybody wants one.
    fn picture(&mut self, name: &str, width: u32, height: u32, dark: bool) {
        let Some(directory) = std::env::var_os("THALWEG_SCREENSHOTS") else { return };
        self.resize(width, height);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", media);
        thread::sleep(Duration::from_millis(500));
        let picture = self.ask("Page.captureScreenshot", json!({}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap_or(""));
        self.ask("Emulation.clearDeviceMetricsOverride", json!({}));
        self.ask("Emulation.setEmulatedMedia", json!({"features": []}));
        fs::write(PathBuf::from(directory).join(name), bytes.expect("a picture")).expect("a directory");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text of a cell of a server's row.
fn cell(name: &str, cell: usize) -> String {
    format!(
        "[...document.querySelectorAll('tbody.servers tr')].find((row) => row.querySelector('a').textContent === '{name}')\
         .cells[{cell}].firstChild.textContent"
    )
}

/// Whether all states, sessions, rates and times are there whole, with their units.
const NOTHING_IS_CUT_OFF: &str = "[...document.querySelectorAll('tbody td:nth-child(2), tbody td:nth-child(5), tbody td:nth-child(6), tbody td:nth-child(7)')] \
     .flatMap((cell) => [cell, ...cell.querySelectorAll('small')]).every((part) => part.scrollWidth <= part.clientWidth)";

#[test]
fn the_page_lives_in_a_browser() {
    let Some(program) = installed() else { return };
    let server = Server::http(|_| ok("hello"));
    let dying = Server::http(|_| ok("hello"));
    let (addr, other) = (server.addr, dying.addr);
    let many: String = (0..30).map(|n| format!("server n{n} {addr} weight {}\n", 30 - n)).collect();
    let setup = Setup::http(&format!(
        "frontend fe\nbind <@fe>\nstats uri /stats\nstats admin if TRUE\nstats refresh 1s\nstats show-legends\n\
         description Shop & <script>document.title = 'taken'</script>\ndefault_backend app\n\
         backend app\noption httpchk\nserver a {addr} check inter 100\nserver b {other} check inter 100 fall 1\n\
         server spare {addr} backup\nserver off {addr} disabled check inter 60s\nserver far {addr} track off\nbackend many\n{many}"
    ));
    let proxy = setup.start("epoll");
    let url = format!("http://{}/stats", proxy.addr("fe"));
    let Some(mut browser) = Browser::open(&program, &url) else {
        eprintln!("skipped: this Chromium does not start here");
        return;
    };
    browser.wait("Boolean(document.querySelector('.live'))");
    // It lives, and stays the same document though the header asks to load it again every second.
    browser.value("window.same = true");
    browser.wait(&format!("{} === 'UP'", cell("a", 1)));
    let before = browser.value("document.getElementById('i-requests').textContent");
    browser.wait(&format!("document.getElementById('i-requests').textContent !== {before}"));
    for _ in 0..20 {
        proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    browser.wait(&format!("Number({}) > 0", cell("a", 7)));
    browser.wait("document.querySelectorAll('polyline').length > 10");
    browser.picture("light.png", 1280, 900, false);
    browser.picture("dark.png", 1280, 900, true);
    browser.picture("phone.png", 390, 844, false);
    browser.picture("phone-dark.png", 390, 844, true);
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.resize(width, height);
        browser.wait(NOTHING_IS_CUT_OFF);
    }
    browser.ask("Emulation.clearDeviceMetricsOverride", json!({}));

    // Filtered by text, and by state.
    let shown = "[...document.querySelectorAll('tbody tr')].filter((row) => row.checkVisibility()).map((row) => \
                 row.querySelector('a').textContent).join(' ')";
    let filter = |text: &str, state: &str| {
        format!(
            "{{ const [text, state] = document.querySelectorAll('.live input, .live select'); text.value = '{text}'; \
             state.value = '{state}'; text.dispatchEvent(new Event('input')); }}"
        )
    };
    browser.value(&filter("many/n2", ""));
    assert_eq!(browser.value(shown), "n2 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29");
    browser.value(&filter("", "problems"));
    assert_eq!(browser.value(shown), "off far");
    browser.value(&filter("", ""));
    assert!(browser.value(shown).as_str().is_some_and(|rows| rows.contains("n7")));

    // Sorted by weight, by keyboard.
    let order = "[...document.querySelectorAll('#main section:last-of-type tbody.servers a')].map((a) => a.textContent).join(' ')";
    let weight = "document.querySelector('#main section:last-of-type thead th:nth-child(3) button')";
    browser.value(&format!("{weight}.focus()"));
    for (first, sorted) in [("n0 n1 ", "descending"), ("n29 n28 ", "ascending")] {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            let key = json!({"type": kind, "key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
            browser.ask("Input.dispatchKeyEvent", key);
        }
        browser
            .wait(&format!("{weight}.parentNode.ariaSort === '{sorted}' && ({order}).startsWith('{first}')"));
    }

    // A server is drained without leaving the page.
    browser.value(
        "{ const form = document.querySelector('form[method=post]'); form.querySelector('input[value=a]').click(); \
         form.querySelector('select').value = 'drain'; form.querySelector('.act button').click(); }",
    );
    browser.wait(
        "document.getElementById('news').textContent.includes('Done')
        || document.getElementById('news').textContent.includes('DRAIN')",
    );
    browser.wait(&format!("{} === 'DRAIN'", cell("a", 1)));

    // A server that goes down is seen, and said.
    let began = Instant::now();
    drop(dying);
    browser.wait(&format!("{} === 'DOWN'", cell("b", 1)));
    eprintln!("a server that went down was seen after {} ms", began.elapsed().as_millis());
    browser.wait("/app\\/b was .*, now DOWN/.test(document.getElementById('news').textContent)");
    assert_eq!(browser.value("document.getElementById('news').getAttribute('role')"), "status");

    // A browser that is slow with a small page does not look much less often.
    browser.value(
        "{ let now = 0; window.delays = []; performance.now = () => now; const [ask, later] = [fetch, setTimeout]; \
         window.fetch = async (...of) => { const answer = await ask(...of); now += 400; return answer; }; \
         window.setTimeout = (what, ms) => { if (what.name === 'look') delays.push(ms); return later(what, 50); }; }",
    );
    browser.wait("delays.length > 2");
    assert_eq!(browser.value("[...new Set(delays.slice(1))]"), json!([800]));

    // A row's details, and back.
    browser.value(
        "[...document.querySelectorAll('tbody.servers a')].find((a) => a.textContent === 'b').click()",
    );
    browser.wait("document.querySelector('dialog[open] h1')?.textContent === 'app/b'");
    browser.picture("row.png", 1280, 900, false);
    browser.value("document.querySelector('dialog button').click()");
    browser.wait("!document.querySelector('dialog[open]')");

    // Everything that can be operated has a name.
    let tree = browser.ask("Accessibility.getFullAXTree", json!({}));
    for node in tree["nodes"].as_array().expect("a tree") {
        let role = node["role"]["value"].as_str().unwrap_or("");
        if matches!(role, "button" | "checkbox" | "combobox" | "searchbox" | "textbox" | "link") {
            let name = node["name"]["value"].as_str().unwrap_or("");
            assert!(!name.is_empty(), "a {role} without a name: {node}");
        }
    }
    assert_eq!(browser.value("window.same"), true, "the page was loaded again");
    assert!(!browser.value("document.title").as_str().unwrap_or("").contains("taken"));
    let complaints = browser.complaints.lock().unwrap().clone();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// A large page is the same as a small one, but for rows out of sight, which are not laid out.
#[test]
fn a_large_page_is_laid_out_as_far_as_it_is_seen() {
    let Some(program) = installed() else { return };
    let server = Server::http(|_| ok("hello"));
    let addr = server.addr;
    let many: String = (0..600).map(|n| format!("server n{n} {addr}\n")).collect();
    let setup = Setup::http(&format!(
        "frontend fe\nbind <@fe>\nstats uri /stats\nstats show-modules\ndefault_backend many\nbackend many\n{many}"
    ));
    let proxy = setup.start("epoll");
    let Some(mut browser) = Browser::open(&program, &format!("http://{}/stats", proxy.addr("fe"))) else {
        return;
    };
    browser.wait("Boolean(document.querySelector('.live'))");
    browser.value("document.querySelector('tbody.servers').closest('details').open = true");
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.resize(width, height);
        // Heads stand over their columns.
        browser.wait(
            "(() => { const table = document.querySelector('tbody.servers').closest('table'); \
             const places = (row) => [...row.cells].filter((cell) => cell.checkVisibility()).map((cell) => { \
             const { left, right } = cell.getBoundingClientRect(); return left + ' ' + right; }).join(); \
             return places(table.tHead.rows[0]) === places(table.tBodies[1].rows[0]); })()",
        );
        browser.wait(NOTHING_IS_CUT_OFF);
        let picture = format!("large-{width}.png");
        browser.picture(&picture, width, height, false);
    }
    let laid_out = "[...document.querySelectorAll('tbody.servers tr')].filter((row) => \
                    row.cells[0].checkVisibility({ contentVisibilityAuto: true })).length";
    let laid_out = browser.value(laid_out).as_u64().expect("a number");
    assert!((1..300).contains(&laid_out), "{laid_out} of 600");

    // Sorted by name, the other way round; and filtered.
    let head = "document.querySelector('tbody.servers').closest('table').querySelector('thead button')";
    let first = "document.querySelector('tbody.servers a').textContent";
    browser.value(&format!("{head}.click(); {head}.click()"));
    assert_eq!(browser.value(first), "n599");
    browser.value(
        "{ const text = document.querySelector('.live input'); text.value = 'many/n59'; \
         text.dispatchEvent(new Event('input')); }",
    );
    let shown =
        "[...document.querySelectorAll('tbody.servers tr')].filter((row) => row.checkVisibility()).length";
    assert_eq!(browser.value(shown), 11);

    // To those who listen it is a table all the same.
    let tree = browser.ask("Accessibility.getFullAXTree", json!({}));
    let roles = |role: &str| {
        tree["nodes"].as_array().expect("a tree").iter().filter(|node| node["role"]["value"] == role).count()
    };
    let found = ["table", "row", "rowheader", "columnheader", "cell"].map(roles);
    assert!(found.iter().zip([1, 11, 5, 5, 20]).all(|(found, least)| *found >= least), "{found:?}");
}

/// What there was before the page was opened is on its curves at once.
#[test]
fn curves_begin_before_the_page_was_opened() {
    let Some(program) = installed() else { return };
    let server = Server::http(|_| ok("hello"));
    let setup = Setup::http(&format!(
        "frontend fe\nbind <@fe>\nstats uri /stats\ndefault_backend app\nbackend app\nserver a {}\n",
        server.addr
    ));
    let proxy = setup.start("epoll");
    let kept = |proxy: &support::Proxy| -> Value {
        let figures = proxy.ask("GET /stats;live=past HTTP/1.1\r\nHost: h\r\n\r\n").text();
        let figures: Value = serde_json::from_str(&figures).expect("JSON");
        let rows = figures["rows"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row[0] == "3.2.1").expect("the server's row")[23].clone()
    };
    // Somebody looked at the page before.
    assert_eq!(kept(&proxy), json!([[], []]));
    for _ in 0..20 {
        proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    let until = Instant::now() + PATIENCE;
    let begun =
        |kept: &Value| kept[0].as_array().into_iter().flatten().filter_map(Value::as_u64).sum::<u64>();
    while begun(&kept(&proxy)) < 20 {
        assert!(Instant::now() < until, "never kept: {}", kept(&proxy));
        thread::sleep(Duration::from_millis(100));
    }
    let Some(mut browser) = Browser::open(&program, &format!("http://{}/stats", proxy.addr("fe"))) else {
        return;
    };
    // Nothing came since, so that curves of the page's own would be flat.
    for column in [5, 6] {
        let points = format!(
            "[...(document.querySelector('tbody.servers tr').cells[{column}].querySelector('polyline')?.points ?? [])]"
        );
        browser.wait(&format!("{points}.length > 1"));
        browser.wait(&format!("{points}.some((point) => point.y < 13)"));
    }
}

/// Files of a page.
const FILES: usize = 300;

/// A page of many small files comes over one connection of HTTP/2, and what a browser does on it costs it nothing.
#[test]
fn a_page_of_many_files_over_http_2() {
    let Some(program) = installed() else { return };
    let server = Server::http(|_| ok("file"));
    let authority = Authority::new("authority");
    let certificate = authority.issue("h.example");
    let fetching = format!(
        "<script>Promise.all([...Array({FILES}).keys()].map(n => fetch('/f' + n).then(r => r.text())))\
         .then(all => document.title = 'files: ' + all.filter(text => text === 'file').length)</script>"
    );
    let text = format!(
        "frontend fe\nbind <@fe> ssl crt {certificate}\nlog-format \"%HV %ST %ts glitches %[fc_glitches]\"\n\
         http-request return status 204 if {{ path /favicon.ico }}\n\
         http-request return status 200 content-type text/html string \"{fetching}\" if {{ path / }}\n\
         default_backend be\nbackend be\nserver s {}\n",
        server.addr
    );
    let proxy = Setup::http(&text).start("auto");
    let Some(mut browser) = Browser::open(&program, &format!("https://{}/", proxy.addr("fe"))) else {
        return;
    };
    browser.wait(&format!("document.title === 'files: {FILES}'"));
    // A browser opens connections to spare and may leave one in its handshake.
    let requests =
        std::iter::repeat_with(|| proxy.log()).filter(|line| !line.ends_with(": SSL handshake failure"));
    for line in requests.take(FILES) {
        assert!(line.starts_with("HTTP/2.0 20") && line.ends_with(" glitches 0"), "{line}");
    }
    drop(browser);
    proxy.finish(server);
}
