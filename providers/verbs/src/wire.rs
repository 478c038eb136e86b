//! The header in front of every message: what the receiver's handler gets, and nothing that it
//! must believe. Who sent it is known by the queue pair (rc) or the sequence header (ud).
//!
//! ```text
//!   id u8 | flags u8 | zero u16 | payload's length u32 | three words of the layer above
//! ```

use bowline_base::view::View;
use bowline_uct::{AmHeader, AmId};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

/// The sender closes: this is its last message, and not one for a handler.
const CLOSE: u8 = 1;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A message for a handler with so many bytes of payload.
    Message {
        /// The handler.
        id: AmId,
        /// The words.
        header: AmHeader,
        /// Bytes behind the header.
        payload: usize,
    },
    /// The sender's last message.
    Close,
}

/// The header's bytes.
#[inline]
pub fn encode(id: AmId, header: &AmHeader, payload: usize) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[0] = id.get();
    out[4..8].copy_from_slice(&(payload as u32).to_le_bytes());
    out[8..16].copy_from_slice(&header[0].to_le_bytes());
    out[16..24].copy_from_slice(&header[1].to_le_bytes());
    out[24..32].copy_from_slice(&header[2].to_le_bytes());
    out
}

/// The header of a last message.
pub fn encode_close() -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[1] = CLOSE;
    out
}

/// Reads the header of a message of `message` bytes, whose length the device has counted. `None`
/// if no correct peer sends that.
#[inline]
pub fn parse(message: View<'_>) -> Option<Parsed> {
    let mut bytes = [0; HEADER_BYTES];
    if message.copy_out(&mut bytes) != HEADER_BYTES {
        return None;
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let first = word(0);
    let payload = (first >> 32) as usize;
    if payload != message.len() - HEADER_BYTES || first & 0xffff_0000 != 0 {
        return None;
    }
    match bytes[1] {
        0 => {
            let header = [word(8), word(16), word(24)];
            Some(Parsed::Message { id: AmId::from_wire(bytes[0])?, header, payload })
        }
        CLOSE if payload == 0 => Some(Parsed::Close),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(mut bytes: Vec<u8>) -> Option<Parsed> {
        // SAFETY: the vector is only used through the view until the end of the call.
        parse(unsafe { View::from_raw(bytes.as_mut_ptr(), bytes.len()) })
    }

    #[test]
    fn headers_come_back() {
        let (id, header) = (AmId::new(31), [1, u64::MAX, 1 << 63]);
        let mut bytes = encode(id, &header, 3).to_vec();
        bytes.extend_from_slice(b"abc");
        assert_eq!(parsed(bytes.clone()), Some(Parsed::Message { id, header, payload: 3 }));
        bytes.push(0);
        assert_eq!(parsed(bytes), None);
        assert_eq!(parsed(encode_close().to_vec()), Some(Parsed::Close));
    }

    #[test]
    fn what_no_peer_sends_is_refused() {
        let good = encode(AmId::new(1), &[0; 3], 0);
        for cut in 0..HEADER_BYTES {
            assert_eq!(parsed(good[..cut].to_vec()), None);
        }
        for (place, value) in
            [(0, 32), (0, 255), (1, 2), (1, 255), (2, 1), (3, 1), (4, 1), (7, 255)]
        {
            let mut bytes = good;
            bytes[place] = value;
            assert_eq!(parsed(bytes.to_vec()), None, "{value} at {place}");
        }
    }
}
