//! The address of a worker: who it is, and where each of its lanes is reached.
//!
//! Layout (little endian): magic `BWLA`, version u16, features u32, job u64, rank u32,
//! incarnation u32, uid u64, number of lanes u8, then for each lane its provider's name and its
//! address, each with a 16-bit length. A peer is (job, rank, incarnation); `uid` is random per
//! worker, so that an address met twice is known to be the same worker.

use bowline_uct::{AddrReader, AddrWriter, Truncated};
use thiserror::Error;

const MAGIC: u32 = u32::from_le_bytes(*b"BWLA");

/// Version of the wire protocol; peers of another version are refused at connection.
pub(crate) const VERSION: u16 = 1;

/// Optional abilities of a worker.
pub(crate) const FEATURES: u32 = SEND_CANCEL
    | COOPERATES
    | AM_RENDEZVOUS
    | STREAMS
    | PUTS
    | READY
    | DISCONNECTS
    | PROBED
    | PIECES
    | SERVES
    | NOTICES
    | SELECTS
    | WRITTEN
    | FLAGS;

/// It answers a sender that wants a message back.
pub(crate) const SEND_CANCEL: u32 = 1 << 0;

/// It answers a receiver that asks for help with a message.
pub(crate) const COOPERATES: u32 = 1 << 1;

/// It takes active messages whose data lies with their sender.
pub(crate) const AM_RENDEZVOUS: u32 = 1 << 2;

/// It takes streams.
pub(crate) const STREAMS: u32 = 1 << 3;

/// It knows DISCONNECT, and answers it.
pub(crate) const DISCONNECTS: u32 = 1 << 6;

/// It takes PROBE for what it is.
pub(crate) const PROBED: u32 = 1 << 7;

/// It knows envelopes of messages that do not lie in one piece.
pub(crate) const PIECES: u32 = 1 << 8;

/// It carries out what peers ask for on its memory.
pub(crate) const SERVES: u32 = 1 << 9;

/// It knows NOTICE.
pub(crate) const NOTICES: u32 = 1 << 10;

/// It takes SELECT and STREAM_END, and lengths that are marked.
pub(crate) const SELECTS: u32 = 1 << 11;

/// It takes WRITTEN in place of TAKEN and PUT_DONE.
pub(crate) const WRITTEN: u32 = 1 << 12;

/// It knows receives from any source for which it raises flags.
pub(crate) const FLAGS: u32 = 1 << 13;

/// It writes a message into the receiver's memory when it is asked to.
pub(crate) const PUTS: u32 = 1 << 4;

/// It knows receives that are announced to it.
pub(crate) const READY: u32 = 1 << 5;

/// Why bytes are not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// They do not start as an address does.
    #[error("these bytes are not a worker's address")]
    NotAnAddress,
    /// They end early.
    #[error("the worker's address is cut short")]
    Truncated,
    /// The peer speaks another version of the wire protocol.
    #[error(
        "the peer speaks version {theirs} of the wire protocol, this worker version {VERSION}; use one version of Bowline in a job"
    )]
    Version {
        /// The peer's version.
        theirs: u16,
    },
}

impl From<Truncated> for AddressError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// Where one lane of a worker is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneAddress {
    /// Name of the provider.
    pub provider: String,
    /// Its interface's address.
    pub address: Vec<u8>,
}

/// The parsed address of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerAddress {
    /// The job it belongs to.
    pub job: u64,
    /// Its rank in the job.
    pub rank: u32,
    /// How many times this rank was started anew.
    pub incarnation: u32,
    /// Random, different for every worker.
    pub uid: u64,
    /// Its abilities.
    pub features: u32,
    /// Its lanes, in its order of preference.
    pub lanes: Vec<LaneAddress>,
}

impl WorkerAddress {
    /// No worker's.
    pub(crate) const NONE: Self =
        Self { job: 0, rank: u32::MAX, incarnation: 0, uid: 0, features: 0, lanes: Vec::new() };

    /// The bytes that travel.
    pub fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        w.u32(MAGIC).u16(VERSION).u32(self.features).u64(self.job).u32(self.rank);
        w.u32(self.incarnation).u64(self.uid);
        w.u8(u8::try_from(self.lanes.len()).expect("a worker has at most 255 lanes"));
        for lane in &self.lanes {
            w.bytes(lane.provider.as_bytes()).bytes(&lane.address);
        }
        w.finish()
    }

    /// Reads bytes from anywhere.
    ///
    /// # Errors
    /// When they are not an address, end early, or come from another version.
    pub fn parse(bytes: &[u8]) -> Result<Self, AddressError> {
        let mut r = AddrReader::new(bytes);
        if r.u32()? != MAGIC {
            return Err(AddressError::NotAnAddress);
        }
        let theirs = r.u16()?;
        if theirs != VERSION {
            return Err(AddressError::Version { theirs });
        }
        let features = r.u32()?;
        let (job, rank, incarnation, uid) = (r.u64()?, r.u32()?, r.u32()?, r.u64()?);
        let count = r.u8()?;
        let mut lanes = Vec::new();
        for _ in 0..count {
            let provider = String::from_utf8_lossy(r.bytes()?).into_owned();
            lanes.push(LaneAddress { provider, address: r.bytes()?.to_vec() });
        }
        Ok(Self { job, rank, incarnation, uid, features, lanes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> WorkerAddress {
        WorkerAddress {
            job: 7,
            rank: 3,
            incarnation: 1,
            uid: 0xdead_beef,
            features: FEATURES,
            lanes: vec![
                LaneAddress { provider: "self".into(), address: vec![] },
                LaneAddress { provider: "shm".into(), address: vec![1, 2, 3] },
            ],
        }
    }

    #[test]
    fn an_address_comes_back_and_every_cut_is_noticed() {
        let bytes = sample().pack();
        assert_eq!(WorkerAddress::parse(&bytes), Ok(sample()));
        for cut in 0..bytes.len() {
            assert!(WorkerAddress::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let mut bytes = sample().pack();
        bytes[4] = 99;
        assert_eq!(WorkerAddress::parse(&bytes), Err(AddressError::Version { theirs: 99 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = WorkerAddress::parse(&bytes);
        }
    }
}
