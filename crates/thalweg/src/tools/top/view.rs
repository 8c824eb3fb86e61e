//! What is looked at, and what keys change of it. No terminal here.

/// What rows are sorted by; those that are down come first in any case, and those that are alike keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Rate,
    Now,
    Queue,
    Out,
    Slowest,
    Errors,
    Name,
}

impl Sort {
    const ALL: [Sort; 7] =
        [Sort::Rate, Sort::Now, Sort::Queue, Sort::Out, Sort::Slowest, Sort::Errors, Sort::Name];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Rate => "requests",
            Sort::Now => "now",
            Sort::Queue => "queue",
            Sort::Out => "bytes out",
            Sort::Slowest => "slowest",
            Sort::Errors => "errors",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub sort: Sort,
    /// Nothing is asked.
    pub is_paused: bool,
    /// The one proxy that is shown; all of them without.
    pub proxy: Option<String>,
}

impl Default for View {
    fn default() -> View {
        View { sort: Sort::Rate, is_paused: false, proxy: None }
    }
}

/// What becomes of the view after some keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing changed.
    Same,
    /// It is to be shown anew.
    Changed,
    /// Nobody looks any more.
    Quit,
}

/// What Ctrl-C sends where it is no signal.
const INTERRUPT: u8 = 3;

impl View {
    /// Does what keys ask for; `proxies` are the names that can be chosen, in their order.
    pub fn press(&mut self, keys: &[u8], proxies: &[String]) -> After {
        let before = self.clone();
        for key in keys {
            match *key {
                b'q' | b'Q' | INTERRUPT => return After::Quit,
                b's' => self.sort = self.sort.next(),
                b' ' => self.is_paused = !self.is_paused,
                b'n' => self.choose(proxies, 1),
                b'p' => self.choose(proxies, proxies.len()),
                b'a' => self.proxy = None,
                _ => {}
            }
        }
        if *self == before { After::Same } else { After::Changed }
    }

    /// Goes on by some steps in the circle of all proxies and each of them.
    fn choose(&mut self, proxies: &[String], steps: usize) {
        let own = self.proxy.as_ref().and_then(|own| proxies.iter().position(|proxy| proxy == own));
        let at = own.map_or(0, |at| at + 1);
        let next = (at + steps) % (proxies.len() + 1);
        self.proxy = next.checked_sub(1).and_then(|at| proxies.get(at).cloned());
    }

    /// The line that says which keys there are, and what they chose.
    pub fn help(&self) -> String {
        let paused = if self.is_paused { "paused" } else { "pause" };
        let proxy = self.proxy.as_deref().unwrap_or("all");
        format!(
            "q quit   space {paused}   s sort: {}   n p a proxy: {}",
            self.sort.name(),
            super::shown(proxy, 40)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_what_is_looked_at() {
        let proxies = ["a".to_owned(), "b".to_owned()];
        let mut view = View::default();
        let mut press = |keys: &[u8]| {
            let after = view.press(keys, &proxies);
            (after, view.sort, view.is_paused, view.proxy.clone())
        };
        assert_eq!(press(b"x\x1b["), (After::Same, Sort::Rate, false, None));
        assert_eq!(press(b"n"), (After::Changed, Sort::Rate, false, Some("a".into())));
        assert_eq!(press(b"nn").3, None);
        assert_eq!(press(b"p").3, Some("b".into()));
        assert_eq!(press(b"a").3, None);
        assert_eq!(press(b"s ").1, Sort::Now);
        assert_eq!(press(b"ssssss").1, Sort::Rate);
        assert!(!press(b" ").2);
        assert_eq!((press(b"q").0, press(b"\x03").0), (After::Quit, After::Quit));
        assert!(view.help().contains("s sort: requests   n p a proxy: all"), "{}", view.help());
    }

    #[test]
    fn a_proxy_that_is_gone_is_none() {
        let mut view = View { proxy: Some("gone".into()), ..View::default() };
        assert_eq!(view.press(b"n", &["a".to_owned()]), After::Changed);
        assert_eq!(view.proxy.as_deref(), Some("a"));
        assert_eq!(view.press(b"n", &[]), After::Changed);
        assert_eq!(view.proxy, None);
    }
}
