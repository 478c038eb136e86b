//! What a simulated network is like. Times are virtual nanoseconds, chances are out of a million.

/// Whether the links repair what they lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkMode {
    /// Active messages arrive once and in order; faults show as delay.
    #[default]
    Reliable,
    /// Active messages are lost, doubled and overtaken. The interface then does not claim
    /// [`AM_ORDERED`](bowline_uct::Caps::AM_ORDERED). One-sided operations stay reliable.
    Raw,
}

/// Who moves time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drive {
    /// The caller of [`Network::advance`](crate::Network::advance).
    #[default]
    Caller,
    /// Also an interface whose progress finds nothing: it runs everything that is under way.
    OnIdle,
}

/// How often links misbehave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Chance of a transmission to be lost.
    pub loss: u32,
    /// After how long a reliable link sends again, in ns.
    pub retransmit_ns: u64,
    /// Chance of a message to be doubled.
    pub duplicate: u32,
    /// Chance of a message to be held back.
    pub reorder: u32,
    /// For how long at most it is held back, in ns.
    pub reorder_ns: u64,
}

/// When a rank dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At a time, in ns.
    At(u64),
    /// Instead of its operation with this number, counted from 1.
    Operation(u64),
}

/// The death of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Whose: interfaces are numbered in the order in which they are opened.
    pub node: u32,
    /// When.
    pub when: Moment,
}

/// A time during which some interfaces and the others do not hear of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPartition {
    /// Its begin, in ns.
    pub from_ns: u64,
    /// Its end, in ns; `u64::MAX` for none.
    pub until_ns: u64,
    /// The interfaces on one side.
    pub side: Vec<u32>,
}

impl NetworkPartition {
    /// Whether it parts `a` from `b` at a time.
    pub(crate) fn cuts(&self, a: u32, b: u32, now: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&now) && self.parts(a, b)
    }

    /// Whether `a` and `b` stand on different sides.
    pub(crate) fn parts(&self, a: u32, b: u32) -> bool {
        self.side.contains(&a) != self.side.contains(&b)
    }
}

/// What messages of one size take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesOfSize {
    /// Bytes of payload.
    pub bytes: u64,
    /// From the departure of such a message to its arrival, in ns.
    pub latency_ns: u64,
    /// Between two departures of such messages from one interface, in ns, bytes included.
    pub gap_ns: u64,
}

/// What a network is like. The default has the figures of a fast network and no fault.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// Everything random comes from it.
    pub seed: u64,
    /// From the departure of a message to its arrival, in ns.
    pub latency_ns: u64,
    /// Between two departures from one interface, in ns.
    pub gap_ns: u64,
    /// For each byte of payload, in ps.
    pub byte_ps: u64,
    /// Where latency and gap depend on the size: rows in ascending order of sizes, between which both are interpolated. They
    /// go before the three figures above, but for acknowledgements. Beyond the last size the gap grows as between the last
    /// two, or by `byte_ps` where there is one row.
    pub by_size: Vec<TimesOfSize>,
    /// For each byte that a get reads, in ps, in place of what messages take.
    pub read_ps: Option<u64>,
    /// Added to the latency, between 0 and so many ns, drawn anew for each operation.
    pub jitter_ns: u64,
    /// Faults of the links.
    pub faults: Faults,
    /// Whether links repair them.
    pub link: LinkMode,
    /// Who moves time.
    pub drive: Drive,
    /// Deaths.
    pub deaths: Vec<Death>,
    /// Partitions.
    pub partitions: Vec<NetworkPartition>,
    /// From a death to its report, in ns. A message on its way arrives before.
    pub detect_ns: u64,
    /// Added to that, between 0 and so many ns, drawn for each survivor.
    pub detect_jitter_ns: u64,
    /// Whether a death is reported to all peers. Else only a peer that asks, by a check or
    /// by a post, learns of it, so long after: such an interface does not claim
    /// [`PEER_FAILURE`](bowline_uct::Caps::PEER_FAILURE).
    pub reports_deaths: bool,
    /// Whether an interface can be asked whether a peer lives.
    pub checks: bool,
    /// How long a partition lasts before those on different sides take each other for failed, in
    /// ns. What was given up is not taken up again.
    pub unreachable_ns: u64,
    /// Whether puts of one endpoint become visible in the order of posting, as on a reliable
    /// connection of InfiniBand; else fences alone order them.
    pub puts_ordered: bool,
    /// Whether a put is visible before a later atomic of the same endpoint.
    pub put_before_atomic: bool,
    /// Whether a put is visible before a later active message of the same endpoint is delivered.
    pub put_before_am: bool,
    /// Whether targets acknowledge what is put, so that a flush waits for that and sends nothing; else it
    /// is a message to each target and takes the interface a gap.
    pub acknowledged: bool,
    /// Whether there are one-sided operations at all.
    pub one_sided: bool,
    /// Whether a peer's whole memory may be read with the key of one byte `[1]`, as the kernel
    /// lets processes of one user. It is read by a system call that checks the address.
    pub whole_process: bool,
    /// Whether memory of a program can be lent to the reads of peers alone.
    pub exposes: bool,
    /// Whether what gets read leaves its interface one after the other, as messages do; else each
    /// answer has the link for itself.
    pub answers_queue: bool,
    /// Messages that wait for an interface before it takes them; beyond, senders are refused.
    pub slots: u32,
    /// One-sided operations of an interface under way; beyond, it is refused.
    pub outstanding: u32,
    /// Operations from or to where bytes lie, puts and gets, that an interface may post before it
    /// is refused all further ones with `Unsupported`, as by a kernel that takes a permission back.
    pub refuse_after: u32,
    /// Longest short message, in bytes.
    pub max_short: usize,
    /// Longest packed message, in bytes.
    pub max_bcopy: usize,
    /// Entries of the trace that are kept as text.
    pub log: usize,
}

