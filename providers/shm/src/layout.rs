//! Where things lie in a rank's area of the node memory.
//!
//! ```text
//!   line 0        Header        parameters; state EMPTY ─► OPENING ─► OPEN ─► CLOSED
//!   line 1        Attention     bumped by peers when something rare is to be checked
//!   known         Senders       ranks of this node memory that have connected to the owner
//!   refused       Senders       senders that the owner does not listen to any more
//!   guests        GuestEntry    peers from other node memories
//!   registrations u64 each      generation of a piece of registered memory, odd while reachable
//!   SCMP queue                  see bowline_base::scmp::seq
//!   rings                       see bowline_base::ring
//! ```
//!
//! All offsets follow from the parameters. A peer reads the parameters once, when it connects,
//! checks them and computes the offsets for itself, so that nothing that is written into the
//! header later moves anything. Ranks may have different parameters.
//!
//! Every type here consists of atomics and padding: any bit pattern is valid, and readers treat
//! what they find as an untrusted peer's data.

use bowline_base::sync::LINE;
use bowline_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use bowline_base::{ring, scmp};

use crate::options::ShmOptions;

/// "BOWLSHM" and a byte that no text has.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"BOWLSHM\x9d");
/// Changes with every change of the layout or of the protocol spoken in it.
pub(crate) const VERSION: u32 = 4;

/// States of an area (`Header::state`). Only the owner writes it.
///
/// 1. `EMPTY` is the zero that memory starts with.
/// 2. The owner claims the area by a compare-and-swap to `OPENING`, fills it in, and stores
///    `OPEN` with Release; a process that loads `OPEN` with Acquire may use the queues.
/// 3. `CLOSED` is final: the owner reads nothing any more.
pub(crate) mod state {
    /// Nobody opened an interface here.
    pub(crate) const EMPTY: u32 = 0;
    /// Being filled in.
    pub(crate) const OPENING: u32 = 1;
    /// In use.
    pub(crate) const OPEN: u32 = 2;
    /// Its interface was dropped.
    pub(crate) const CLOSED: u32 = 3;
}

/// The first line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) state: AtomicU32,
    pub(crate) scmp_slots: AtomicU32,
    pub(crate) rings: AtomicU32,
    pub(crate) ring_slots: AtomicU32,
    pub(crate) ring_data: AtomicU32,
    pub(crate) guests: AtomicU32,
    pub(crate) registrations: AtomicU32,
    pub(crate) max_bcopy: AtomicU32,
    pub(crate) first_ring_data: AtomicU32,
}

/// The second line. The number only has to differ from the one that the owner saw last: after a
/// change the owner reads the states of its peers, its guests, and the rings that it owns.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Attention {
    pub(crate) word: AtomicU32,
}

/// One bit for each sender that a queue can distinguish, by its number.
///
/// 1. `known`: a rank that connects sets its bit (a guest has an entry instead). The owner rings
///    those ranks when it closes, and nobody else, so that it maps no memory of ranks that it never
///    spoke to. A rank sets the bit, makes a fence and reads the owner's state; an owner that
///    closes stores the state, makes a fence and reads the bits. So one of the two sees the other.
/// 2. `refused`: the owner sets the bit of a sender that wrote what cannot be, or of all when its
///    queue is damaged, and bumps their attention. A sender that finds its bit gives the owner up.
///    The bit of a guest's number is cleared before the entry is free again.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Senders {
    words: [AtomicU64; SENDERS / 64],
}

/// Numbers that a queue distinguishes.
const SENDERS: usize = 1 << 16;

