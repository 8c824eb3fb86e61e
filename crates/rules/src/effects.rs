//! What rules ask of the caller besides edits of the messages.

use std::rc::Rc;

use thalweg_stick::Held;

use thalweg_sample::TableId;
use thalweg_sample::facts::Attached;
use thalweg_sample::pattern::RegexScratch;

/// Settings that rules changed, to be applied by the owner of the connection. `None`: not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `set-fc-mark`: the mark of packets to the client.
    pub fc_mark: Option<u32>,
    /// `set-fc-tos`: the TOS byte of packets to the client.
    pub fc_tos: Option<u8>,
    /// `set-bc-mark`: the mark of packets to the server.
    pub bc_mark: Option<u32>,
    /// `set-bc-tos`: the TOS byte of packets to the server.
    pub bc_tos: Option<u8>,
    /// `set-nice`, -1024 to 1024.
    pub nice: Option<i16>,
    /// `disable-l7-retry`.
    pub no_l7_retry: bool,
    /// `expect-proxy layer4`: read a PROXY header before anything else.
    pub expect_proxy: bool,
    /// `expect-netscaler-cip layer4`: read the header of a NetScaler before anything else.
    pub expect_netscaler: bool,
}

/// A bandwidth limitation that rules turned on.
#[derive(Clone, Debug)]
pub struct BandwidthLimit {
    /// The number of the filter.
    pub filter: u32,
    /// Bytes per period, in place of the filter's own.
    pub limit: Option<u32>,
    /// Milliseconds, in place of the filter's own.
    pub period_ms: Option<u32>,
    /// The entry that all streams with the same key share, of a filter with a key.
    pub shared: Option<Rc<Held>>,
}

impl PartialEq for BandwidthLimit {
    fn eq(&self, other: &BandwidthLimit) -> bool {
        let numbers = |limit: &BandwidthLimit| (limit.filter, limit.limit, limit.period_ms);
        let entry = |limit: &BandwidthLimit| limit.shared.as_ref().map(Rc::as_ptr);
        numbers(self) == numbers(other) && entry(self) == entry(other)
    }
}

/// Memory and results of running rules. One per stream or per thread; its buffers are reused, so that nothing is
/// allocated in the steady state.
#[derive(Debug, Default)]
pub struct Effects {
    /// Settings that rules changed.
    pub overrides: Overrides,
    /// Rewrites that failed, strict or not, for the counter of the same name.
    pub failed_rewrites: u32,
    /// The bandwidth limitations that rules turned on.
    pub bandwidth: Vec<BandwidthLimit>,
    /// A limit that is only tried out (`dry-run`) would have refused the request: its table.
    pub would_refuse: Option<TableId>,
    /// Where the client's connection goes, if not to a session of its own.
    pub attached: Option<Attached>,
    /// The header lines of a pending 103 response, `name: value\r\n` each.
    pub early_hints: Vec<u8>,
    /// The `location` of the redirection that was decided.
    pub location: Vec<u8>,
    /// The `set-cookie` of the redirection that was decided; empty: none.
    pub cookie: Vec<u8>,
    /// Where actions render formats.
    pub(crate) text: Vec<u8>,
    /// A second place, for actions with two formats.
    pub(crate) more: Vec<u8>,
    /// The groups of the last match of a `replace-*` action.
    pub(crate) groups: RegexScratch,
    /// Numbers of the rules of this ruleset that took what there was although more may come: evaluated again when it does.
    pub(crate) unsettled: Vec<usize>,
    /// True while rewrites that fail end the request (`strict-mode`). Set at the start of each ruleset.
    pub(crate) strict: bool,
}

impl Effects {
    /// Empty effects; allocates nothing.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Forgets everything but the memory, for the next stream.
    #[inline]
    pub fn reset(&mut self) {
        self.overrides = Overrides::default();
        self.failed_rewrites = 0;
        self.would_refuse = None;
        self.bandwidth.clear();
        self.attached = None;
        for buffer in
            [&mut self.early_hints, &mut self.location, &mut self.cookie, &mut self.text, &mut self.more]
        {
            buffer.clear();
        }
    }
}
