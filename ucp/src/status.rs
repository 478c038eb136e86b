//! How an operation ended, and what a receive has brought.

use thiserror::Error;

use crate::error::OpError;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpStatus {
    /// For a receive: the sender's rank in the space.
    pub source: u32,
    /// For a receive: the message's tag.
    pub tag: u64,
    /// Bytes of the message as it was sent.
    pub length: u64,
    /// Success, or what went wrong.
    pub outcome: Result<(), OpError>,
}

impl OpStatus {
    /// A success without message.
    pub(crate) const NONE: Self = Self { source: 0, tag: 0, length: 0, outcome: Ok(()) };

    /// Makes it one, by fields: a constant would be loaded to be stored.
    #[inline(always)]
    pub(crate) const fn clear(&mut self) {
        (self.source, self.tag, self.length, self.outcome) = (0, 0, 0, Ok(()));
    }

    /// What a receive has brought.
    ///
    /// # Errors
    /// Its own, with all that is known of the message.
    #[inline]
    pub fn message(&self) -> Result<MessageInfo, ReceiveError> {
        match self.outcome {
            Ok(()) => Ok(MessageInfo { source: self.source, tag: self.tag, length: self.length }),
            Err(_) => Err((*self).into()),
        }
    }

    /// The same back.
    #[inline(always)]
    pub(crate) fn of(ended: Result<MessageInfo, ReceiveError>) -> Self {
        match ended {
            Ok(MessageInfo { source, tag, length }) => {
                Self { source, tag, length, outcome: Ok(()) }
            }
            Err(error) => *error.status(),
        }
    }

    /// A failure.
    pub(crate) const fn failed(error: OpError) -> Self {
        Self { source: 0, tag: 0, length: 0, outcome: Err(error) }
    }
}

/// What a probe says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageInfo {
    /// The sender's rank in the space.
    pub source: u32,
    /// The tag.
    pub tag: u64,
    /// Bytes.
    pub length: u64,
}

/// Why a blocking receive failed, with what is known of the message: of one that was cut, all. It has the size
/// of a pointer, so that a result is returned in registers.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{}", self.error())]
pub struct ReceiveError(Box<OpStatus>);

bowline_base::debug_by_display!(ReceiveError);

impl ReceiveError {
    /// The error.
    pub fn error(&self) -> OpError {
        // None of these is made of a success.
        self.0.outcome.err().unwrap_or(OpError::BadRequest)
    }

    /// The status of the receive.
    pub fn status(&self) -> &OpStatus {
        &self.0
    }
}

impl From<OpStatus> for ReceiveError {
    #[cold]
    fn from(status: OpStatus) -> Self {
        Self(Box::new(status))
    }
}

impl From<OpError> for ReceiveError {
    #[cold]
    fn from(error: OpError) -> Self {
        OpStatus::failed(error).into()
    }
}

impl From<ReceiveError> for OpError {
    fn from(error: ReceiveError) -> Self {
        error.error()
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// Nothing: it is complete, and its status can be taken.
    Nothing,
    /// A message that fits, or bytes of a stream.
    Arrival,
    /// Space in the transport, or credit of the peer.
    Resource,
    /// The peer, which has the message or its envelope, to receive it.
    Receiver,
    /// The rest of a message that is being moved.
    Data,
    /// The transport, which has the operation.
    Transport,
}
