//! The part of a run that any thread may carry out: its steps, and all that they need.
//!
//! It names ranks by endpoints, and the communicator by its space, so that it neither needs nor touches what belongs
//! to the rank's thread. One at a time works on it; see [`Repeat`]. Two things are left to the rank's own thread:
//! an operation of the program's, at which `advance` by another thread stops, and the end of the run.

use bowline_base::sync::atomic::AtomicBool;

use bowline_base::repeat::Repeat;
use bowline_ucp::{Envelope, Ep, MatchSpec};

use super::memory::{Own, Port, Spaces, Stage, recv_empty, send_empty};
use crate::error::MpiError;
use crate::op::reduce_op::{Predefined, ReduceOp};
use crate::unwinding::without_unwinding;
use crate::workspace::Workspace;
use bowline_model::coll::record::{Step, Steps};

/// A core with those that may work on it: its rank, and the rank's helper if it has one.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) core: Repeat<Core>,
    /// Whether the helper's list has it. Changed with the list locked.
    pub(crate) listed: AtomicBool,
}

/// How messages of a run are named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) own: Own,
    /// The tag of phase 0.
    pub(crate) tag: u64,
}

/// What steps are carried out with, while the run is active.
#[derive(Debug)]
struct Active {
    spaces: Spaces,
    tracks: Vec<Track>,
    workspace: Workspace,
    /// The tag of the step that communicated last.
    tag: u64,
    /// The first failure. After one of this rank's own the steps go on without bytes and without waits (rule 3
    /// of [`memory`](super::memory)).
    failed: Option<MpiError>,
}

/// A track of the plan, which goes through all steps and carries out its own.
#[derive(Debug)]
struct Track {
    /// Its number.
    number: u8,
    stage: Stage,
    /// The step that is next.
    next: usize,
    /// The track that the next step belongs to.
    of: u8,
}

/// What became of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// A step was carried out, or a stage has ended.
    On,
    /// It waits for its operations, or for an operation of the program's.
    Nowhere,
    /// Its operations have ended, and it stands at a join or at the end.
    ToJoin,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Result<(), MpiError>,
    /// The tag of the stage that was the last.
    pub(crate) tag: u64,
    /// To be used again.
    pub(crate) workspace: Workspace,
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
    pub(crate) fn new(steps: Steps, names: Names, predefined: Option<Predefined>) -> Self {
        Self { steps, names, predefined, peers: Vec::new(), active: None, ended: None }
    }

    /// Finds the endpoints that are not known.
    pub(crate) fn find_peers(&mut self, find: impl Fn(u32) -> Result<Ep, MpiError>) {
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
    pub(crate) unsafe fn start(&mut self, spaces: Spaces, mut workspace: Workspace) {
        let tracks = (0..self.steps.tracks()).map(|number| {
            // The first one has the workspace.
            let flights = std::mem::take(&mut workspace.flights);
            Track { number, stage: Stage::new(flights), next: 0, of: 0 }
        });
        let tracks = tracks.collect();
        let tag = self.names.tag;
        self.active = Some(Active { spaces, tracks, workspace, tag, failed: None });
    }

    /// Whether it is under way.
    pub(crate) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// How it has ended, for the one that asks first.
    pub(crate) fn take_ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }

    /// Takes back what is under way, and goes on without bytes. The end is still to be waited for.
    pub(crate) fn give_up(&mut self, port: &impl Port, why: MpiError) {
        if let Some(active) = &mut self.active {
            active.fail(port, why, self.steps.len());
        }
    }

    /// Carries out steps as far as they come; without `op`, which is what the rank's thread has, not those that need
    /// code of the program's. Whether there was one, or the end.
    pub(crate) fn advance(&mut self, port: &impl Port, op: Option<&ReduceOp>) -> bool {
        let mut moved = false;
        loop {
            let Self { active: Some(active), steps, names, peers, predefined, .. } = self else {
                return moved;
            };
            let (mut again, mut joined) = (false, true);
            for index in 0..active.tracks.len() {
                let came = loop {
                    let (steps, peers) = (&*steps, peers.as_slice());
                    let with = With { steps, names: *names, peers, op, predefined: *predefined };
                    match active.go_on(port, index, &with) {
                        Came::On => again = true,
                        came => break came,
                    }
                };
                joined &= came == Came::ToJoin;
            }
            moved |= again;
            if joined {
                moved = true;
                if active.pass_join(steps) {
                    continue;
                }
                self.end();
                return true;
            }
            // One track may be all there is, and has come as far as it can.
            if !again || active.tracks.len() == 1 {
                return moved;
            }
        }
    }

    fn end(&mut self) {
        if let Some(Active { tracks, mut workspace, tag, failed, .. }) = self.active.take() {
            if let Some(first) = tracks.into_iter().next() {
                workspace.flights = first.stage.flights;
            }
            self.ended = Some(Ended { outcome: failed.map_or(Ok(()), Err), tag, workspace });
        }
    }
}

/// What a step is carried out with beside the memory.
struct With<'a> {
    steps: &'a Steps,
    names: Names,
    peers: &'a [(u32, Result<Ep, MpiError>)],
    op: Option<&'a ReduceOp>,
    predefined: Option<Predefined>,
}

impl Active {
    /// Gives up. Where others learn nothing of the failure, the tracks go on without bytes; else they go to the end.
    #[cold]
    fn fail(&mut self, port: &impl Port, error: MpiError, end: usize) {
        let is_first = self.failed.is_none();
        let first = *self.failed.get_or_insert(error);
        for track in &mut self.tracks {
            // Its stage reports that once more when it has ended.
            if is_first {
                track.stage.abandon(port, error);
            }
            if !first.is_own() || !error.is_own() {
                track.next = end;
            }
        }
    }

