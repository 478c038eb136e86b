//! Settings of the tcp provider, and the values that an interface is opened with.

use std::time::Duration;

use bowline_base::config::{Config, Setting};
use bowline_base::doorbell::Doorbell;

use crate::auth::Secret;

bowline_base::settings! {
    /// Settings of the tcp provider.
    pub const SETTINGS = [
        /// Network interfaces to use, separated by commas. With names, only these; with names
        /// behind an exclamation mark, all but these; empty, all that are up and are neither
        /// loopback nor made for containers.
        pub INTERFACES: String = Setting::<String>::text("BOWLINE_TCP_INTERFACES", "")
            .cost("an interface that is left out is reached by nobody, one that is named is used \
                   even if it is a container's bridge")
            .change("name the fast network of a cluster whose hosts have several");
        /// Ports to listen on: 0 for any that is free, or a range such as 20000-20099.
        pub PORTS: String = Setting::<String>::text("BOWLINE_TCP_PORTS", "0")
            .cost("each rank needs a port of the range on each interface")
            .change("give a range where a firewall opens one");
        /// Longest message that is sent in one frame; longer ones are cut or fetched by the
        /// protocols above.
        pub MAX_BCOPY: usize =
            Setting::<usize>::bytes("BOWLINE_TCP_MAX_BCOPY", 256 << 10, 1 << 10, 1 << 20)
            .cost("the receive buffer of a rank is four times as long, and a rank packs into a \
                   buffer of this length")
            .change("lower it for ranks with very little memory");
        /// What a peer's queue holds beside the kernel's buffers: what is posted while a
        /// connection is made, and what the kernel did not take at once.
        pub QUEUE: usize =
            Setting::<usize>::bytes("BOWLINE_TCP_QUEUE", 64 << 10, 1 << 10, 64 << 20)
            .cost("memory for each peer that does not take what it is sent, up to this much")
            .change("raise it for long bursts of short messages");
        /// The kernel's send buffer of a connection; auto leaves it to the kernel, which lets
        /// it grow with the connection's speed and delay, except on one host, where it is small
        /// enough for the caches.
        pub SNDBUF: Option<usize> =
            Setting::<Option<usize>>::bytes_or_auto("BOWLINE_TCP_SNDBUF", 4 << 10, 256 << 20)
            .cost("kernel memory for each connection that is in use")
            .change("set it where net.ipv4.tcp_wmem is too small for the network's delay");
        /// The kernel's receive buffer of a connection; auto leaves it to the kernel.
        pub RCVBUF: Option<usize> =
            Setting::<Option<usize>>::bytes_or_auto("BOWLINE_TCP_RCVBUF", 4 << 10, 256 << 20)
            .cost("kernel memory for each connection that is in use")
            .change("set it where net.ipv4.tcp_rmem is too small for the network's delay");
        /// Time after which a host that does not answer, or to which no route leads, counts as
        /// unreachable. The kernel probes: a rank that computes answers without knowing of it.
        pub TIMEOUT: Duration = Setting::<Duration>::time(
            "BOWLINE_TCP_TIMEOUT",
            Duration::from_secs(10),
            Duration::from_secs(1),
            Duration::from_secs(3600),
        )
            .cost("a short one takes a network that is away for a moment for a dead host")
            .change("raise it on networks with long breaks");
        /// Time for connecting to a peer, in which it must make progress. A rank that computes
        /// for longer before it first calls the library cannot be connected to.
        pub CONNECT_TIMEOUT: Duration = Setting::<Duration>::time(
            "BOWLINE_TCP_CONNECT_TIMEOUT",
            Duration::from_secs(120),
            Duration::from_secs(1),
            Duration::from_secs(36000),
        )
            .cost("an error that comes late when a peer cannot be reached, though a host that \
                   refuses or does not answer at all is noticed sooner")
            .change("raise it for ranks that compute for minutes before they communicate");
        /// Time that a handshake has to prove that it knows the secret, once its connection is
        /// accepted.
        pub HANDSHAKE_TIMEOUT: Duration = Setting::<Duration>::time(
            "BOWLINE_TCP_HANDSHAKE_TIMEOUT",
            Duration::from_secs(10),
            Duration::from_millis(100),
            Duration::from_secs(600),
        )
            .cost("handshakes that say nothing hold a place for so long, unless others need it")
            .change("hardly ever: a peer that loses its place tries again");
        /// Handshakes that may be under way at the same time.
        pub HANDSHAKES: u32 = Setting::<u32>::integer("BOWLINE_TCP_HANDSHAKES", 256, 1, 65536)
            .cost("a descriptor and up to 2 KiB of memory each")
            .change("raise it for jobs in which thousands connect to one rank at once");
        /// Time that closing an interface may take to bring out what was posted.
        pub LINGER: Duration = Setting::<Duration>::time(
            "BOWLINE_TCP_LINGER",
            Duration::from_secs(2),
            Duration::ZERO,
            Duration::from_secs(600),
        )
            .cost("a rank that ends waits this long for a peer that does not receive")
            .change("raise it on slow networks");
    ];
}

/// Values of the settings, and what comes from the launcher.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TcpOptions {
    pub(crate) secret: Secret,
    /// Network interfaces, as [`INTERFACES`] has them.
    pub interfaces: String,
    /// The setting that names them, for errors: [`INTERFACES`], or another in its place.
    pub interfaces_setting: &'static str,
    /// Ports, as [`PORTS`] has them.
    pub ports: String,
    /// Longest message of one frame, in bytes.
    pub max_bcopy: usize,
    /// Bytes that a peer's queue holds.
    pub queue: usize,
    /// The kernel's send buffer, in bytes; `None` leaves it to the kernel.
    pub sndbuf: Option<usize>,
    /// The kernel's receive buffer, in bytes; `None` leaves it to the kernel.
    pub rcvbuf: Option<usize>,
    /// After which a silent host is unreachable.
    pub timeout: Duration,
    /// For making a connection.
    pub connect_timeout: Duration,
    /// For a handshake.
    pub handshake_timeout: Duration,
    /// Handshakes at the same time.
    pub handshakes: u32,
    /// For closing.
    pub linger: Duration,
    /// The doorbell of the worker, where another lane owns it. That lane arms it; this interface
    /// only rings. Without one the interface has a doorbell of its own.
    pub doorbell: Option<Doorbell>,
}

impl TcpOptions {
    /// The values that `config` has, whose tables must include [`SETTINGS`]; `secret` is the
    /// job's, the same for all who may connect to each other.
    pub fn from_config(config: &Config, secret: [u8; 32]) -> Self {
        Self {
            secret: Secret::new(secret),
            interfaces: config.get(INTERFACES),
            interfaces_setting: INTERFACES.name(),
            ports: config.get(PORTS),
            max_bcopy: config.get(MAX_BCOPY),
            queue: config.get(QUEUE),
            sndbuf: config.get(SNDBUF),
            rcvbuf: config.get(RCVBUF),
            timeout: config.get(TIMEOUT),
            connect_timeout: config.get(CONNECT_TIMEOUT),
            handshake_timeout: config.get(HANDSHAKE_TIMEOUT),
            handshakes: config.get(HANDSHAKES),
            linger: config.get(LINGER),
            doorbell: None,
        }
    }

    /// Every setting at its default.
    pub fn with_secret(secret: [u8; 32]) -> Self {
        Self::from_config(&Config::defaults(&[SETTINGS]), secret)
    }
}
