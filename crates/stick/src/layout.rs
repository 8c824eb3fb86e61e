//! Where the values of an entry lie.

use crate::data::{DataType, EVENTS, Event, KINDS, Shape, Stored};
use crate::table::Spec;

/// The words of an entry before its key and values.
pub(crate) mod header {
    /// Who holds it: see `entry`.
    pub const HOLDERS: usize = 0;
    /// Its deadline, or when it was last touched.
    pub const STAMP: usize = 1;
    /// The next entry of its bucket, or of the free ones; 0: none, else its number plus one.
    pub const NEXT: usize = 2;
    /// Its neighbours in the queue, in the same form.
    pub const AFTER: usize = 3;
    pub const BEFORE: usize = 4;
    /// The upper 26 bits of the hash, and the slot of the queue it is in.
    pub const TAG: usize = 5;
    /// Number of these.
    pub const LEN: usize = 6;
}

/// A kind of data and the first of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub stored: Stored,
    pub at: u16,
    pub shape: Shape,
}

/// The most counters of 32 bits, and rates, that an event changes.
const NARROW: usize = 3;
const RATES: usize = 2;

/// The values that an event changes, by the way they are changed: what [`Layout::find`] says of them, looked up when the table was
/// made. Behind the last one of a kind is [`NONE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// False when the table stores nothing of the event.
    pub are_stored: bool,
    /// Counters of 32 bits.
    pub narrow: [u16; NARROW],
    /// A counter of 64 bits.
    pub wide: u16,
    pub rates: [Rate; RATES],
}

/// Whatever an event changes has a place there, and is changed by [`crate::Values::count`]: bytes are counted in 64 bits, and all else in 32.
const _: () = {
    let mut event = 0;
    while event < EVENTS {
        let kinds = Event::ALL[event].kinds();
        let (mut narrow, mut wide, mut rates) = (0, 0, 0);
        let mut at = 0;
        while at < kinds.len() {
            match kinds[at].shape() {
                Shape::Counter => narrow += 1,
                Shape::Long => wide += 1,
                Shape::Rate => rates += 1,
                Shape::Name => panic!("names are not counted"),
            }
            at += 1;
        }
        match Event::ALL[event] {
            Event::BytesIn | Event::BytesOut => assert!(narrow == 0 && wide <= 1),
            _ => assert!(narrow <= NARROW && wide == 0),
        }
        assert!(rates <= RATES);
        event += 1;
    }
};

/// The place of what is not stored.
pub(crate) const NONE: u16 = u16::MAX;

impl Counts {
    const NOTHING: Counts = Counts {
        are_stored: false,
        narrow: [NONE; NARROW],
        wide: NONE,
        rates: [Rate { at: NONE, period_ms: 0, factor: 1 }; RATES],
    };
}

/// A rate that an event changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub at: u16,
    pub period_ms: u32,
    /// What one event stands for.
    pub factor: u32,
}

/// The words of an entry: 32 bits for counters, 64 bits for byte counts and rates.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    places: [Option<Place>; KINDS],
    /// A bit for each kind that is found, be it as the first element of an array.
    found: u32,
    /// Words of 32 bits, the header and the key among them.
    pub narrow: usize,
    /// Words of 64 bits.
    pub wide: usize,
    /// The first 32-bit word after the key.
    pub values: usize,
    /// The word by which entries that changed are linked for the peers; `None` in a table without.
    pub link: Option<usize>,
    /// The 64-bit word of the token bucket, in a table that has one for each entry.
    pub bucket: Option<usize>,
    /// The values that an event changes, of those that are stored.
    counts: [Counts; EVENTS],
    /// The number of connections that track an entry, if that is stored.
    pub connections: Option<u16>,
}

impl Layout {
    pub fn new(spec: &Spec) -> Layout {
        let mut places = [None; KINDS];
        let values = header::LEN + spec.key.words();
        let (mut narrow, mut wide) = (values, 0);
        for stored in &spec.data {
            let count = usize::from(stored.count);
            let at = match stored.kind.shape() {
                Shape::Counter | Shape::Name => {
                    narrow += count;
                    narrow - count
                }
                Shape::Long => {
                    wide += 1;
                    wide - 1
                }
                Shape::Rate => {
                    wide += 2 * count;
                    wide - 2 * count
                }
            };
            // Keys have at most 64 kB, and all arrays together 500 words.
            places[stored.kind as usize] = Some(Place {
                stored: *stored,
                at: u16::try_from(at).unwrap_or(u16::MAX),
                shape: stored.kind.shape(),
            });
        }
        let shared = spec.peers.is_some();
        let link = shared.then_some(narrow);
        let bucket = spec.bucket.then_some(wide);
        let mut layout = Layout {
            places,
            found: u32::MAX,
            narrow: narrow + usize::from(shared),
            wide: wide + usize::from(spec.bucket),
            values,
            link,
            bucket,
            counts: [Counts::NOTHING; EVENTS],
            connections: places[DataType::ConnCur as usize].map(|place| place.at),
        };
        layout.found = DataType::all()
            .filter(|kind| layout.find(*kind, 0).is_some())
            .fold(0, |all, kind| all | bit(kind));
        layout.counts = Event::ALL.map(|event| layout.counts_of(event, spec.byte_rate_factor));
        layout
    }

    fn counts_of(&self, event: Event, byte_rate_factor: u32) -> Counts {
        let stored = || event.kinds().iter().filter_map(|kind| self.find(*kind, 0)).map(|(place, _)| place);
        let of = |shape: Shape| stored().filter(move |place| place.shape == shape);
        let mut counts = Counts { are_stored: stored().next().is_some(), ..Counts::NOTHING };
        for (slot, place) in counts.narrow.iter_mut().zip(of(Shape::Counter)) {
            *slot = place.at;
        }
        for place in of(Shape::Long) {
            counts.wide = place.at;
        }
        for (slot, Place { stored, at, .. }) in counts.rates.iter_mut().zip(of(Shape::Rate)) {
            let factor = if stored.kind.is_byte_rate() { byte_rate_factor } else { 1 };
            *slot = Rate { at, period_ms: stored.period_ms, factor };
        }
        counts
    }

    /// The values that an event changes.
    #[inline]
    pub fn counts(&self, event: Event) -> &Counts {
        &self.counts[event as usize]
    }

    /// Where element `index` of a kind is: itself, or in the array that stands for it.
    #[inline]
    pub fn find(&self, kind: DataType, index: u16) -> Option<(Place, u16)> {
        if self.found & bit(kind) == 0 {
            return None;
        }
        let (place, index) = match self.places[kind as usize] {
            Some(place) => (place, index),
            None => {
                let (array, first) = kind.array()?;
                (self.places[array as usize]?, first)
            }
        };
        (index < place.stored.count).then_some((place, index))
    }

    /// What is stored of a kind, under its own name.
    pub fn stored(&self, kind: DataType) -> Option<Stored> {
        self.places[kind as usize].map(|place| place.stored)
    }
}

const fn bit(kind: DataType) -> u32 {
    1 << kind as u32
}