    /// All tracks stand at a join, or at the end. Whether they go on behind it.
    fn pass_join(&mut self, steps: &Steps) -> bool {
        let ended = self.tracks.iter().any(|track| track.next >= steps.len());
        self.tracks.iter_mut().for_each(|track| (track.next, track.of) = (track.next + 1, 0));
        !ended
    }

    /// Carries out the next step of a track.
    fn go_on(&mut self, port: &impl Port, index: usize, with: &With<'_>) -> Came {
        let track = &mut self.tracks[index];
        // Those of other tracks are passed over.
        let step = loop {
            match with.steps.get(track.next) {
                Some(Step::Track(number)) => track.of = number,
                Some(step) if step != Step::Join && track.of != track.number => {}
                step => break step,
            }
            track.next += 1;
        };
        let step = match step {
            Some(step) if !matches!(step, Step::Wait | Step::Join) => step,
            ends => {
                return match track.stage.poll(port, with.names.own) {
                    None => Came::Nowhere,
                    Some(Err(error)) => {
                        self.fail(port, error, with.steps.len());
                        Came::On
                    }
                    Some(Ok(())) if ends == Some(Step::Wait) => {
                        track.next += 1;
                        Came::On
                    }
                    Some(Ok(())) => Came::ToJoin,
                };
            }
        };
        if self.failed.is_some() {
            take_empty(port, step, with);
            track.next += 1;
            return Came::On;
        }
        let combines = matches!(step, Step::Reduce { .. });
        if combines && with.op.is_none() && with.predefined.is_none() {
            return Came::Nowhere;
        }
        if self.tracks.len() > 1 {
            self.refuse_shared(index, step);
        }
        match self.take_step(port, index, step, with) {
            Ok(()) => self.tracks[index].next += 1,
            Err(error) => self.fail(port, error, with.steps.len()),
        }
        Came::On
    }

    /// Stops a plan of which one track uses what another one receives or sends.
    fn refuse_shared(&self, index: usize, step: Step) {
        let (read, written) = match step {
            Step::Send { from, .. } => (Some(from), None),
            Step::Recv { into, .. } => (None, Some(into)),
            Step::Copy { from, into } => (Some(from), Some(into)),
            Step::Reduce { left, right } => (Some(left), Some(right)),
            Step::Wait | Step::Track(_) | Step::Join => (None, None),
        };
        for (other, track) in self.tracks.iter().enumerate() {
            if other != index {
                read.iter().for_each(|span| track.stage.refuse(*span, false));
                written.iter().for_each(|span| track.stage.refuse(*span, true));
            }
        }
    }

    /// Carries out a step that ends no stage.
    fn take_step(
        &mut self,
        port: &impl Port,
        index: usize,
        step: Step,
        with: &With<'_>,
    ) -> Result<(), MpiError> {
        let Self { spaces, tracks, tag, .. } = self;
        let (stage, names) = (&mut tracks[index].stage, with.names);
        match step {
            Step::Send { to, from, phase } => {
                *tag = names.tag + u64::from(phase);
                let known = with.peers.binary_search_by_key(&to, |(rank, _)| *rank);
                let ep = with.peers[known.expect("all receivers were found before")].1?;
                let Own { space, rank } = names.own;
                let envelope = Envelope { space, source: rank, tag: *tag };
                if let Some(id) = stage.send(port, spaces, ep, envelope, from)? {
                    port.watch_send(id);
                }
                Ok(())
            }
            Step::Recv { from, into, phase } => {
                *tag = names.tag + u64::from(phase);
                let (space, source) = (names.own.space, Some(from));
                let spec = MatchSpec { space, source, tag: *tag, tag_mask: u64::MAX };
                Ok(stage.recv(spaces, spec, into, |buffer| port.recv(spec, buffer))?)
            }
            Step::Copy { from, into } => {
                stage.copy(spaces, from, into);
                Ok(())
            }
            Step::Reduce { left, right } => {
                // The memory is in use by who has called.
                without_unwinding(|| match (with.predefined, with.op) {
                    (Some(own), _) => {
                        stage.reduce(spaces, left, right, |operands| own.call(&operands))
                    }
                    (None, Some(op)) => {
                        stage.reduce(spaces, left, right, |operands| op.call(&operands))
                    }
                    (None, None) => unreachable!("it was asked before"),
                });
                Ok(())
            }
            Step::Wait | Step::Track(_) | Step::Join => unreachable!("it is no step of a stage"),
        }
    }
}

/// Carries out a step of a plan that has failed: without bytes.
#[cold]
fn take_empty(port: &impl Port, step: Step, with: &With<'_>) {
    let Names { own: Own { space, rank }, tag } = with.names;
    match step {
        Step::Send { to, phase, .. } => {
            let known = with.peers.binary_search_by_key(&to, |(rank, _)| *rank);
            if let Ok(ep) = with.peers[known.expect("all receivers were found before")].1 {
                let tag = tag + u64::from(phase);
                send_empty(port, ep, Envelope { space, source: rank, tag });
            }
        }
        Step::Recv { from, phase, .. } => {
            let (source, tag) = (Some(from), tag + u64::from(phase));
            recv_empty(port, MatchSpec { space, source, tag, tag_mask: u64::MAX });
        }
        _ => {}
    }
}
