//! What receiver and sender say to each other about announced receives: the payload of
//! [`wire::RTR`], whose words are those of a tagged message.

use crate::wire::{MAX_RKEY, TargetBuffer, pack_words, word};

/// Longest payload.
pub(super) const LONGEST: usize = 32 + TargetBuffer::FIXED + MAX_RKEY;

/// The payload: a kind, u64, and what belongs to it, in words of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one lives on the stack of a call, and none is kept")]
pub(crate) enum RtrMessage {
    /// A receive waits. The words' tag is the one that it wants.
    Rtr {
        receive: u64,
        /// Sequence number of the first message that was not seen.
        seen: u32,
        /// Receives of the same sub-list in front of it.
        ahead: u32,
        /// Bits of the tag that count.
        mask: u64,
        target: TargetBuffer,
    },
    /// A message is being written to it. The words are the message's envelope.
    Taken {
        receive: u64,
        /// The sender's request.
        request: u64,
        /// Bytes of the message, whether or not they fit.
        length: u64,
    },
    /// A message was written to it whole: TAKEN and PUT_DONE in one. The words are the message's envelope.
    Written {
        receive: u64,
        /// Bytes of the message, whether or not they fit.
        length: u64,
    },
    /// The receive wants to end.
    Withdraw { receive: u64 },
    /// Nothing will be written to it any more.
    Withdrawn { receive: u64 },
}

impl RtrMessage {
    /// Writes the bytes to `out` and returns their number.
    pub(crate) fn pack(&self, out: &mut [u8; LONGEST]) -> usize {
        match *self {
            Self::Rtr { receive, seen, ahead, mask, target } => {
                let counts = u64::from(seen) | u64::from(ahead) << 32;
                target.pack_behind(&[1, receive, counts, mask], out)
            }
            Self::Taken { receive, request, length } => {
                pack_words(&[2, receive, request, length], out)
            }
            Self::Written { receive, length } => pack_words(&[5, receive, length], out),
            Self::Withdraw { receive } => pack_words(&[3, receive], out),
            Self::Withdrawn { receive } => pack_words(&[4, receive], out),
        }
    }

    /// Reads bytes of a peer.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let receive = word(bytes, 1)?;
        match (word(bytes, 0)?, bytes.len()) {
            (1, _) => {
                let counts = word(bytes, 2)?;
                let target = TargetBuffer::parse(bytes.get(32..)?)?;
                let (seen, ahead) = (counts as u32, (counts >> 32) as u32);
                Some(Self::Rtr { receive, seen, ahead, mask: word(bytes, 3)?, target })
            }
            (2, 32) => {
                let (request, length) = (word(bytes, 2)?, word(bytes, 3)?);
                (length > 0).then_some(Self::Taken { receive, request, length })
            }
            (5, 24) => {
                let length = word(bytes, 2)?;
                (length > 0).then_some(Self::Written { receive, length })
            }
            (3, 16) => Some(Self::Withdraw { receive }),
            (4, 16) => Some(Self::Withdrawn { receive }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireKey;
    use proptest::prelude::*;

    fn packed(message: &RtrMessage) -> Vec<u8> {
        let mut out = [0; LONGEST];
        let n = message.pack(&mut out);
        out[..n].to_vec()
    }

    #[test]
    fn golden_bytes() {
        let rkey = WireKey::of(&[0xee]).unwrap();
        let target = TargetBuffer { address: 6, wanted: 7, rkey };
        let rtr = RtrMessage::Rtr { receive: 2, seen: 3, ahead: 4, mask: 5, target };
        let mut golden = vec![0; 49];
        (golden[0], golden[8], golden[16], golden[20], golden[24]) = (1, 2, 3, 4, 5);
        (golden[32], golden[40], golden[48]) = (6, 7, 0xee);
        assert_eq!(packed(&rtr), golden);
        let taken = RtrMessage::Taken { receive: 3, request: 4, length: 5 };
        let mut golden = vec![0; 32];
        (golden[0], golden[8], golden[16], golden[24]) = (2, 3, 4, 5);
        assert_eq!(packed(&taken), golden);
        let written = RtrMessage::Written { receive: 3, length: 4 };
        let mut golden = vec![0; 24];
        (golden[0], golden[8], golden[16]) = (5, 3, 4);
        assert_eq!(packed(&written), golden);
        for (kind, message) in
            [(3, RtrMessage::Withdraw { receive: 9 }), (4, RtrMessage::Withdrawn { receive: 9 })]
        {
            let mut golden = vec![0; 16];
            (golden[0], golden[8]) = (kind, 9);
            assert_eq!(packed(&message), golden);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(
            kind in 0..7_u8,
            mut bytes in proptest::collection::vec(any::<u8>(), 0..130),
        ) {
            if bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&u64::from(kind).to_le_bytes());
            }
            if let Some(message) = RtrMessage::parse(&bytes) {
                prop_assert_eq!(packed(&message), bytes);
            }
        }
    }
}
