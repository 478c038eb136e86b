//! What the interface can do and how large it is: settings, limits, capability bits.

use bowline_base::config::{Config, Setting};
use bowline_uct::{AtomicOps, Caps, IfaceAttr, Limits, OpLimits};

use crate::queue::{ENTRY_BYTES, INLINE_BYTES};

bowline_base::settings! {
    /// The settings of the self provider.
    pub const SETTINGS = [
        /// Messages that a worker may have under way to itself.
        pub SLOTS: u32 = Setting::<u32>::integer("BOWLINE_SELF_SLOTS", 256, 2, 65536)
            .cost("128 bytes of memory each")
            .change("raise it when a rank sends itself long bursts before it receives");
        /// Buffers for messages that do not fit an entry.
        pub BUFFERS: u32 = Setting::<u32>::integer("BOWLINE_SELF_BUFFERS", 64, 2, 65536)
            .cost("BOWLINE_SELF_BUFFER_BYTES of memory each, once it has been used")
            .change("raise it when the counter `refused` grows while few messages are queued");
        /// Size of such a buffer, and so the largest copied message.
        pub BUFFER_BYTES: usize =
            Setting::<usize>::bytes("BOWLINE_SELF_BUFFER_BYTES", 8192, 256, 1 << 20)
            .cost("memory; longer messages are received from where they lie")
            .change("hardly ever");
    ];
}

/// Sizes of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfConfig {
    /// Entries of the queue.
    pub slots: u32,
    /// Buffers of the pool.
    pub buffers: u32,
    /// Bytes of a buffer.
    pub buffer_bytes: usize,
}

impl SelfConfig {
    /// The sizes that `config` has, which must hold [`SETTINGS`].
    pub fn of(config: &Config) -> Self {
        Self {
            slots: config.get(SLOTS),
            buffers: config.get(BUFFERS),
            buffer_bytes: config.get(BUFFER_BYTES),
        }
    }

    pub(crate) fn pool_bytes(self) -> usize {
        self.buffers as usize * self.buffer_bytes
    }
}

impl Default for SelfConfig {
    fn default() -> Self {
        Self::of(&Config::defaults(&[SETTINGS]))
    }
}

/// Most endpoints: each is a few bytes, the bound only keeps a loop that never disconnects from
/// eating the memory of the machine.
pub(crate) const MAX_ENDPOINTS: u32 = 1 << 16;

/// No buffer of a Rust program is larger, so this is the limit of an operation without one.
const ANY: usize = isize::MAX as usize;

/// Payload of the copied flavours of put and get. The copy is direct, so the bound is not a
/// buffer's: beyond it a copy takes long enough that zcopy's single call costs nothing.
const COPIED_BYTES: usize = 64 << 10;

pub(crate) fn attr(config: SelfConfig) -> IfaceAttr {
    let one_sided = OpLimits {
        max_short: COPIED_BYTES,
        max_bcopy: COPIED_BYTES,
        min_zcopy: 0,
        max_zcopy: ANY,
        max_iov: 64,
        opt_align: 1,
    };
    IfaceAttr {
        provider: "self",
        device: "memory".to_owned(),
        caps: Caps::MESSAGES
            | Caps::PUTS
            | Caps::LOOPBACK
            | Caps::AM_ZCOPY
            | Caps::GET_BCOPY
            | Caps::GET_ZCOPY
            | Caps::ATOMIC_CPU
            | Caps::PUT_BEFORE_ATOMIC
            | Caps::PUT_BEFORE_AM
            | Caps::PUT_NOTIFY
            // A worker never outlives itself, so there is no death that it could miss.
            | Caps::PEER_FAILURE
            | Caps::EP_CHECK
            | Caps::WAKEUP
            | Caps::EVENT_FD
            | Caps::RKEY_PTR
            | Caps::RMA_REGISTERED
            | Caps::LEND,
        limits: Limits {
            am: OpLimits {
                max_short: INLINE_BYTES,
                max_bcopy: config.buffer_bytes,
                min_zcopy: 0,
                max_zcopy: ANY,
                // The receiver sees the sender's own memory, which is one piece.
                max_iov: 1,
                opt_align: 1,
            },
            put: one_sided,
            get: OpLimits { max_short: 0, ..one_sided },
        },
        atomics: AtomicOps::all(),
        max_endpoints: MAX_ENDPOINTS,
        receive_bytes: config.pool_bytes() + config.slots as usize * ENTRY_BYTES,
    }
}