impl Senders {
    /// Sets or clears the bit of a sender.
    pub(crate) fn set(&self, sender: u32, on: bool) {
        let Some(word) = self.words.get(sender as usize / 64) else { return };
        let bit = 1 << (sender % 64);
        // Release pairs with the Acquire of `has`; `known` is ordered by fences.
        if on {
            word.fetch_or(bit, Ordering::Release);
        } else {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    /// Whether the bit of a sender is set.
    pub(crate) fn has(&self, sender: u32) -> bool {
        // Acquire pairs with the Release of `set`.
        let word = self.words.get(sender as usize / 64).map(|word| word.load(Ordering::Acquire));
        word.is_some_and(|word| word & (1 << (sender % 64)) != 0)
    }

    /// The senders below `end` whose bits are set.
    pub(crate) fn below(&self, end: u32) -> impl Iterator<Item = u32> + '_ {
        (0..end).step_by(64).flat_map(move |first| {
            // Relaxed: ordered by the fences of rule 1.
            let word = self.words[first as usize / 64].load(Ordering::Relaxed);
            (first..end.min(first + 64)).filter(move |sender| word & (1 << (sender % 64)) != 0)
        })
    }
}

/// A peer from another node memory.
///
/// 1. `state` is 0 while free. A guest claims it by a compare-and-swap to `CLAIMED`, beside which
///    stands its pid, fills in the identity, stores `JOINED` (Release) and bumps the host's
///    attention. An entry that is claimed by a process that has ended may be claimed by the next.
/// 2. The host opens the guest's memory, so that it can wake the guest and see its death, and
///    answers by storing `WELCOME`, or `UNSEEN` when it could not. An unseen guest does not sleep
///    while it waits for space.
/// 3. A guest that leaves stores `LEFT`; the host frees the entry (stores 0) when it has read all
///    that the guest published. The entry of a dead guest is freed by the host in the same way.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct GuestEntry {
    pub(crate) state: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) start_time: AtomicU64,
    pub(crate) instance: AtomicU64,
    pub(crate) node: AtomicU64,
    pub(crate) fd: AtomicU32,
    pub(crate) local: AtomicU32,
    pub(crate) uid: AtomicU32,
    pub(crate) pad: AtomicU32,
    pub(crate) pad2: [AtomicU64; 2],
    /// As `ControlBlock::intent`, for this guest's messages to this area.
    pub(crate) intent: AtomicU64,
    pub(crate) intent_pad: [AtomicU64; 7],
    /// 1 while the guest sleeps and waits for space in this area's queues.
    pub(crate) waiting: AtomicU32,
    pub(crate) waiting_pad: [AtomicU32; 15],
}

/// States of a guest entry.
pub(crate) mod guest {
    /// Nobody.
    pub(crate) const FREE: u32 = 0;
    /// Being filled in by the process whose pid stands above these bits.
    pub(crate) const CLAIMED: u32 = 1;
    /// Bits of the state; a pid has 22.
    const BITS: u32 = 3;

    /// Claimed by this process.
    pub(crate) const fn claimed_by(pid: u32) -> u32 {
        (pid << BITS) | CLAIMED
    }

    /// The process that fills in an entry in this state.
    pub(crate) fn claimer(state: u32) -> Option<u32> {
        (state & ((1 << BITS) - 1) == CLAIMED).then_some(state >> BITS)
    }
    /// Complete; the host has not read it yet.
    pub(crate) const JOINED: u32 = 2;
    /// The host can wake this guest.
    pub(crate) const WELCOME: u32 = 3;
    /// The host cannot wake this guest.
    pub(crate) const UNSEEN: u32 = 4;
    /// The guest is gone and will not write any more.
    pub(crate) const LEFT: u32 = 5;
}

/// Types that may be laid over shared memory.
///
/// # Safety
/// - The type must consist of atomics and padding only, and be valid for every bit pattern.
pub(crate) unsafe trait Shared {}
// SAFETY: atomics and padding only.
unsafe impl Shared for Header {}
// SAFETY: atomics and padding only.
unsafe impl Shared for Attention {}
// SAFETY: atomics only.
unsafe impl Shared for Senders {}
// SAFETY: atomics and padding only.
unsafe impl Shared for GuestEntry {}
// SAFETY: an atomic.
unsafe impl Shared for AtomicU64 {}

/// The numbers from which the layout follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) scmp_slots: u32,
    pub(crate) rings: u32,
    pub(crate) ring_slots: u32,
    pub(crate) ring_data: u32,
    pub(crate) guests: u32,
    pub(crate) registrations: u32,
    pub(crate) max_bcopy: u32,
    pub(crate) first_ring_data: u32,
}

/// Offsets from the start of an area, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) parameters: Parameters,
    pub(crate) known: usize,
    pub(crate) refused: usize,
    pub(crate) guests: usize,
    pub(crate) registrations: usize,
    pub(crate) scmp: usize,
    pub(crate) scmp_bytes: usize,
    pub(crate) first_ring: usize,
    pub(crate) first_ring_bytes: usize,
    /// Of each other ring.
    pub(crate) ring_bytes: usize,
    pub(crate) total: usize,
}

impl Parameters {
    /// The parameters that follow from options: rounded so that every combination works.
    pub(crate) fn of_options(options: &ShmOptions) -> Self {
        let max_bcopy = options.max_bcopy.clamp(scmp::FIRST_BYTES, MAX_BCOPY);
        let mut scmp_slots =
            options.scmp_slots.clamp(scmp::MIN_SLOTS, scmp::MAX_SLOTS).next_power_of_two();
        while scmp::max_message_bytes(scmp_slots) < max_bcopy {
            scmp_slots *= 2;
        }
        // A quarter of the data area must hold the longest message, so that a message that does
        // not fit before the area's end never has to wait for an empty ring.
        let ring_data = options.ring_data.clamp(4 * max_bcopy, MAX_RING_DATA).next_power_of_two();
        let first = options.first_ring_data.clamp(ring_data, MAX_RING_DATA).next_power_of_two();
        Self {
            scmp_slots,
            rings: options.rings.min(MAX_RINGS),
            ring_slots: options.ring_slots.clamp(8, 1 << 16).next_power_of_two(),
            ring_data: ring_data as u32,
            guests: options.guests.min(MAX_GUESTS),
            registrations: options.registrations.clamp(1, MAX_REGISTRATIONS),
            max_bcopy: max_bcopy as u32,
            first_ring_data: first as u32,
        }
    }

