//! Settings of the libfabric provider.

use std::time::Duration;

use bowline_base::config::{Config, Setting};
use bowline_uct::Secret;

bowline_base::choice! {
    /// Who performs atomic operations.
    pub enum Atomics {
        /// libfabric where it has every operation in both widths and works over a network, else the
        /// target's progress.
        Auto = "auto",
        /// libfabric; opening fails where it lacks one.
        Native = "native",
        /// The target's progress, coherent with its processors' own atomics.
        Emulated = "emulated",
    }
}

bowline_base::choice! {
    /// What a libfabric provider may ask of registered memory.
    pub enum Registration {
        /// Anything that this transport can do: virtual addresses, keys of the provider's
        /// choice, memory that is there, registration of local buffers, binding to the endpoint.
        Auto = "auto",
        /// Nothing: remote addresses are offsets, keys are ours, local buffers are not registered.
        Scalable = "scalable",
    }
}

bowline_base::choice! {
    /// Whether there is a descriptor on which a rank can sleep.
    pub enum WakeupMode {
        /// Where ranks share processors.
        Auto = "auto",
        /// Where libfabric has one.
        On = "on",
        /// No.
        Off = "off",
    }
}

bowline_base::settings! {
    /// Settings of the libfabric provider.
    pub const SETTINGS = [
        /// Name of the libfabric provider, for instance `tcp`, `shm` or `verbs;ofi_rxm`, as
        /// `fi_info` prints it; empty takes the first of those that lead to other hosts.
        pub PROVIDER: String = Setting::<String>::text("BOWLINE_OFI_PROVIDER", "")
            .cost("none")
            .change("set it where a machine has several networks");
        /// Name of the libfabric domain, for instance `eth0`; empty takes the provider's first.
        pub DOMAIN: String = Setting::<String>::text("BOWLINE_OFI_DOMAIN", "")
            .cost("none")
            .change("set it where a provider has several devices");
        /// Messages that one peer may have under way to a rank before the rank has taken the
        /// first; the rank says so in its address.
        pub WINDOW: u32 = Setting::<u32>::integer("BOWLINE_OFI_WINDOW", 64, 4, 4096)
            .cost("so many messages for each peer that floods a computing rank wait in libfabric's \
                   memory or in the network")
            .change("raise it for streams of short messages over a network with a long delay");
        /// Receive buffers of a rank.
        pub RX_BUFFERS: u32 = Setting::<u32>::integer("BOWLINE_OFI_RX_BUFFERS", 256, 16, 65536)
            .cost("BOWLINE_OFI_BUFFER_BYTES of registered memory each")
            .change("raise it when many peers send to one rank at the same time");
        /// Send buffers of a rank.
        pub TX_BUFFERS: u32 = Setting::<u32>::integer("BOWLINE_OFI_TX_BUFFERS", 256, 16, 65536)
            .cost("BOWLINE_OFI_BUFFER_BYTES of registered memory each")
            .change("raise it when the counter `refused` grows while windows are open");
        /// Size of a buffer, and so the longest packed message with its header of 40 bytes.
        pub BUFFER_BYTES: usize =
            Setting::<usize>::bytes("BOWLINE_OFI_BUFFER_BYTES", 8 << 10, 1 << 10, 1 << 20)
            .cost("memory; longer messages are moved by reads and writes")
            .change("hardly ever; all ranks need the same");
        /// One-sided operations that may be under way at the same time.
        pub OPERATIONS: u32 = Setting::<u32>::integer("BOWLINE_OFI_OPERATIONS", 256, 8, 65536)
            .cost("64 bytes each, and what libfabric needs for one")
            .change("raise it for many small puts and gets over a network with a long delay");
        /// Who performs atomic operations: auto, native or emulated.
        pub ATOMICS: Atomics = Setting::<Atomics>::choice("BOWLINE_OFI_ATOMICS", "auto")
            .cost("emulated: a message each way, and the target has to make progress; native: not \
                   coherent with atomics of the target's processors")
            .change("emulated where the owner of the memory uses processor atomics on it");
        /// What a libfabric provider may ask of registered memory: auto or scalable.
        pub REGISTRATION: Registration =
            Setting::<Registration>::choice("BOWLINE_OFI_REGISTRATION", "auto")
            .cost("scalable: providers of real networks are not found any more")
            .change("to try the other forms of registration with providers that have both");
        /// Opens a descriptor on which a rank can sleep, where libfabric has one: on, off, or
        /// auto, which is on where ranks share processors.
        pub WAKEUP: WakeupMode = Setting::<WakeupMode>::choice("BOWLINE_OFI_WAKEUP", "auto")
            .cost("on: the socket providers make more system calls for each poll of a queue, \
                   a tenth to a fifth of the time of a short message; off: a rank that has waited \
                   for long polls once in a millisecond, also on behalf of peers that read and \
                   write its memory")
            .change("on for ranks that wait for long while others read and write their memory");
        /// Time after which a peer on another host counts as unreachable: libfabric takes nothing for
        /// it though nothing is under way to it, or does not answer what is under way to a peer
        /// that failed.
        pub LOST_AFTER: Duration = Setting::<Duration>::time(
            "BOWLINE_OFI_LOST_AFTER",
            Duration::from_secs(10),
            Duration::from_secs(1),
            Duration::from_secs(3600),
        )
            .cost("a longer time keeps survivors of a lost host waiting")
            .change("raise it for networks that are away for a while");
    ];
}

