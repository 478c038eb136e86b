//! The engine's settings.

use std::time::Duration;

use bowline_base::config::{Config, Setting};

use crate::matching::EngineKind;
use crate::protocol::Conditions;

bowline_base::choice! {
    /// How a message travels that its receiver is offered.
    pub enum RndvScheme {
        /// As is best for the two and their transport.
        Auto = "auto",
        /// The receiver reads it.
        Get = "get",
        /// The sender writes it.
        Put = "put",
        /// Copied through the transport, in fragments.
        Copy = "copy",
        /// The sender writes it, at once where the receive was announced to it before.
        Rtr = "rtr",
    }
}

bowline_base::choice! {
    /// How messages come to receives from any source.
    pub enum AnySource {
        /// As they come to other receives.
        Arrival = "arrival",
        /// Their senders raise flags, and the receiver asks one of them at a time.
        Flags = "flags",
    }
}

bowline_base::choice! {
    /// By what long messages choose how they travel.
    pub enum Select {
        /// By what messages have just taken, where processors copy them.
        Measured = "measured",
        /// By costs that are known before.
        Static = "static",
    }
}

bowline_base::choice! {
    /// Which peers are asked after.
    pub enum Keepalive {
        /// Those whose transport does not notice the death of a peer by itself.
        Auto = "auto",
        /// All that messages were exchanged with.
        All = "all",
        /// None.
        Off = "off",
    }
}

/// The settings of keep-alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepaliveOptions {
    pub(crate) which: Keepalive,
    pub(crate) interval: Duration,
    /// Peers in one step.
    pub(crate) batch: u32,
}

impl KeepaliveOptions {
    pub(crate) fn is_on(&self) -> bool {
        self.which != Keepalive::Off && !self.interval.is_zero()
    }
}

bowline_base::settings! {
    /// Settings of the protocol engine.
    pub const SETTINGS = [
        /// Eager payload that a peer may have unmatched here before it was granted more.
        pub EAGER_SHARE_FIRST: usize = Setting::<usize>::bytes("BOWLINE_EAGER_SHARE_FIRST", 64 << 10, 1 << 10, 1 << 30)
            .cost("memory of the receiver, for each peer that floods it")
            .change("raise it when many short bursts of medium messages come from peers never heard before");
        /// Eager payload that an active peer may have unmatched here, while the budget has space.
        pub EAGER_SHARE: usize = Setting::<usize>::bytes("BOWLINE_EAGER_SHARE", 2 << 20, 1 << 10, 1 << 30)
            .cost("memory of the receiver, for each active peer")
            .change("raise it when bursts of unmatched medium messages fall back to rendezvous");
        /// Payload of unexpected messages that a worker holds beyond the first shares.
        pub UNEXPECTED_BUDGET: usize = Setting::<usize>::bytes("BOWLINE_UNEXPECTED_BUDGET", 64 << 20, 0, 1 << 40)
            .cost("memory of the receiver")
            .change("lower it on machines short of memory: senders then keep more messages on their side");
        /// Memory for what comes without being asked for, beside eager payload: envelopes of unexpected messages, active messages before their handler, spaces that nobody opened, and answers that a peer does not take. Beyond it the connection to the sender that most of it is of ends, and both sides report too many unexpected messages.
        pub UNEXPECTED_ENVELOPES: usize = Setting::<usize>::bytes("BOWLINE_UNEXPECTED_ENVELOPES", 4 << 30, 1 << 20, 1 << 44)
            .cost("nothing until a program leaves tens of millions of messages unreceived")
            .change("raise it for a program that really does; lower it on machines short of memory");
        /// Longest message that is sent eagerly; longer ones are offered first, and come when their receiver asks for them. auto: as the costs say.
        pub RNDV_THRESHOLD: Option<usize> = Setting::<Option<usize>>::bytes_or_auto("BOWLINE_RNDV_THRESHOLD", 0, 1 << 30)
            .cost("below it a message is copied twice and its sender is free at once; above it its sender waits for the receiver, and it is copied once where it is read")
            .change("when a measurement of your message sizes says so");
        /// Shortest eager message that is sent from where it lies, where the transport can; auto: as the costs say.
        pub ZCOPY_THRESHOLD: Option<usize> = Setting::<Option<usize>>::bytes_or_auto("BOWLINE_ZCOPY_THRESHOLD", 1, 1 << 50)
            .cost("a request for each such message, which its sender waits for; in return the sender's copy is saved")
            .change("when a measurement of your message sizes says so; raise it beyond all messages where a send must be complete when it returns");
        /// Shortest message that its sender helps to copy, where a processor has to copy it; auto: as the costs say.
        pub COOPERATE: Option<usize> = Setting::<Option<usize>>::bytes_or_auto("BOWLINE_COOPERATE", 64 << 10, 1 << 50)
            .cost("time of the sender's processor while it waits")
            .change("raise it beyond all messages when senders that wait should leave their processor to others");
        /// How a long message comes to its receiver: get, it reads; put, the sender writes; copy, in fragments through the transport; rtr, as put, and receives are announced to their senders; auto, what is best. What a transport cannot do or is refused is left for the next best.
        pub RNDV_SCHEME: RndvScheme = Setting::<RndvScheme>::choice("BOWLINE_RNDV_SCHEME", "auto")
            .cost("get: the receiver's time; put: the sender's; copy: both, and the receiver waits for a sender that computes; rtr: a message for each long receive; sends to a rank that announces do not take the short path, and a long one polls first")
            .change("to compare; get for senders that compute between their sends and waits; rtr for programs that post long receives early and then compute");
        /// Shortest message that is written to an announced receive, and shortest buffer of a receive that is announced; auto: as long as those that are offered. With BOWLINE_RNDV_SCHEME=rtr.
        pub RTR_MIN: Option<usize> = Setting::<Option<usize>>::bytes_or_auto("BOWLINE_RTR_MIN", 1, 1 << 30)
            .cost("a message for each receive whose buffer is as long, and a request for each such send that finds its receive announced")
            .change("lower it where receives are posted long before their messages are sent and unexpected copies cost more than announcements; to compare");
        /// How eager messages come to receives from any source: arrival, as to other receives; flags, senders raise flags at the receiver, which has one of them write to its buffer (Gu 2000; for comparison). With flags messages shorter than BOWLINE_RTR_MIN come as ever.
        pub ANY_SOURCE: AnySource = Setting::<AnySource>::choice("BOWLINE_ANY_SOURCE", "arrival")
            .cost("flags: three messages in place of one, a message to each connected rank for the first receive of a tag, and every send to a rank that has posted one is compared with it")
            .change("to compare; flags where unexpected copies of messages to receives from any source cost more than waiting for their receiver");
        /// How long messages choose between pieces, at once or when they are asked for, reading and sharing the copy on transports on which processors copy: measured, by what messages have just taken; static, by costs that are known before. A scheme that is set is a choice, too, and so is BOWLINE_RNDV_THRESHOLD or BOWLINE_ZCOPY_THRESHOLD.
        pub SELECT: Select = Setting::<Select>::choice("BOWLINE_SELECT", "measured")
            .cost("a fiftieth of the time of long messages, for trials")
            .change("static, to have all messages of a length travel alike, or to compare");
        /// Which peers are asked after now and then, so that their death is noticed: auto, those whose transport does not notice it by itself, all, or off.
        pub KEEPALIVE: Keepalive = Setting::<Keepalive>::choice("BOWLINE_KEEPALIVE", "auto")
            .cost("a check or an empty message for each silent peer in each interval")
            .change("all, where a transport's own notice is not trusted; off, where another layer watches peers");
        /// How often silent peers are asked after.
        pub KEEPALIVE_INTERVAL: Duration = Setting::<Duration>::time("BOWLINE_KEEPALIVE_INTERVAL", Duration::from_secs(20), Duration::ZERO, Duration::from_secs(1 << 22))
            .cost("a wake-up of a sleeping worker in each interval, where there is a peer to ask after")
            .change("lower it where a death must be known sooner; 0 for never");
        /// Peers asked after in one step.
        pub KEEPALIVE_BATCH: u32 = Setting::<u32>::integer("BOWLINE_KEEPALIVE_BATCH", 128, 1, 1 << 20)
            .cost("the pause that messages make for them")
            .change("never, unless measured");
        /// How posted receives and waiting messages are searched.
        pub MATCHING: EngineKind = Setting::<EngineKind>::choice("BOWLINE_MATCHING", "auto")
            .cost("array: 8 bytes for each rank of each communicator with long queues; list: time where they are long")
            .change("to compare matching engines");
    ];
}