    /// What a peer's header says, if it can be true.
    pub(crate) fn of_header(header: &Header) -> Option<Self> {
        // Relaxed, each read once: published by the state, which the caller loaded with Acquire.
        let found = Self {
            scmp_slots: header.scmp_slots.load(Ordering::Relaxed),
            rings: header.rings.load(Ordering::Relaxed),
            ring_slots: header.ring_slots.load(Ordering::Relaxed),
            ring_data: header.ring_data.load(Ordering::Relaxed),
            guests: header.guests.load(Ordering::Relaxed),
            registrations: header.registrations.load(Ordering::Relaxed),
            max_bcopy: header.max_bcopy.load(Ordering::Relaxed),
            first_ring_data: header.first_ring_data.load(Ordering::Relaxed),
        };
        let true_powers = found.scmp_slots.is_power_of_two()
            && found.ring_slots.is_power_of_two()
            && found.ring_data.is_power_of_two()
            && found.first_ring_data.is_power_of_two();
        let in_range = (scmp::MIN_SLOTS..=scmp::MAX_SLOTS).contains(&found.scmp_slots)
            && found.rings <= MAX_RINGS
            && (ring::MIN_SLOTS..=ring::MAX_SLOTS).contains(&found.ring_slots)
            && (ring::MIN_DATA..=MAX_RING_DATA as u32).contains(&found.ring_data)
            && (found.ring_data..=MAX_RING_DATA as u32).contains(&found.first_ring_data)
            && found.guests <= MAX_GUESTS
            && found.registrations <= MAX_REGISTRATIONS
            && found.max_bcopy as usize <= scmp::max_message_bytes(found.scmp_slots)
            && found.max_bcopy <= found.ring_data / 4;
        (true_powers && in_range).then_some(found)
    }

    pub(crate) fn shape(&self, ring: u32) -> ring::RingShape {
        let data = if ring == 0 { self.first_ring_data } else { self.ring_data };
        ring::RingShape { slots: self.ring_slots, data }
    }

    /// Writes the parameters; the state publishes them.
    pub(crate) fn write(&self, header: &Header) {
        // Relaxed: published by the Release store of the state.
        header.scmp_slots.store(self.scmp_slots, Ordering::Relaxed);
        header.rings.store(self.rings, Ordering::Relaxed);
        header.ring_slots.store(self.ring_slots, Ordering::Relaxed);
        header.ring_data.store(self.ring_data, Ordering::Relaxed);
        header.guests.store(self.guests, Ordering::Relaxed);
        header.registrations.store(self.registrations, Ordering::Relaxed);
        header.max_bcopy.store(self.max_bcopy, Ordering::Relaxed);
        header.first_ring_data.store(self.first_ring_data, Ordering::Relaxed);
    }
}

/// Longest packed message: what the length field of an SCMP slot can say.
pub(crate) const MAX_BCOPY: usize = scmp::max_message_bytes(scmp::MAX_SLOTS);
const MAX_RING_DATA: usize = 16 << 20;
const MAX_RINGS: u32 = 64;
const MAX_GUESTS: u32 = 4096;
const MAX_REGISTRATIONS: u32 = 1 << 20;

impl Layout {
    /// What is known of an area before its parameters are read: that it has a header.
    pub(crate) fn header_only() -> Self {
        let parameters = Parameters {
            scmp_slots: 0,
            rings: 0,
            ring_slots: 0,
            ring_data: 0,
            guests: 0,
            registrations: 0,
            max_bcopy: 0,
            first_ring_data: 0,
        };
        let end = size_of::<Header>();
        Self {
            parameters,
            known: end,
            refused: end,
            guests: end,
            registrations: end,
            scmp: end,
            scmp_bytes: 0,
            first_ring: end,
            first_ring_bytes: 0,
            ring_bytes: 0,
            total: end,
        }
    }

    /// The layout of an area with these parameters, which are within their ranges: the sum is far
    /// below `usize::MAX`.
    pub(crate) fn new(parameters: Parameters) -> Self {
        let known = size_of::<Header>() + size_of::<Attention>();
        let refused = known + size_of::<Senders>();
        let guests = refused + size_of::<Senders>();
        let registrations = guests + parameters.guests as usize * size_of::<GuestEntry>();
        let scmp = (registrations + parameters.registrations as usize * size_of::<AtomicU64>())
            .next_multiple_of(LINE);
        let scmp_bytes = scmp::seq::bytes_for(parameters.scmp_slots);
        // The two lines of a slot are a pair that processors fetch together.
        let first_ring = (scmp + scmp_bytes).next_multiple_of(2 * LINE);
        let first_ring_bytes = parameters.shape(0).bytes();
        let ring_bytes = parameters.shape(1).bytes();
        let mut layout = Self {
            parameters,
            known,
            refused,
            guests,
            registrations,
            scmp,
            scmp_bytes,
            first_ring,
            first_ring_bytes,
            ring_bytes,
            total: 0,
        };
        layout.total = first_ring + layout.rings_bytes();
        layout
    }