impl NetworkOptions {
    /// How long the bytes of a get keep the interface that they are read from, in ns.
    pub(crate) fn read_time(&self, len: usize) -> u64 {
        let read = |ps: u64| self.gap_ns + (len as u64).saturating_mul(ps) / 1000;
        self.read_ps.map_or_else(|| self.times(len).1, read)
    }

    /// How long a message is under way, and how long it keeps its interface, in ns.
    pub(crate) fn times(&self, len: usize) -> (u64, u64) {
        let len = len as u64;
        let bytes_ns = |bytes: u64| bytes.saturating_mul(self.byte_ps) / 1000;
        let after = self.by_size.partition_point(|row| row.bytes < len);
        match (after.checked_sub(1).map(|before| self.by_size[before]), self.by_size.get(after)) {
            (None, None) => (self.latency_ns, self.gap_ns + bytes_ns(len)),
            (None, Some(first)) => (first.latency_ns, first.gap_ns),
            (Some(last), None) => {
                let beyond = u128::from(len - last.bytes);
                let rise = match self.by_size[..] {
                    [.., one, two] if two.bytes > one.bytes => {
                        let gap = u128::from(two.gap_ns.saturating_sub(one.gap_ns));
                        gap * beyond / u128::from(two.bytes - one.bytes)
                    }
                    _ => u128::from(bytes_ns(len - last.bytes)),
                };
                let rise = u64::try_from(rise).unwrap_or(u64::MAX);
                (last.latency_ns, last.gap_ns.saturating_add(rise))
            }
            (Some(one), Some(next)) => {
                let (part, whole) = (len - one.bytes, next.bytes - one.bytes);
                let between = |one: u64, next: u64| {
                    let weighed = u128::from(one) * u128::from(whole - part)
                        + u128::from(next) * u128::from(part);
                    u64::try_from(weighed / u128::from(whole)).unwrap_or(u64::MAX)
                };
                (between(one.latency_ns, next.latency_ns), between(one.gap_ns, next.gap_ns))
            }
        }
    }
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            // A round figure. Published for the network whose gap this is are 880 ns for both ways (table 4.1, below).
            latency_ns: 1000,
            // What a put of 8 to 128 bytes blocks its sender for on a Cray XC30 (M. Rüfenacht, thesis, Edinburgh 2020, table 4.1).
            gap_ns: 380,
            // 10.2 GB/s, the rate of injection of that machine (chapter 4 there, beside LogP).
            byte_ps: 98,
            by_size: Vec::new(),
            read_ps: None,
            jitter_ns: 0,
            faults: Faults::default(),
            link: LinkMode::Reliable,
            drive: Drive::Caller,
            deaths: Vec::new(),
            partitions: Vec::new(),
            detect_ns: 1_000_000,
            detect_jitter_ns: 0,
            reports_deaths: true,
            checks: true,
            unreachable_ns: 10_000_000_000,
            puts_ordered: true,
            put_before_atomic: true,
            put_before_am: true,
            acknowledged: false,
            one_sided: true,
            whole_process: true,
            exposes: false,
            answers_queue: false,
            slots: 64,
            outstanding: 4096,
            refuse_after: u32::MAX,
            max_short: 128,
            max_bcopy: 8192,
            log: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(by_size: Vec<TimesOfSize>) -> NetworkOptions {
        NetworkOptions { latency_ns: 1, gap_ns: 2, byte_ps: 500, by_size, ..Default::default() }
    }

    #[test]
    fn times_by_size_lie_on_straight_pieces_and_go_on_behind_the_last_one() {
        let row = |bytes, latency_ns, gap_ns| TimesOfSize { bytes, latency_ns, gap_ns };
        let network = with(vec![row(8, 100, 50), row(108, 200, 60), row(308, 100, 160)]);
        let times = |len| network.times(len);
        assert_eq!((times(0), times(8), times(108)), ((100, 50), (100, 50), (200, 60)));
        assert_eq!(times(58), (150, 55));
        assert_eq!(times(208), (150, 110));
        assert_eq!(times(508), (100, 260), "half a nanosecond for a byte, as between the last two");
        assert_eq!(with(vec![row(8, 100, 50)]).times(108), (100, 100), "byte_ps beyond one row");
        assert_eq!(with(Vec::new()).times(100), (1, 52));
        assert!(times(usize::MAX).1 > 1 << 60);
    }

    #[test]
    fn reads_may_have_a_time_of_their_own() {
        let network = with(Vec::new());
        assert_eq!(network.read_time(100), 52, "as messages");
        assert_eq!(NetworkOptions { read_ps: Some(100), ..network }.read_time(100), 12);
    }
}
