//! The part of a run that any thread may carry out: its steps, and all that they need.
//!
//! It names ranks by endpoints, and the communicator by its space, so that it neither needs nor touches what belongs
//! to the rank's thread. One at a time works on it; see [`Repeat`]. Two things are left to the rank's own thread:
//! an operation of the program's, at which `advance` by another thread stops, and the end of the run.

use bowline_base::sync::atomic::AtomicBool;

use bowline_base::repeat::Repeat;
use bowline_ucp::{Envelope, Ep, MatchSpec, OpError};

use crate::coll::memory::{Port, Spaces, Stage};
use crate::coll::raw::{Predefined, ReduceOp};
use crate::error::MpiError;
use crate::handles;
use crate::process::Workspace;
use bowline_model::coll::record::{Step, Steps};

/// A core with those that may work on it: its rank, and the rank's helper if it has one.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) core: Repeat<Core>,
    /// Whether the helper's list has it. Changed with the list locked.
    pub(super) listed: AtomicBool,
}

/// How messages of a run are named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) space: u32,
    /// This rank in the communicator.
    pub(super) rank: u32,
    /// The tag of phase 0.
    pub(super) tag: u64,
}

/// What steps are carried out with, while the run is active.
#[derive(Debug)]
struct Active {
    spaces: Spaces,
    stage: Stage,
    workspace: Workspace,
    /// The step that is next.
    next: usize,
    /// The tag of the stage.
    tag: u64,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: Result<(), MpiError>,
    /// The tag of the stage that was the last.
    pub(super) tag: u64,
    /// To be used again.
    pub(super) workspace: Workspace,
}

#[derive(Debug)]
pub(crate) struct Core {
    steps: Steps,
    names: Names,
    predefined: Option<Predefined>,
    /// The endpoints of all ranks that steps send to, in order of ranks.
    peers: Vec<(u32, Result<Ep, MpiError>)>,
    active: Option<Active>,
    ended: Option<Ended>,
}

impl Core {
    pub(super) fn new(steps: Steps, names: Names, predefined: Option<Predefined>) -> Self {
        Self { steps, names, predefined, peers: Vec::new(), active: None, ended: None }
    }

    /// Looks up the endpoints that are not known.
    pub(super) fn find_peers(&mut self, find: impl Fn(u32) -> Result<Ep, MpiError>) {
        if self.peers.is_empty() {
            let receivers = self.steps.iter().filter_map(|step| match step {
                Step::Send { to, .. } => Some(to),
                _ => None,
            });
            let mut ranks: Vec<u32> = receivers.collect();
            ranks.sort_unstable();
            ranks.dedup();
            self.peers = ranks.into_iter().map(|rank| (rank, find(rank))).collect();
            return;
        }
        for (rank, known) in self.peers.iter_mut().filter(|(_, known)| known.is_err()) {
            *known = find(*rank);
        }
    }

    /// Begins with the first step; carries out none.
    ///
    /// # Safety
    /// What [`Spaces::new`] wants holds until the run has ended.
    pub(super) unsafe fn start(&mut self, spaces: Spaces, mut workspace: Workspace) {
        let stage = Stage::new(std::mem::take(&mut workspace.flights));
        let tag = self.names.tag;
        self.active = Some(Active { spaces, stage, workspace, next: 0, tag });
    }

    /// Whether it is under way.
    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// How it has ended, for the one that asks first.
    pub(super) fn take_ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }

    /// Takes back what is under way, and takes no further step. The end is still to be waited for.
    pub(super) fn give_up(&mut self, port: &impl Port) {
        if let Some(active) = &mut self.active {
            active.stage.abandon(port, MpiError::Protocol(OpError::Cancelled));
            active.next = self.steps.len();
        }
    }

    /// Carries out steps as far as they come; without `op`, which is what the rank's thread has, not those that need
    /// code of the program's. Whether there was one, or the end.
    pub(super) fn advance(&mut self, port: &impl Port, op: Option<&ReduceOp>) -> bool {
        let Some(active) = &mut self.active else { return false };
        let before = active.next;
        let outcome = loop {
            let Some(step) = self.steps.get(active.next) else {
                match active.stage.poll(port) {
                    None => return active.next > before,
                    Some(outcome) => break outcome,
                }
            };
            if step == Step::Wait {
                match active.stage.poll(port) {
                    None => return active.next > before,
                    Some(Ok(())) => active.next += 1,
                    Some(failed) => break failed,
                }
                continue;
            }
            let taken = match (step, self.predefined) {
                (Step::Reduce { left, right }, predefined) => {
                    let Active { stage, spaces, .. } = active;
                    match (predefined, op) {
                        (Some(predefined), _) => {
                            stage
                                .reduce(spaces, left, right, |operands| predefined.call(&operands));
                        }
                        // The memory is in use by who has called.
                        (None, Some(op)) => handles::without_unwinding(|| {
                            stage.reduce(spaces, left, right, |operands| op.call(&operands));
                        }),
                        (None, None) => return active.next > before,
                    }
                    Ok(())
                }
                (step, _) => active.take_step(port, step, self.names, &self.peers),
            };
            match taken {
                Ok(()) => active.next += 1,
                Err(error) => {
                    active.stage.abandon(port, error);
                    active.next = self.steps.len();
                }
            }
        };
        if let Some(Active { stage, mut workspace, tag, .. }) = self.active.take() {
            workspace.flights = stage.flights;
            self.ended = Some(Ended { outcome, tag, workspace });
        }
        true
    }
}

impl Active {
    /// Carries out a step that neither waits nor reduces.
    fn take_step(
        &mut self,
        port: &impl Port,
        step: Step,
        names: Names,
        peers: &[(u32, Result<Ep, MpiError>)],
    ) -> Result<(), MpiError> {
        let Self { spaces, stage, tag, .. } = self;
        match step {
            Step::Send { to, from, phase } => {
                *tag = names.tag + u64::from(phase);
                let known = peers.binary_search_by_key(&to, |(rank, _)| *rank);
                let ep = peers[known.expect("all receivers were looked up")].1?;
                let envelope = Envelope { space: names.space, source: names.rank, tag: *tag };
                Ok(stage.send(port, spaces, ep, envelope, from)?)
            }
            Step::Recv { from, into, phase } => {
                *tag = names.tag + u64::from(phase);
                let (space, source) = (names.space, Some(from));
                let spec = MatchSpec { space, source, tag: *tag, tag_mask: u64::MAX };
                Ok(stage.recv(port, spaces, spec, into)?)
            }
            Step::Copy { from, into } => {
                stage.copy(spaces, from, into);
                Ok(())
            }
            Step::Wait | Step::Reduce { .. } => unreachable!("it is taken elsewhere"),
        }
    }
}
