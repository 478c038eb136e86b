//! What a lane of receive queues is like, and what it counts.

use bowline_base::config::{Config, Setting};

bowline_base::choice! {
    /// Which transports carry their messages by receive queues.
    pub enum RecvQueue {
        /// Those that have no messages of their own.
        Auto = "auto",
        /// All that can, but the one to the own worker.
        Scmp = "scmp",
        /// The same, by a ring for each sender.
        Ring = "ring",
        /// The same, by SCMP for all and a ring for each of those that send most; what auto uses.
        ScmpRings = "scmp-rings",
        /// The same, by SCMP whose messages are checksummed: two operations for each.
        ScmpSeq = "scmp-seq",
    }
}

bowline_base::settings! {
    /// Settings of receive queues.
    pub const SETTINGS = [
        /// Which transports carry their messages by queues in memory that peers put them into: auto, those that have no messages of their own, scmp, all that can, ring, the same by a ring for each sender, scmp-rings, by SCMP for all and rings for those that send most, as auto does, or scmp-seq, by SCMP with two operations for each message. Alike on all ranks.
        pub RECV_QUEUE: RecvQueue = Setting::<RecvQueue>::choice("BOWLINE_RECV_QUEUE", "auto")
            .cost("three operations of the network for each message, where a transport sends one")
            .change("for experiments: to try the queues on a transport that does not need them");
        /// Slots of 64 bytes in each half of a receive queue; rounded up to a power of two.
        pub RECV_QUEUE_SLOTS: u32 = Setting::<u32>::integer("BOWLINE_RECV_QUEUE_SLOTS", 512, 16, 32768)
            .cost("128 bytes of memory for each")
            .change("raise it when the counter of refused reservations grows");
        /// Rings of a receive queue where BOWLINE_RECV_QUEUE is ring: one for each peer that sends.
        pub RECV_QUEUE_RINGS: u32 = Setting::<u32>::integer("BOWLINE_RECV_QUEUE_RINGS", 64, 1, 32768)
            .cost("64 bytes of memory for each slot of each of them")
            .change("raise it in jobs with more ranks than that; a peer without a ring cannot send");
        /// Rings of a receive queue for the peers that send most.
        pub RECV_QUEUE_HOT: u32 = Setting::<u32>::integer("BOWLINE_RECV_QUEUE_HOT", 16, 1, 1024)
            .cost("64 bytes of memory for each slot of each of them")
            .change("raise it where more peers than that send much at the same time");
        /// Most peers of a receive queue, and sender numbers that it gives out; slots have 16 bits for them, and the number of a peer that has left is not given out again.
        pub RECV_QUEUE_PEERS: u32 = Setting::<u32>::integer("BOWLINE_RECV_QUEUE_PEERS", 65536, 1, 65536)
            .cost("400 to 800 bytes of memory for each that sends, none for those that do not")
            .change("lower it to bound that memory; a peer without a sender number is refused, and more than 65536 cannot send to one queue");
    ];
}

/// How senders share a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueForm {
    /// SCMP as published: senders reserve by a fetch-and-add, and nobody waits for another.
    Scmp = 1,
    /// Every sender has a ring of its own.
    Ring = 3,
    /// SCMP for all, and a ring for each of those that send most.
    #[default]
    ScmpRings = 4,
    /// SCMP with the sequence in the slot: a message is checksummed, and nothing is added behind it.
    ScmpSeq = 5,
}

impl QueueForm {
    /// Its name in settings and in what a lane says of itself.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scmp => "scmp",
            Self::Ring => "ring",
            Self::ScmpRings => "scmp-rings",
            Self::ScmpSeq => "scmp-seq",
        }
    }

    /// The form with this number in an address.
    pub(super) const fn from_wire(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Scmp),
            3 => Some(Self::Ring),
            4 => Some(Self::ScmpRings),
            5 => Some(Self::ScmpSeq),
            _ => None,
        }
    }
}

/// Form and sizes of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// How senders share it.
    pub form: QueueForm,
    /// Slots of each half of the queue, or of each ring; a power of two.
    pub slots: u32,
    /// Most peers; where each has a ring, the number of rings.
    pub peers: u32,
    /// Rings for those that send most; of no use in other forms.
    pub rings: u32,
}

impl QueueOptions {
    /// The sizes that `config` has, which must hold [`SETTINGS`].
    pub fn from_config(config: &Config) -> Self {
        let form = match config.get(RECV_QUEUE) {
            RecvQueue::Auto | RecvQueue::ScmpRings => QueueForm::ScmpRings,
            RecvQueue::Scmp => QueueForm::Scmp,
            RecvQueue::ScmpSeq => QueueForm::ScmpSeq,
            RecvQueue::Ring => QueueForm::Ring,
        };
        let most = if form == QueueForm::Ring { config.get(RECV_QUEUE_RINGS) } else { u32::MAX };
        Self {
            form,
            slots: config.get(RECV_QUEUE_SLOTS).next_power_of_two(),
            peers: config.get(RECV_QUEUE_PEERS).min(most),
            rings: config.get(RECV_QUEUE_HOT),
        }
    }
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self::from_config(&Config::defaults(&[SETTINGS]))
    }
}

/// What a lane has posted, for experiments: operations per message are quotients of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Messages put.
    pub messages: u64,
    /// Fetch-and-adds to a peer's reservation counter.
    pub reservations: u64,
    /// Those that did not fit.
    pub refused: u64,
    /// Puts of slots.
    pub puts: u64,
    /// Adds to a peer's counters of finalised and failed slots.
    pub settled: u64,
    /// Flushes between put and add, where the transport does not order them, and those by which a
    /// sender learns that its checksummed messages have landed.
    pub orders: u64,
    /// Reads of a peer's reservation counter while its half was full, or of the head of a ring.
    pub rereads: u64,
    /// Messages handed out.
    pub received: u64,
    /// Slots whose source never introduced itself, or whose mark is not its own.
    pub unknown_senders: u64,
    /// Rings that were offered to peers, and that peers were asked to leave.
    pub offers: u64,
    /// See `offers`.
    pub evictions: u64,
    /// Messages handed out of rings, where not all have one.
    pub promoted: u64,
    /// Settlements after a death.
    pub settlements: u64,
}
