//! What an interface knows of its sources, the peers as senders: ranks of its node memory and guests.
//!
//! What is done with them is in [`crate::slow_path`] and [`crate::guests`].

use std::os::fd::OwnedFd;

use bowline_base::doorbell::Doorbell;
use bowline_uct::{EpId, PeerFailure};

use crate::addr::Process;
use crate::area::Area;

/// A failure that is to be reported to the sink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureReport {
    pub(crate) source: Option<u32>,
    pub(crate) ep: Option<EpId>,
    pub(crate) how: PeerFailure,
}

/// What is known of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Nothing to the contrary.
    There,
    /// It wrote what cannot be, and that was reported. It may still write.
    Damaged,
    /// It is gone.
    Gone,
}

/// A peer that is gone, whose last messages may not have been read yet.
#[derive(Debug)]
pub(crate) struct LostSource {
    pub(crate) source: u32,
    pub(crate) how: PeerFailure,
    /// Its failure was reported before.
    pub(crate) reported: bool,
    /// Generation of the queue when it was last checked, and flips since the peer went.
    pub(crate) generation: u32,
    pub(crate) flips: u32,
}

/// A peer from another node memory that is a guest here.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) node: u64,
    pub(crate) local: u32,
    pub(crate) instance: u64,
    pub(crate) process: Process,
    pub(crate) pidfd: Option<OwnedFd>,
    /// This process was out of descriptors, threads or memory when the guest was to be watched; it is
    /// tried again.
    pub(crate) short: bool,
    pub(crate) bell: Option<Doorbell>,
    /// Its own area, if it could be opened.
    pub(crate) area: Option<Area>,
}

impl Guest {
    /// Makes the guest check what is rare.
    pub(crate) fn call(&self) {
        if let Some(area) = &self.area {
            area.bump_attention();
        }
        self.ring();
    }

    pub(crate) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}
