//! Blocking point-to-point communication. (MPI: Point-to-Point Communication.)
//!
//! The short path is here: two compares for rank and tag, a load for the endpoint, and one call
//! of the protocol layer; everything rare is in cold functions. Nonblocking calls are in
//! [`scope`](crate::scope) and [`owned`](crate::owned), probes in [`probe`](crate::probe).

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_ucp::{Envelope, Ep, MatchSpec, ReceiveError, SendMode};

use crate::comm::{CommInner, Communicator};
use crate::consts::{ANY_SOURCE, PROC_NULL};
use crate::datatype::{Datatype, bytes_of, bytes_of_mut};
use crate::error::MpiError;
use crate::handles;
use crate::status::Status;
use crate::tags;

impl Communicator {
    /// Sends `items` to rank `dest`; returns when the buffer may be written again, which does not
    /// say that the message was received. (`MPI_Send`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`] and [`MpiError::InvalidTag`] for arguments out of range; the
    /// partner's failure.
    #[inline]
    pub fn send<T: Datatype>(&self, items: &[T], dest: i32, tag: i32) -> Result<(), MpiError> {
        self.send_mode(bytes_of(items), dest, tag, SendMode::Standard)
    }

    /// Sends `items` to rank `dest`; returns when the message has been matched by a receive.
    /// (`MPI_Ssend`)
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    #[inline]
    pub fn ssend<T: Datatype>(&self, items: &[T], dest: i32, tag: i32) -> Result<(), MpiError> {
        self.send_mode(bytes_of(items), dest, tag, SendMode::Synchronous)
    }

    /// Not inlined into the program: what it calls is.
    fn send_mode(&self, bytes: &[u8], dest: i32, tag: i32, mode: SendMode) -> Result<(), MpiError> {
        let Some((ep, envelope)) = self.destination(dest, tag)? else { return Ok(()) };
        handles::send(&self.inner.process, ep, envelope, bytes, mode).map_err(MpiError::from)
    }

    /// Receives a message of rank `source`, or of [`ANY_SOURCE`], with `tag`, or
    /// [`ANY_TAG`](crate::ANY_TAG), into `items`. The message may be shorter than the buffer.
    /// (`MPI_Recv`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`] and [`MpiError::InvalidTag`] for arguments out of range;
    /// [`MpiError::Truncated`] when the message was longer than the buffer, which then holds what
    /// fits; the partner's failure.
    #[inline]
    pub fn recv<T: Datatype>(
        &self,
        items: &mut [T],
        source: i32,
        tag: i32,
    ) -> Result<Status, MpiError> {
        self.recv_bytes(bytes_of_mut(items), source, tag)
    }

