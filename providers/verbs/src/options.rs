//! Settings of the verbs provider and what they mean for memory and time.

use std::time::Duration;

use bowline_base::config::{Config, Setting};
use bowline_uct::Secret;

bowline_base::choice! {
    /// What an interface is made of.
    pub enum VerbsMode {
        /// Reliable connections: messages, one-sided operations and atomics, one queue pair for
        /// each peer that is talked to.
        Rc = "rc",
        /// Datagrams with reliability of our own: messages only, one queue pair for all peers.
        Ud = "ud",
    }
}

bowline_base::choice! {
    /// When a reliable connection is made.
    pub enum ConnectWhen {
        /// With the first operation, so that only pairs of ranks that talk have queue pairs.
        FirstUse = "first-use",
        /// In `connect`, which waits for it.
        AtOnce = "at-once",
    }
}

/// Most endpoints of an interface: their numbers have 16 bits in what a completion brings back.
pub(crate) const MAX_ENDPOINTS: usize = 1 << 16;

bowline_base::settings! {
    /// Settings of the verbs provider.
    pub const SETTINGS = [
        /// Device to use, as `ibv_devices` lists it; the first one with an active port if empty.
        pub DEVICE: String = Setting::<String>::text("BOWLINE_VERBS_DEVICE", "")
            .cost("none")
            .change("name one where a machine has several devices and the first is the wrong one");
        /// Reliable connections (rc) or datagrams (ud).
        pub MODE: VerbsMode = Setting::<VerbsMode>::choice("BOWLINE_VERBS_MODE", "rc")
            .cost("rc: one queue pair per peer in use, some kilobytes each at the device; ud: \
                   acknowledgements by the processor, and no one-sided operations")
            .change("use ud for jobs of many thousand ranks that all talk to each other");
        /// When reliable connections are made: with the first operation or in connect.
        pub CONNECT: ConnectWhen =
            Setting::<ConnectWhen>::choice("BOWLINE_VERBS_CONNECT", "first-use")
            .cost("at-once: a queue pair for every peer that is connected to, and a round trip in \
                   each connect")
            .change("connect at once where the first message's latency matters");
        /// Buffers that are posted for arrivals, shared by all peers.
        pub RECEIVE_BUFFERS: u32 =
            Setting::<u32>::integer("BOWLINE_VERBS_RECEIVE_BUFFERS", 1024, 32, 1 << 15)
            .cost("one longest packed message of pinned memory each")
            .change("raise it when many ranks send to one and senders have to pause");
        /// Buffers for packed messages on their way out.
        pub SEND_BUFFERS: u32 =
            Setting::<u32>::integer("BOWLINE_VERBS_SEND_BUFFERS", 512, 32, 1 << 15)
            .cost("one longest packed message of pinned memory each")
            .change("raise it when bursts of packed messages to many peers are refused");
        /// Operations under way to one peer.
        pub SEND_DEPTH: u32 = Setting::<u32>::integer("BOWLINE_VERBS_SEND_DEPTH", 128, 8, 8192)
            .cost("device memory of some 128 bytes per operation and connection")
            .change("raise it for long distances, where more must be under way");
        /// Longest packed message, in bytes; the same at all ranks.
        pub MAX_BCOPY: usize =
            Setting::<usize>::bytes("BOWLINE_VERBS_MAX_BCOPY", 8 << 10, 512, 1 << 20)
            .cost("the length of every receive and send buffer")
            .change("raise it when rendezvous at this size costs more than the copy");
        /// Longest request, in bytes, that is copied into the device's queue.
        pub INLINE: u32 = Setting::<u32>::integer("BOWLINE_VERBS_INLINE", 192, 64, 1024)
            .cost("space for it in every entry of every send queue")
            .change("set it to what the device does well; 32 bytes of it are the message's header");
        /// Time after which a peer that does not answer has failed. Time in which this process does not run is not counted, and twice the time is given where it runs late.
        pub PEER_TIMEOUT: Duration = Setting::<Duration>::time(
            "BOWLINE_VERBS_PEER_TIMEOUT",
            Duration::from_secs(10),
            Duration::from_millis(50),
            Duration::from_secs(600),
        )
            .cost("short: a network that is down for a moment fails connections; long: a dead host \
                   is noticed late, and a lost last packet of a message is repeated late")
            .change("lower it where failures must be answered quickly and the network is sound");
        /// Datagrams under way to one peer in ud mode.
        pub UD_WINDOW: u32 = Setting::<u32>::integer("BOWLINE_VERBS_UD_WINDOW", 128, 4, 4096)
            .cost("a send buffer for each datagram that is not acknowledged")
            .change("raise it for long distances, lower it when receivers lose datagrams");
    ];
}

/// Values of the settings, in the form in which they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbsOptions {
    /// Device, or empty for the first active one.
    pub device: String,
    /// Reliable connections or datagrams.
    pub mode: VerbsMode,
    /// When connections are made.
    pub connect: ConnectWhen,
    /// Posted receive buffers.
    pub receive_buffers: u32,
    /// Send buffers.
    pub send_buffers: u32,
    /// Operations under way to one peer.
    pub send_depth: u32,
    /// Longest packed message, in bytes.
    pub max_bcopy: usize,
    /// Longest inline request, in bytes.
    pub inline: u32,
    /// Time without an answer after which a peer has failed.
    pub peer_timeout: Duration,
    /// Datagrams under way to one peer.
    pub ud_window: u32,
    /// What the interfaces of a job know and nobody else; zeros prove nothing.
    pub secret: Secret,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self::from_config(&Config::defaults(&[SETTINGS]), [0; 32])
    }
}

impl VerbsOptions {
    /// The values that `config` has; its tables must include [`SETTINGS`]. `secret` is the job's.
    pub fn from_config(config: &Config, secret: [u8; 32]) -> Self {
        Self {
            device: config.get(DEVICE),
            mode: config.get(MODE),
            connect: config.get(CONNECT),
            receive_buffers: config.get(RECEIVE_BUFFERS),
            send_buffers: config.get(SEND_BUFFERS),
            send_depth: config.get(SEND_DEPTH),
            max_bcopy: config.get(MAX_BCOPY),
            inline: config.get(INLINE),
            peer_timeout: config.get(PEER_TIMEOUT),
            ud_window: config.get(UD_WINDOW),
            secret: Secret::new(secret),
        }
    }
}
