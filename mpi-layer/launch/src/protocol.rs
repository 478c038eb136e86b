//! What a launcher and its agents have in common: their messages, the stream that carries them, and
//! the limits that both keep.

use std::time::Duration;

pub(crate) mod channel;
pub mod wire;

/// The time that the beginning of a conversation may take: a login over a network, and memory
/// that has to be reserved.
pub(crate) const PATIENCE_AT_START: Duration = Duration::from_secs(30);

/// Bytes of output that an agent may send before the launcher grants more.
pub(crate) const OUTPUT_CREDIT: u32 = 256 << 10;
/// Bytes of input that the launcher may send before the agent has passed them on.
pub(crate) const INPUT_CREDIT: u32 = 64 << 10;
