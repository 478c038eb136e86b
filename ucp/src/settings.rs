//! The engine's settings.

use bowline_base::config::{Config, Setting};

bowline_base::settings! {
    /// Settings of the protocol engine.
    pub const SETTINGS = [
        /// Eager payload that a peer may have unmatched here before it was granted more.
        pub EAGER_SHARE_FIRST: usize = Setting::<usize>::bytes("BOWLINE_EAGER_SHARE_FIRST", 64 << 10, 1 << 10, 1 << 30)
            .cost("memory of the receiver, for each peer that floods it")
            .change("raise it when many short bursts of medium messages come from peers never heard before");
        /// Eager payload that an active peer may have unmatched here, while the budget has room.
        pub EAGER_SHARE: usize = Setting::<usize>::bytes("BOWLINE_EAGER_SHARE", 512 << 10, 1 << 10, 1 << 30)
            .cost("memory of the receiver, for each active peer")
            .change("raise it when bursts of unmatched medium messages fall back to rendezvous");
        /// Payload of unexpected messages that a worker holds beyond the first shares.
        pub UNEXPECTED_BUDGET: usize = Setting::<usize>::bytes("BOWLINE_UNEXPECTED_BUDGET", 64 << 20, 0, 1 << 40)
            .cost("memory of the receiver")
            .change("lower it on machines short of memory: senders then keep more messages on their side");
        /// Memory for envelopes of unexpected messages; beyond it the sender is at fault.
        pub UNEXPECTED_ENVELOPES: usize = Setting::<usize>::bytes("BOWLINE_UNEXPECTED_ENVELOPES", 4 << 30, 1 << 20, 1 << 44)
            .cost("nothing until a program leaves tens of millions of messages unreceived")
            .change("raise it for a program that really does");
        /// Longest message that is sent eagerly; longer ones are fetched by the receiver.
        pub RNDV_THRESHOLD: Option<usize> = Setting::<Option<usize>>::bytes_or_auto("BOWLINE_RNDV_THRESHOLD", 0, 1 << 30)
            .cost("below it a message is copied twice and its sender is free at once; above it is copied once and its sender waits for the receiver")
            .change("when a measurement of your message sizes says so");
    ];
}

/// The settings as the engine uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) share_first: i64,
    pub(crate) share: i64,
    pub(crate) budget: i64,
    pub(crate) envelopes: u64,
    pub(crate) rndv_threshold: Option<usize>,
}

impl Options {
    pub(crate) fn of(config: &Config) -> Self {
        let share_first = config.get(EAGER_SHARE_FIRST) as i64;
        Self {
            share_first,
            share: share_first.max(config.get(EAGER_SHARE) as i64),
            budget: config.get(UNEXPECTED_BUDGET) as i64,
            envelopes: config.get(UNEXPECTED_ENVELOPES) as u64,
            rndv_threshold: config.get(RNDV_THRESHOLD),
        }
    }
}
