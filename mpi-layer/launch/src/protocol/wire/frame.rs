//! Frames and the fields in them: cutting and reading bytes that came from elsewhere, and writing
//! one's own. What the fields mean is the business of the module above.

use super::FRAME_MAX;

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A frame of an impossible length.
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// A kind that there is not.
    #[error("a message of the unknown kind {0}")]
    Kind(u8),
    /// A body that ends early, goes on, or has an impossible value.
    #[error("a damaged message of kind {0}")]
    Body(u8),
}

/// Appends the frame of a message.
pub(super) fn frame(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    body(out);
    let length = (out.len() - start - 4) as u32;
    debug_assert!(length as usize <= FRAME_MAX, "senders cut what they send");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// A whole frame at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message.
    pub kind: u8,
    /// Its fields.
    pub body: &'a [u8],
    /// Bytes of the frame in all.
    pub length: usize,
}

/// The frame at the front of `bytes`, if all of it is there.
///
/// # Errors
/// When the length is impossible; nothing that follows can be read then.
pub fn next_frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length);
    if length == 0 || length as usize > FRAME_MAX {
        return Err(WireError::Length(length));
    }
    let Some(frame) = rest.get(..length as usize) else {
        return Ok(None);
    };
    Ok(Some(Frame { kind: frame[0], body: &frame[1..], length: 4 + length as usize }))
}

/// The fields of a body, taken from its front.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) const fn of(body: &'a [u8]) -> Self {
        Self(body)
    }
    /// Whether all fields were taken.
    pub(super) const fn is_over(&self) -> bool {
        self.0.is_empty()
    }
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }
    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    pub(super) fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn signed(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }
    pub(super) fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.word()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }
    pub(super) fn words(&mut self) -> Option<Vec<u32>> {
        let (words, rest) = self.0.as_chunks::<4>();
        self.0 = rest;
        Some(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }
    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.rest()).ok()
    }
}
