//! The header in front of every datagram of the user's messages.
//!
//! ```text
//!   kind u8 | flags u8 | share u16 | to u32 | session u32 | sequence u32 | expected u32 | zero u32
//! ```
//!
//! `to` and `session` are the end that the receiver named when the connection was agreed on, so a
//! datagram of an earlier connection, or of a sender that was never known, finds nothing. `expected`
//! acknowledges all that stand before it. `share` is how many datagrams of the receiver's the sender
//! has buffers for.

/// Bytes of the header.
pub const HEAD_BYTES: usize = 24;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// A message behind it.
    Data,
    /// Only an acknowledgement.
    Ack {
        /// Something is missing: send again from there, now.
        gap: bool,
    },
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHead {
    /// What follows.
    pub kind: DatagramKind,
    /// Number of the receiver's end.
    pub to: u32,
    /// The end's secret.
    pub session: u32,
    /// Number of this datagram among those with messages.
    pub sequence: u32,
    /// Number of the datagram that the sender waits for.
    pub expected: u32,
    /// Datagrams of the receiver's for which the sender has buffers.
    pub share: u16,
}

impl DatagramHead {
    /// The header's bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        (out[0], out[1]) = match self.kind {
            DatagramKind::Data => (1, 0),
            DatagramKind::Ack { gap } => (2, u8::from(gap)),
        };
        out[2..4].copy_from_slice(&self.share.to_le_bytes());
        out[4..8].copy_from_slice(&self.to.to_le_bytes());
        out[8..12].copy_from_slice(&self.session.to_le_bytes());
        out[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..20].copy_from_slice(&self.expected.to_le_bytes());
        out
    }

    /// The header at the start of `bytes`, if it is one.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEAD_BYTES>()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let kind = match (bytes[0], bytes[1]) {
            (1, 0) => DatagramKind::Data,
            (2, 0) => DatagramKind::Ack { gap: false },
            (2, 1) => DatagramKind::Ack { gap: true },
            _ => return None,
        };
        if word(20) != 0 {
            return None;
        }
        let share = u16::from_le_bytes([bytes[2], bytes[3]]);
        let (to, session, sequence, expected) = (word(4), word(8), word(12), word(16));
        Some(Self { kind, to, session, sequence, expected, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_others_are_refused() {
        for kind in
            [DatagramKind::Data, DatagramKind::Ack { gap: false }, DatagramKind::Ack { gap: true }]
        {
            let head =
                DatagramHead { kind, to: 1, session: 2, sequence: u32::MAX, expected: 4, share: 5 };
            let bytes = head.encode();
            assert_eq!(DatagramHead::decode(&bytes), Some(head));
            assert_eq!(DatagramHead::decode(&bytes[..HEAD_BYTES - 1]), None);
            for (place, value) in [(0, 0), (0, 3), (1, 2), (20, 1), (23, 1)] {
                let mut bad = bytes;
                bad[place] = value;
                assert_eq!(DatagramHead::decode(&bad), None, "{value} at {place}");
            }
        }
    }
}