/// The settings as the engine uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) share_first: i64,
    pub(crate) share: i64,
    pub(crate) budget: i64,
    pub(crate) envelopes: u64,
    pub(crate) matching: EngineKind,
    pub(crate) keepalive: KeepaliveOptions,
    pub(crate) rndv_scheme: RndvScheme,
    pub(crate) rtr_min: Option<u64>,
    pub(crate) any_source: AnySource,
    pub(crate) select: Select,
}

impl Options {
    pub(crate) fn of(config: &Config) -> Self {
        let share_first = config.get(EAGER_SHARE_FIRST) as i64;
        Self {
            share_first,
            share: share_first.max(config.get(EAGER_SHARE) as i64),
            budget: config.get(UNEXPECTED_BUDGET) as i64,
            envelopes: config.get(UNEXPECTED_ENVELOPES) as u64,
            matching: config.get(MATCHING),
            keepalive: KeepaliveOptions {
                which: config.get(KEEPALIVE),
                interval: config.get(KEEPALIVE_INTERVAL),
                batch: config.get(KEEPALIVE_BATCH),
            },
            rndv_scheme: config.get(RNDV_SCHEME),
            rtr_min: config.get(RTR_MIN).map(|bytes| bytes as u64),
            any_source: config.get(ANY_SOURCE),
            select: config.get(SELECT),
        }
    }
}

/// The conditions of choices: the thresholds that the user has set.
pub(crate) fn conditions(config: &Config) -> Conditions {
    let bytes = |size: Option<usize>| size.map(|size| size as u64);
    Conditions {
        rndv_threshold: bytes(config.get(RNDV_THRESHOLD)),
        cooperate: bytes(config.get(COOPERATE)),
        zcopy: bytes(config.get(ZCOPY_THRESHOLD)),
        // Until somebody says otherwise.
        oversubscribed: false,
        asynchronous: false,
    }
}

impl RndvScheme {
    /// Whether no message is read under it, where senders can write or not (`put`).
    pub(crate) const fn reads_nothing(self, put: bool) -> bool {
        match self {
            Self::Copy => true,
            Self::Put | Self::Rtr => put,
            Self::Auto | Self::Get => false,
        }
    }
}
