//! What an algorithm does, counted, and what that takes.

use super::{Costs, Crew};
use crate::choice::last_of;

/// What an algorithm does, on its critical path and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Messages that follow each other: each waits for the one before.
    pub hops: f64,
    /// Messages whose sending keeps the ranks on the critical path busy.
    pub sends: f64,
    /// Messages whose arrival does.
    pub receives: f64,
    /// Bytes of the messages that are sent on it.
    pub bytes: f64,
    /// Bytes that are reduced on it.
    pub reduced: f64,
    /// Bytes that are copied on it.
    pub copied: f64,
    /// Messages of all ranks.
    pub messages: f64,
    /// Their bytes.
    pub all_bytes: f64,
    /// Bytes that all ranks reduce.
    pub all_reduced: f64,
    /// How often ranks have to run one after the other.
    pub switches: f64,
    /// How late the last of those is that are waited for, stage by stage, where a rank is late by 1 in the mean.
    pub lateness: f64,
    /// Marks in memory that ranks share, which are written or waited for on the critical path.
    pub marks: f64,
    /// Bytes that are moved into such memory or out of it on that path.
    pub moved: f64,
    /// Marks of all ranks.
    pub all_marks: f64,
    /// Bytes that all ranks move.
    pub all_moved: f64,
    /// Those of them that no cache holds.
    pub spilled: f64,
}

impl Load {
    /// One after the other.
    pub(super) fn then(self, next: Self) -> Self {
        Self {
            hops: self.hops + next.hops,
            sends: self.sends + next.sends,
            receives: self.receives + next.receives,
            bytes: self.bytes + next.bytes,
            reduced: self.reduced + next.reduced,
            copied: self.copied + next.copied,
            messages: self.messages + next.messages,
            all_bytes: self.all_bytes + next.all_bytes,
            all_reduced: self.all_reduced + next.all_reduced,
            switches: self.switches + next.switches,
            lateness: self.lateness + next.lateness,
            marks: self.marks + next.marks,
            moved: self.moved + next.moved,
            all_marks: self.all_marks + next.all_marks,
            all_moved: self.all_moved + next.all_moved,
            spilled: self.spilled + next.spilled,
        }
    }

    /// So many times.
    pub(super) fn times(self, n: f64) -> Self {
        Self {
            hops: self.hops * n,
            sends: self.sends * n,
            receives: self.receives * n,
            bytes: self.bytes * n,
            reduced: self.reduced * n,
            copied: self.copied * n,
            messages: self.messages * n,
            all_bytes: self.all_bytes * n,
            all_reduced: self.all_reduced * n,
            switches: self.switches * n,
            lateness: self.lateness * n,
            marks: self.marks * n,
            moved: self.moved * n,
            all_marks: self.all_marks * n,
            all_moved: self.all_moved * n,
            spilled: self.spilled * n,
        }
    }

    /// A stage in which each of `ranks` sends `width` messages of `bytes` and gets as many.
    pub(super) fn exchange(ranks: f64, width: f64, bytes: f64) -> Self {
        Self {
            hops: 1.0,
            sends: width,
            receives: width,
            bytes: width * bytes,
            messages: ranks * width,
            all_bytes: ranks * width * bytes,
            switches: 1.0,
            lateness: last_of(width as u32 + 1),
            ..Self::default()
        }
    }

    /// A rank sends `bytes` to each of `width` others.
    pub(super) fn fan_out(width: f64, bytes: f64) -> Self {
        Self {
            hops: 1.0,
            sends: width,
            receives: 1.0,
            bytes: width * bytes,
            messages: width,
            all_bytes: width * bytes,
            switches: 1.0,
            lateness: 1.0,
            ..Self::default()
        }
    }

    /// A rank gets `bytes` from each of `width` others.
    pub(super) fn fan_in(width: f64, bytes: f64) -> Self {
        let lateness = last_of(width as u32 + 1);
        Self { sends: 1.0, receives: width, bytes, lateness, ..Self::fan_out(width, bytes) }
    }

    /// One rank reduces so many bytes.
    pub(super) const fn reducing(mut self, bytes: f64) -> Self {
        self.reduced += bytes;
        self.all_reduced += bytes;
        self
    }

    /// Each of `ranks` reduces so many.
    pub(super) const fn all_reducing(mut self, ranks: f64, bytes: f64) -> Self {
        self.reduced += bytes;
        self.all_reduced += ranks * bytes;
        self
    }

    /// Each rank copies so many.
    pub(super) const fn copying(mut self, bytes: f64) -> Self {
        self.copied += bytes;
        self
    }

    /// Nanoseconds in which messages are under way that the next ones wait for, were all of them short: how often
    /// messages wait for each other, by what that takes on this network.
    pub fn waits(&self, costs: &Costs) -> f64 {
        self.hops * costs.message(0.0).0
    }

    /// Nanoseconds.
    pub fn time(&self, crew: Crew, costs: &Costs) -> f64 {
        // Costs by size are those of the mean message.
        let (algorithm, send) =
            costs.message(if self.sends > 0.0 { self.bytes / self.sends } else { 0.0 });
        let algorithm = self.hops * algorithm;
        let busy = self.sends * send
            + self.receives * costs.receive
            + self.reduced * costs.reduce
            + self.copied * costs.copy
            + self.marks * costs.mark
            + self.moved * costs.slot
            + self.spilled / f64::from(crew.ranks) * costs.spill;
        let algorithm = algorithm + self.lateness * costs.skew;
        if crew.share <= 1.0 {
            return algorithm + busy;
        }
        let mean = if self.messages > 0.0 { self.all_bytes / self.messages } else { 0.0 };
        let all = self.messages * (costs.message(mean).1 + costs.receive)
            + self.all_bytes * costs.receive_byte
            + self.all_reduced * costs.reduce
            + self.copied * f64::from(crew.ranks) * costs.copy
            + self.all_marks * costs.mark
            + self.all_moved * costs.slot
            + self.spilled * costs.spill;
        let processors = f64::from(crew.ranks) / crew.share;
        let all = all / processors;
        let work = busy.max(all) + busy.min(all) * costs.interference;
        algorithm + work + self.switches * crew.share * costs.switch
    }
}