    /// Not inlined into the program: what it calls is.
    fn recv_bytes(&self, bytes: &mut [u8], source: i32, tag: i32) -> Result<Status, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(Status::NULL) };
        let message = handles::receive(&self.inner.process, spec, bytes)?;
        Ok(Status::of_message(&message))
    }

    /// Sends `out` to `dest` and receives into `into` from `source` at the same time, so that
    /// exchanges and shifts cannot deadlock. (`MPI_Sendrecv`)
    ///
    /// # Errors
    /// Those of [`send`](Self::send) and [`recv`](Self::recv).
    #[inline]
    pub fn sendrecv<T: Datatype, U: Datatype>(
        &self,
        out: &[T],
        dest: i32,
        send_tag: i32,
        into: &mut [U],
        source: i32,
        recv_tag: i32,
    ) -> Result<Status, MpiError> {
        let send = self.destination(dest, send_tag)?;
        let receive = self.wanted(source, recv_tag)?;
        self.exchange_bytes(send, bytes_of(out), receive, bytes_of_mut(into))
    }

    /// Sends `items` to `dest` and replaces them by a message of `source`.
    /// (`MPI_Sendrecv_replace`)
    ///
    /// # Errors
    /// Those of [`sendrecv`](Self::sendrecv).
    pub fn sendrecv_replace<T: Datatype>(
        &self,
        items: &mut [T],
        dest: i32,
        send_tag: i32,
        source: i32,
        recv_tag: i32,
    ) -> Result<Status, MpiError> {
        let send = self.destination(dest, send_tag)?;
        let receive = self.wanted(source, recv_tag)?;
        let out = items.to_vec();
        self.exchange_bytes(send, bytes_of(&out), receive, bytes_of_mut(items))
    }

    #[inline]
    fn exchange_bytes(
        &self,
        send: Option<(Ep, Envelope)>,
        out: &[u8],
        receive: Option<MatchSpec>,
        into: &mut [u8],
    ) -> Result<Status, MpiError> {
        // SAFETY: both are borrowed until this function ends, which it does not, nor unwind, before
        // both operations are complete.
        let (out, into) = unsafe {
            (
                SendBuf::borrowed(out.as_ptr(), out.len()),
                RecvBuf::borrowed(into.as_mut_ptr(), into.len()),
            )
        };
        Ok(self.exchange(send, out, receive, into)?)
    }

    /// Sends and receives at once; neither returns nor unwinds before both are complete.
    #[inline]
    pub(crate) fn exchange(
        &self,
        send: Option<(Ep, Envelope)>,
        out: SendBuf,
        receive: Option<MatchSpec>,
        into: RecvBuf,
    ) -> Result<Status, ReceiveError> {
        let process = &*self.inner.process;
        match (send, receive) {
            (Some((ep, envelope)), Some(spec)) => Ok(Status::of_message(&handles::exchange(
                process,
                (ep, envelope, out),
                (spec, into),
            )?)),
            (Some((ep, envelope)), None) => {
                handles::send_buffer(process, ep, envelope, out, SendMode::Standard)?;
                Ok(Status::NULL)
            }
            (None, Some(spec)) => {
                Ok(Status::of_message(&handles::receive_buffer(process, spec, into)?))
            }
            (None, None) => Ok(Status::NULL),
        }
    }

    /// Where a message for `dest` goes; `None` when that is nobody.
    #[inline]
    pub(crate) fn destination(
        &self,
        dest: i32,
        tag: i32,
    ) -> Result<Option<(Ep, Envelope)>, MpiError> {
        let inner = &*self.inner;
        if tag < 0 {
            return Err(MpiError::InvalidTag { tag });
        }
        // A negative rank is a large unsigned one.
        if dest as u32 >= inner.size {
            self.null_partner(dest)?;
            return Ok(None);
        }
        let ep = inner.endpoint(dest as u32)?;
        Ok(Some((ep, inner.envelope(tag))))
    }

    /// What a receive accepts; `None` when nobody sends.
    #[inline]
    pub(crate) fn wanted(&self, source: i32, tag: i32) -> Result<Option<MatchSpec>, MpiError> {
        let accepted = self.inner.accepted(source, tag);
        if accepted.is_none() {
            if tags::receive(0, tag).is_none() {
                return Err(MpiError::InvalidTag { tag });
            }
            self.null_partner(source)?;
        }
        Ok(accepted)
    }
}

impl CommInner {
    /// What a receive accepts; `None` when nobody sends or an argument is wrong.
    #[inline(always)]
    pub(crate) fn accepted(&self, source: i32, tag: i32) -> Option<MatchSpec> {
        let wanted = tags::receive(self.generation, tag)?;
        let rank = source as u32;
        let from = if rank < self.size {
            Some(rank)
        } else if source == ANY_SOURCE {
            None
        } else {
            return None;
        };
        Some(MatchSpec {
            space: self.space(),
            source: from,
            tag: wanted.tag,
            tag_mask: wanted.mask,
        })
    }

    /// The envelope of a message of this rank; `tag` is not negative.
    #[inline]
    pub(crate) fn envelope(&self, tag: i32) -> Envelope {
        let tag = tags::send(self.generation, tag);
        Envelope { space: self.space(), source: self.rank, tag }
    }
}

const _: () = assert!(PROC_NULL < 0 && ANY_SOURCE < 0, "special ranks are no ranks");
