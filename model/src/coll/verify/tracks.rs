//! Tracks of a rank: how far each has come, and what they have used since the last join.

use std::collections::HashMap;

use crate::coll::plan::{Space, Span};
use crate::coll::record::{Step, Steps};

/// A place in a rank's steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The step that is next.
    pub(super) next: usize,
    /// The track that the next step belongs to.
    pub(super) track: u8,
    /// The only track whose steps it takes, if not those of all.
    only: Option<u8>,
}

impl Cursor {
    /// One for each track, or one for all.
    pub(super) fn of(tracks: u8, all: bool) -> Vec<Self> {
        let cursor = |only| Self { next: 0, track: 0, only };
        if all {
            vec![cursor(None)]
        } else {
            (0..tracks).map(|track| cursor(Some(track))).collect()
        }
    }

    /// Goes to the next step that it takes, which it may have to wait at.
    pub(super) fn find(&mut self, steps: &Steps) -> Option<Step> {
        loop {
            let step = steps.get(self.next)?;
            match step {
                Step::Track(track) => self.track = track,
                Step::Join => return Some(step),
                _ if self.only.is_none_or(|only| only == self.track) => return Some(step),
                _ => {}
            }
            self.next += 1;
        }
    }

    /// All tracks have ended.
    pub(super) const fn pass_join(&mut self) {
        self.next += 1;
        self.track = 0;
    }
}

/// What tracks have used.
#[derive(Debug, Default)]
pub(super) struct Touched {
    spans: Vec<(u8, Span, bool)>,
    phases: HashMap<(u32, u8, bool), u8>,
}

impl Touched {
    /// Notes that a track uses a span. Whether no other one writes it, or uses it if it is written.
    pub(super) fn use_span(&mut self, track: u8, span: Span, write: bool) -> bool {
        if span.len == 0 || span.space == Space::Input {
            return true;
        }
        let hits = |&(other, used, written): &(u8, Span, bool)| {
            other != track && (write || written) && used.overlaps(span)
        };
        if self.spans.iter().any(hits) {
            return false;
        }
        if !self.spans.contains(&(track, span, write)) {
            self.spans.push((track, span, write));
        }
        true
    }

    /// Notes that a track names a rank in a phase, to send or not. Whether no other one does.
    pub(super) fn use_phase(&mut self, track: u8, named: (u32, u8, bool)) -> bool {
        *self.phases.entry(named).or_insert(track) == track
    }
}
