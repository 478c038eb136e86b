//! What travels between clients and server: the headers of active messages. Values are their data.
//!
//! ```text
//!   request:  what (1)  number (4)  key, all that is left        data: the value of a put
//!   reply:    how (1)   number (4)                               data: the value of a get
//! ```
//! Numbers are little-endian. A reply repeats the number of its request.

/// Active-message id of requests.
pub(crate) const REQUEST: u16 = 1;
/// Active-message id of replies.
pub(crate) const REPLY: u16 = 2;

/// Longest key.
pub(crate) const KEY_MAX: usize = 64;
/// Longest value. The server allocates a buffer for a value before it fetches it.
pub(crate) const VALUE_MAX: u64 = 64 << 20;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The key is to have this value.
    Put,
    /// The value of the key.
    Get,
    /// The key is to have no value.
    Delete,
    /// The client leaves; the data is its report.
    Bye,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Done.
    Done,
    /// The key has no value.
    Missing,
    /// The request makes no sense or is too large.
    Refused,
}

/// A request's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) what: What,
    pub(crate) number: u32,
    pub(crate) key: Vec<u8>,
}

/// A reply's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) how: How,
    pub(crate) number: u32,
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let what = match self.what {
            What::Put => 0,
            What::Get => 1,
            What::Delete => 2,
            What::Bye => 3,
        };
        let mut bytes = vec![what];
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(&self.key);
        bytes
    }

    /// The request in these bytes, if there is one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&what, rest) = bytes.split_first()?;
        let (number, key) = rest.split_first_chunk()?;
        let what = match what {
            0 => What::Put,
            1 => What::Get,
            2 => What::Delete,
            3 => What::Bye,
            _ => return None,
        };
        let number = u32::from_le_bytes(*number);
        (key.len() <= KEY_MAX).then(|| Self { what, number, key: key.to_vec() })
    }
}

impl Reply {
    pub(crate) fn encode(self) -> [u8; 5] {
        let how = match self.how {
            How::Done => 0,
            How::Missing => 1,
            How::Refused => 2,
        };
        let [a, b, c, d] = self.number.to_le_bytes();
        [how, a, b, c, d]
    }

    /// The reply in these bytes, if there is one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let &[how, a, b, c, d] = bytes else { return None };
        let how = match how {
            0 => How::Done,
            1 => How::Missing,
            2 => How::Refused,
            _ => return None,
        };
        Some(Self { how, number: u32::from_le_bytes([a, b, c, d]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            what in prop::sample::select(vec![What::Put, What::Get, What::Delete, What::Bye]),
            how in prop::sample::select(vec![How::Done, How::Missing, How::Refused]),
            number: u32,
            key in prop::collection::vec(any::<u8>(), 0..=KEY_MAX),
        ) {
            let request = Request { what, number, key };
            prop_assert_eq!(Request::decode(&request.encode()), Some(request));
            let reply = Reply { how, number };
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }

        #[test]
        fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes.clone());
            }
            if let Some(reply) = Reply::decode(&bytes) {
                prop_assert_eq!(&reply.encode()[..], &bytes[..]);
            }
        }
    }
}