/// Values of the settings, in the form in which they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfiOptions {
    /// Name of the libfabric provider; `None` chooses.
    pub provider: Option<String>,
    /// Name of the domain; `None` takes the first.
    pub domain: Option<String>,
    /// Messages that a peer may have under way to us.
    pub window: u32,
    /// Receive buffers.
    pub rx_buffers: u32,
    /// Send buffers.
    pub tx_buffers: u32,
    /// Bytes of a buffer.
    pub buffer_bytes: usize,
    /// One-sided operations under way.
    pub operations: u32,
    /// Who performs atomic operations.
    pub atomics: Atomics,
    /// What may be asked of registered memory.
    pub registration: Registration,
    /// Whether to open a wait descriptor.
    pub wakeup: bool,
    /// Time after which a peer on another host is lost.
    pub lost_after: Duration,
    /// What the interfaces of a job know and nobody else; zeros prove nothing.
    pub secret: Secret,
    /// For tests: peers count as being on another host, so that their deaths are only noticed as
    /// those of other hosts are.
    #[doc(hidden)]
    pub far: bool,
}

impl Default for OfiOptions {
    fn default() -> Self {
        Self::from_config(&Config::defaults(&[SETTINGS]), false, [0; 32])
    }
}

impl OfiOptions {
    /// The values that `config` has; its tables must include [`SETTINGS`]. `shared` says whether
    /// the rank shares its processor with others, and `secret` is the job's.
    pub fn from_config(config: &Config, shared: bool, secret: [u8; 32]) -> Self {
        let named = |text: String| (!text.is_empty()).then_some(text);
        Self {
            provider: named(config.get(PROVIDER)),
            domain: named(config.get(DOMAIN)),
            window: config.get(WINDOW),
            rx_buffers: config.get(RX_BUFFERS),
            tx_buffers: config.get(TX_BUFFERS),
            buffer_bytes: config.get(BUFFER_BYTES),
            operations: config.get(OPERATIONS),
            atomics: config.get(ATOMICS),
            registration: config.get(REGISTRATION),
            wakeup: match config.get(WAKEUP) {
                WakeupMode::Auto => shared,
                WakeupMode::On => true,
                WakeupMode::Off => false,
            },
            lost_after: config.get(LOST_AFTER),
            secret: Secret::new(secret),
            far: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_wakeup_wins() {
        for (word, alone, shared) in
            [("auto", false, true), ("on", true, true), ("off", false, false)]
        {
            let mut config = Config::defaults(&[SETTINGS]);
            config.set_text("BOWLINE_OFI_WAKEUP", word).expect("a good value");
            assert_eq!(OfiOptions::from_config(&config, false, [0; 32]).wakeup, alone, "{word}");
            assert_eq!(OfiOptions::from_config(&config, true, [0; 32]).wakeup, shared, "{word}");
        }
        assert!(!OfiOptions::default().wakeup);
    }
}
