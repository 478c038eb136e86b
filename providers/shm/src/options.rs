//! Settings of the shared memory provider and what they mean for memory.
//!
//! The sizes are written into the header of each rank's area, where peers read them when they
//! connect: ranks may have different ones, as long as the longest packed message of a sender fits
//! into the queues of its receiver.

use bowline_base::config::{Config, Setting};

bowline_base::settings! {
    /// Settings of the shared memory provider.
    pub const SETTINGS = [
        /// Slots in each half of a rank's shared receive queue, through which peers without a
        /// ring send; rounded up to a power of two, and until half of a half holds the
        /// longest packed message.
        pub SCMP_SLOTS: u32 = Setting::<u32>::integer("BOWLINE_SHM_SCMP_SLOTS", 512, 16, 1 << 15)
            .cost("128 bytes of shared memory per slot and local rank")
            .change("raise it when many ranks send to one and senders report a full queue");
        /// Rings of a rank: so many of its peers, the ones that send most, have a queue of their
        /// own to it. 0 leaves everything to the shared receive queue.
        pub RINGS: u32 = Setting::<u32>::integer("BOWLINE_SHM_RINGS", 8, 0, 64)
            .cost("one ring (slots and data) of shared memory each, and a load of one more \
                   cache line per progress for each that is in use")
            .change("raise it when a rank hears from more peers all the time, as in a large stencil");
        /// Slots of a ring, each one message of up to 32 bytes or the head of a longer one;
        /// rounded up to a power of two.
        pub RING_SLOTS: u32 = Setting::<u32>::integer("BOWLINE_SHM_RING_SLOTS", 256, 8, 1 << 16)
            .cost("64 bytes of shared memory per slot and ring")
            .change("raise it when bursts of short messages meet a receiver that computes");
        /// Data area of a ring, for messages longer than a slot; rounded up to a power of two.
        pub RING_DATA: usize =
            Setting::<usize>::bytes("BOWLINE_SHM_RING_DATA", 256 << 10, 4 << 10, 16 << 20)
            .cost("shared memory per ring")
            .change("raise it together with BOWLINE_SHM_MAX_BCOPY");
        /// Data area of a rank's first ring, which the first peer gets that sends more than a few
        /// messages; rounded up to a power of two, at least that of the others. Where its pieces come
        /// round only after a level-2 cache has been filled, they are written without asking the
        /// receiver's processor to drop its copies: messages of 4 to 8 KB take 0.5 to 0.8 times as long.
        pub FIRST_RING_DATA: usize =
            Setting::<usize>::bytes("BOWLINE_SHM_FIRST_RING_DATA", 1 << 20, 4 << 10, 16 << 20)
            .cost("shared memory per local rank, and a part of a millisecond of start-up for each MB")
            .change("lower it where many ranks share little memory, raise it to the size of a \
                     larger level-2 cache");
        /// Messages that a peer sends through the shared receive queue before it asks for a ring.
        pub PROMOTE_AFTER: u32 = Setting::<u32>::integer("BOWLINE_SHM_PROMOTE_AFTER", 8, 1, 64)
            .cost("a low number spends rings on peers that fall silent again; taking a ring back \
                   costs about as much as the messages it would have saved")
            .change("lower it for programs of few peers and short runs");
        /// Cross memory attach (process_vm_readv, process_vm_writev) for large messages: off
        /// copies them through the rings instead, auto asks the kernel for each peer.
        pub CMA: Option<bool> = Setting::<Option<bool>>::switch_or_auto("BOWLINE_SHM_CMA")
            .cost("off: large messages move at half the speed; on: a peer whose memory the kernel \
                   does not open cannot be connected to, instead of being served by copies")
            .change("switch it off to see what a restricted container would do, on to get a report \
                     when a security policy costs you bandwidth");
        /// Longest message that is packed into shared memory; longer ones are moved by the
        /// protocols above.
        pub MAX_BCOPY: usize =
            Setting::<usize>::bytes("BOWLINE_SHM_MAX_BCOPY", 20 << 10, 256, 31 << 10)
            .cost("a quarter of a ring's data area and half of a half of the shared queue hold one, \
                   so both grow with it")
            .change("raise it where cross memory attach is refused");
        /// Ranks of other jobs (spawned or connected later) that may be connected to a rank at
        /// the same time.
        pub GUESTS: u32 = Setting::<u32>::integer("BOWLINE_SHM_GUESTS", 32, 0, 4096)
            .cost("192 bytes of shared memory each")
            .change("raise it when many separately started programs connect to one rank");
        /// Pieces of user memory that a rank may have registered for one-sided access at the
        /// same time; memory allocated by the library does not count.
        pub REGISTRATIONS: u32 =
            Setting::<u32>::integer("BOWLINE_SHM_REGISTRATIONS", 1024, 16, 1 << 20)
            .cost("8 bytes of shared memory each")
            .change("raise it when creating windows fails for want of registrations");
    ];
}

/// Values of the settings, in the form in which they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShmOptions {
    /// Slots per half of the shared receive queue; a power of two.
    pub scmp_slots: u32,
    /// Rings per rank.
    pub rings: u32,
    /// Slots per ring; a power of two.
    pub ring_slots: u32,
    /// Data bytes per ring; a power of two.
    pub ring_data: usize,
    /// Data bytes of the first ring; a power of two.
    pub first_ring_data: usize,
    /// Messages before a peer asks for a ring.
    pub promote_after: u32,
    /// Cross memory attach: `None` as the kernel permits.
    pub cma: Option<bool>,
    /// Longest packed message, in bytes.
    pub max_bcopy: usize,
    /// Places for peers of other node memories.
    pub guests: u32,
    /// Places for registered memory.
    pub registrations: u32,
    /// For tests of what lies above: cross memory attach behaves as if the kernel began to refuse
    /// after so many transfers, also between threads of one process, where none is needed otherwise.
    #[doc(hidden)]
    pub refuse_cma_after: Option<u32>,
}

impl Default for ShmOptions {
    fn default() -> Self {
        Self::from_config(&Config::defaults(&[SETTINGS]))
    }
}

impl ShmOptions {
    /// The values that `config` has; its tables must include [`SETTINGS`].
    ///
    /// Sizes are rounded up to powers of two, and a queue is made large enough for the longest
    /// packed message, so that every combination of settings works.
    pub fn from_config(config: &Config) -> Self {
        Self {
            scmp_slots: config.get(SCMP_SLOTS),
            rings: config.get(RINGS),
            ring_slots: config.get(RING_SLOTS),
            ring_data: config.get(RING_DATA),
            first_ring_data: config.get(FIRST_RING_DATA),
            promote_after: config.get(PROMOTE_AFTER),
            cma: config.get(CMA),
            max_bcopy: config.get(MAX_BCOPY),
            guests: config.get(GUESTS),
            registrations: config.get(REGISTRATIONS),
            refuse_cma_after: None,
        }
    }
}