    /// Where a ring lies, and its bytes; `None` when there are fewer.
    pub(crate) fn ring(&self, number: u32) -> Option<(usize, usize)> {
        let place = match number.checked_sub(1) {
            None => (self.first_ring, self.first_ring_bytes),
            Some(before) => {
                let others = before as usize * self.ring_bytes;
                (self.first_ring + self.first_ring_bytes + others, self.ring_bytes)
            }
        };
        (number < self.parameters.rings).then_some(place)
    }

    pub(crate) fn rings_bytes(&self) -> usize {
        match self.parameters.rings.checked_sub(1) {
            None => 0,
            Some(others) => self.first_ring_bytes + others as usize * self.ring_bytes,
        }
    }
}

impl ShmOptions {
    /// Bytes that an area with these options takes: what
    /// [`JobSpec::area_bytes`](bowline_base::job::JobSpec) must be at least.
    pub fn area_bytes(&self) -> usize {
        Layout::new(Parameters::of_options(self)).total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_base::config::Config;

    #[test]
    fn nothing_overlaps_and_queues_start_on_lines() {
        let layout = Layout::new(Parameters::of_options(&ShmOptions::default()));
        let marks = [
            size_of::<Header>() + size_of::<Attention>(),
            layout.known + size_of::<Senders>(),
            layout.refused + size_of::<Senders>(),
            layout.guests,
            layout.registrations,
            layout.scmp,
            layout.first_ring,
            layout.total,
        ];
        assert!(marks.is_sorted(), "{layout:?}");
        assert_eq!(layout.scmp % LINE, 0);
        let mut end = layout.first_ring;
        for number in 0..layout.parameters.rings {
            let (start, bytes) = layout.ring(number).unwrap();
            assert_eq!(start, end, "ring {number}");
            assert_eq!(start % (2 * LINE), 0, "ring {number}");
            assert_eq!(bytes, layout.parameters.shape(number).bytes());
            end = start + bytes;
        }
        assert_eq!(end, layout.total);
        assert_eq!(layout.ring(layout.parameters.rings), None);
        assert_eq!(size_of::<GuestEntry>(), 3 * LINE);
        assert_eq!(size_of::<Header>(), LINE);
    }

    #[test]
    fn extreme_settings_are_rounded_to_what_works() {
        for (name, value) in [
            ("BOWLINE_SHM_SCMP_SLOTS", "17"),
            ("BOWLINE_SHM_RING_SLOTS", "9"),
            ("BOWLINE_SHM_RING_DATA", "5000"),
            ("BOWLINE_SHM_RING_DATA", "4M"),
            ("BOWLINE_SHM_FIRST_RING_DATA", "4K"),
            ("BOWLINE_SHM_FIRST_RING_DATA", "16M"),
            ("BOWLINE_SHM_RINGS", "0"),
            ("BOWLINE_SHM_MAX_BCOPY", "256"),
            ("BOWLINE_SHM_MAX_BCOPY", "31K"),
        ] {
            let config = Config::from_pairs([(name, value)], &[crate::options::SETTINGS]).unwrap();
            let parameters = Parameters::of_options(&ShmOptions::from_config(&config));
            // What is written into a header must be accepted by a peer.
            // SAFETY: all-zero atomics are valid.
            let header: Header = unsafe { std::mem::zeroed() };
            parameters.write(&header);
            assert_eq!(Parameters::of_header(&header), Some(parameters), "{name}={value}");
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let good = Parameters::of_options(&ShmOptions::default());
        let damages: [fn(&mut Parameters); 8] = [
            |p| p.scmp_slots = 3,
            |p| p.ring_slots = 0,
            |p| p.ring_data = u32::MAX,
            |p| p.rings = 1000,
            |p| p.guests = u32::MAX,
            |p| p.max_bcopy = u32::MAX,
            |p| p.first_ring_data = p.ring_data / 2,
            |p| p.first_ring_data = u32::MAX,
        ];
        for damage in damages {
            // SAFETY: all-zero atomics are valid.
            let header: Header = unsafe { std::mem::zeroed() };
            let mut bad = good;
            damage(&mut bad);
            bad.write(&header);
            assert_eq!(Parameters::of_header(&header), None, "{bad:?}");
        }
    }
}
