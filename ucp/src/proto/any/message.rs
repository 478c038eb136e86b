//! What receiver and sender say to each other about receives from any source: the payload of [`wire::ANY`], whose
//! words are those of a tagged message.
//!
//! [`wire::ANY`]: crate::wire::ANY

use crate::wire::{MAX_RKEY, TargetBuffer, pack_words, word};

/// Longest payload.
pub(super) const LONGEST: usize = 24 + TargetBuffer::FIXED + MAX_RKEY;

/// The payload: a kind, u64, and what belongs to it, in words of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is on the stack of a call, or in a queue of few")]
pub(crate) enum FlagMessage {
    /// ENA_ANY. The words are the space and the tag that the entry is for.
    Enable {
        entry: u64,
        /// Bits of the tag that count.
        mask: u64,
        /// Shorter messages are sent as ever.
        least: u64,
    },
    /// DISABLE_ANY.
    Disable { entry: u64 },
    /// The sender's flag of an entry is raised. The words are the envelope of the message that has raised it.
    Flag { entry: u64 },
    /// RTR_ANY: a message of the entry may be written to this receive.
    Ask { entry: u64, receive: u64, target: TargetBuffer },
    /// UNA_ANY: nothing was written to it, and nothing will be.
    Nothing { receive: u64 },
    /// SC: a message was written to it. The words are the message's envelope.
    Written {
        receive: u64,
        /// Bytes of the message, all of which are there.
        length: u64,
    },
}

impl FlagMessage {
    /// Writes the bytes to `out` and returns their number.
    pub(crate) fn pack(&self, out: &mut [u8; LONGEST]) -> usize {
        match *self {
            Self::Enable { entry, mask, least } => pack_words(&[1, entry, mask, least], out),
            Self::Disable { entry } => pack_words(&[2, entry], out),
            Self::Flag { entry } => pack_words(&[3, entry], out),
            Self::Ask { entry, receive, target } => target.pack_behind(&[4, entry, receive], out),
            Self::Nothing { receive } => pack_words(&[5, receive], out),
            Self::Written { receive, length } => pack_words(&[6, receive, length], out),
        }
    }

    /// Reads bytes of a peer.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let first = word(bytes, 1)?;
        match (word(bytes, 0)?, bytes.len()) {
            (1, 32) => {
                Some(Self::Enable { entry: first, mask: word(bytes, 2)?, least: word(bytes, 3)? })
            }
            (2, 16) => Some(Self::Disable { entry: first }),
            (3, 16) => Some(Self::Flag { entry: first }),
            (4, _) => {
                let target = TargetBuffer::parse(bytes.get(24..)?)?;
                Some(Self::Ask { entry: first, receive: word(bytes, 2)?, target })
            }
            (5, 16) => Some(Self::Nothing { receive: first }),
            (6, 24) => {
                let length = word(bytes, 2)?;
                (length > 0).then_some(Self::Written { receive: first, length })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireKey;
    use proptest::prelude::*;

    fn packed(message: &FlagMessage) -> Vec<u8> {
        let mut out = [0; LONGEST];
        let n = message.pack(&mut out);
        out[..n].to_vec()
    }

    #[test]
    fn golden_bytes() {
        let rkey = WireKey::of(&[0xee]).unwrap();
        let target = TargetBuffer { address: 6, wanted: 7, rkey };
        let mut golden = vec![0; 41];
        (golden[0], golden[8], golden[16]) = (4, 2, 3);
        (golden[24], golden[32], golden[40]) = (6, 7, 0xee);
        assert_eq!(packed(&FlagMessage::Ask { entry: 2, receive: 3, target }), golden);
        for (message, words) in [
            (FlagMessage::Enable { entry: 9, mask: 8, least: 7 }, &[1, 9, 8, 7][..]),
            (FlagMessage::Disable { entry: 9 }, &[2, 9]),
            (FlagMessage::Flag { entry: 9 }, &[3, 9]),
            (FlagMessage::Nothing { receive: 9 }, &[5, 9]),
            (FlagMessage::Written { receive: 9, length: 8 }, &[6, 9, 8]),
        ] {
            let golden: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            assert_eq!(packed(&message), golden);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(
            kind in 0..8_u8,
            mut bytes in proptest::collection::vec(any::<u8>(), 0..130),
        ) {
            if bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&u64::from(kind).to_le_bytes());
            }
            if let Some(message) = FlagMessage::parse(&bytes) {
                prop_assert_eq!(packed(&message), bytes);
            }
        }
    }
}
