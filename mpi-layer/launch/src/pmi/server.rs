//! The manager's side of PMI-1, without input or output: lines in, events out.
//!
//! One server serves the ranks of one node, which it numbers from 0: those of the whole job, or,
//! where a job runs on several nodes, those of one. In the second case what a rank puts is
//! visible on its own node at once and on the others after the next barrier, when the nodes have
//! exchanged it ([`Server::take_fresh`], [`Server::merge`], [`Server::release`]). It does not get
//! time and starts nothing.
//!
//! # Life of a rank's connection
//!
//! ```text
//!   NEW ──init──► OPEN ──finalize──► CLOSED
//!    └──────────────┴──── end of the process: gone (clean, or dead) ────┘
//! ```
//!
//! 1. Before `init` only `init` and `abort` are understood; after `finalize` nothing is.
//! 2. A barrier is complete when every rank that is not dead waits in it. A dead rank does not
//!    hold the others, who learn of it elsewhere. A rank that ended in order while others wait
//!    makes the barrier impossible, which [`Server::stuck`] reports.

use std::collections::HashMap;

use super::mapping::NodeMapping;
use super::wire::{
    Command, KEY_MAX, NAME_MAX, ParseError, SpawnLine, VALUE_MAX, parse, parse_spawn_line,
};

/// Bytes of keys and values that a job may publish: far above what programs exchange at start,
/// low enough that a rank in a loop does not fill the machine.
const STORE_MAX: usize = 256 << 20;

/// What the caller has to do after a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Send this line, newline included, to this rank.
    Reply {
        /// Rank.
        rank: u32,
        /// Bytes.
        line: Vec<u8>,
    },
    /// The rank asks for the end of the job.
    Abort {
        /// Rank.
        rank: u32,
        /// Exit code it asks for.
        code: i32,
        /// Its words; often empty.
        message: String,
    },
    /// The rank does not speak PMI-1: its connection must be closed.
    Violation {
        /// Rank.
        rank: u32,
        /// What it sent.
        what: String,
    },
    /// The rank has said `finalize`. Only from a server of one node among several.
    Left {
        /// Rank.
        rank: u32,
    },
    /// Every living rank of this node waits in a barrier of the whole job, which
    /// [`Server::release`] ends. Comes once per barrier, and only from a server of one node among
    /// several.
    AllIn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Open,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Running,
    Ended,
    Dead,
}

#[derive(Debug)]
struct RankState {
    stage: Stage,
    presence: Presence,
    in_barrier: bool,
    /// The number of its program among those of the job.
    program: u32,
    /// Within a spawn request: programs named in all, and the number of this one.
    spawn: Option<(u32, u32)>,
}

/// The manager's state for one job.
pub struct Server {
    kvsname: String,
    store: HashMap<Vec<u8>, Vec<u8>>,
    stored_bytes: usize,
    ranks: Vec<RankState>,
    /// Ranks of the whole job.
    size: u32,
    /// Present where there are other nodes.
    others: Option<Others>,
}

/// What concerns the other nodes.
#[derive(Default)]
struct Others {
    /// [`ServerEvent::AllIn`] was given and [`Server::release`] has not come.
    asked: bool,
    /// What ranks of this node have put since the last barrier.
    fresh: Vec<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Server {
    /// Without what is stored, since the job's secret is part of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("kvsname", &self.kvsname)
            .field("stored", &self.store.len())
            .field("ranks", &self.ranks)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server for `size` ranks on one node; `kvsname` names their key-value space and has no
    /// blanks.
    pub fn new(size: u32, kvsname: impl Into<String>) -> Self {
        Self::with(size, size, &NodeMapping::one_node(size), kvsname.into(), None)
    }

    /// A server for the `local` ranks of one node of a job of `size` ranks on the nodes of
    /// `mapping`.
    pub fn of_node(
        local: u32,
        size: u32,
        mapping: &NodeMapping,
        kvsname: impl Into<String>,
    ) -> Self {
        Self::with(local, size, mapping, kvsname.into(), Some(Others::default()))
    }

    fn with(
        local: u32,
        size: u32,
        mapping: &NodeMapping,
        kvsname: String,
        others: Option<Others>,
    ) -> Self {
        let rank = || RankState {
            stage: Stage::New,
            presence: Presence::Running,
            in_barrier: false,
            program: 0,
            spawn: None,
        };
        let mut server = Self {
            kvsname,
            store: HashMap::new(),
            stored_bytes: 0,
            ranks: (0..local).map(|_| rank()).collect(),
            size,
            others,
        };
        server.store.insert(b"PMI_process_mapping".to_vec(), mapping.to_string().into_bytes());
        server
    }

    /// Puts a value that ranks read with [`Client::get_bytes`](super::Client::get_bytes), before
    /// any of them has started. Short ones only: it is one value.
    pub fn preset(&mut self, key: &str, bytes: &[u8]) {
        let value = super::client::first_piece(bytes, bytes);
        debug_assert!(key.len() <= KEY_MAX && value.len() <= VALUE_MAX);
        self.store.insert(key.into(), value.into_bytes());
    }

    /// Says which program each rank runs, in the order of ranks. Without this all run one.
    pub fn programs(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for (rank, number) in self.ranks.iter_mut().zip(numbers) {
            rank.program = number;
        }
    }

    /// Takes one line of a rank, without its newline. A rank that does not exist is ignored.
    pub fn line(&mut self, rank: u32, line: &[u8], events: &mut Vec<ServerEvent>) {
        let Some(state) = self.ranks.get_mut(rank as usize) else {
            return;
        };
        if state.spawn.is_some() {
            return self.spawn_line(rank, line, events);
        }
        match parse(line) {
            Ok(command) => self.command(rank, command, events),
            Err(error) => violation(rank, &error, events),
        }
    }

    fn command(&mut self, rank: u32, command: Command<'_>, events: &mut Vec<ServerEvent>) {
        let state = &mut self.ranks[rank as usize];
        let mut reply =
            |line: String| events.push(ServerEvent::Reply { rank, line: line.into_bytes() });
        match (state.stage, command) {
            (_, Command::Abort { code, message }) => {
                let message = String::from_utf8_lossy(message).into_owned();
                events.push(ServerEvent::Abort { rank, code, message });
            }
            (Stage::New, Command::Init { version: 1, .. }) => {
                state.stage = Stage::Open;
                reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n".into());
            }
            (Stage::New, Command::Init { .. }) => {
                reply("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n".into());
            }
            (Stage::New, _) => events.push(ServerEvent::Violation {
                rank,
                what: "a request before the first one, which must be init".into(),
            }),
            (Stage::Closed, _) => {
                events
                    .push(ServerEvent::Violation { rank, what: "a request after finalize".into() });
            }
            (Stage::Open, command) => self.open_command(rank, command, events),
        }
    }

    fn open_command(&mut self, rank: u32, command: Command<'_>, events: &mut Vec<ServerEvent>) {
        let size = self.size;
        let line = match command {
            Command::Init { .. } => {
                return events.push(ServerEvent::Violation { rank, what: "a second init".into() });
            }
            Command::GetMaxes => format!(
                "cmd=maxes rc=0 kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}\n"
            )
            .into_bytes(),
            Command::GetAppnum => {
                let program = self.ranks[rank as usize].program;
                format!("cmd=appnum rc=0 appnum={program}\n").into_bytes()
            }
            Command::GetMyKvsname => {
                format!("cmd=my_kvsname rc=0 kvsname={}\n", self.kvsname).into_bytes()
            }
            Command::GetUniverseSize => {
                format!("cmd=universe_size rc=0 size={size}\n").into_bytes()
            }
            Command::Put { kvsname, key, value } => match self.put(kvsname, key, value) {
                Ok(()) => b"cmd=put_result rc=0 msg=success\n".to_vec(),
                Err(msg) => format!("cmd=put_result rc=-1 msg={msg}\n").into_bytes(),
            },
            Command::Get { kvsname, key } => match self.get(kvsname, key) {
                Ok(value) => [b"cmd=get_result rc=0 msg=success value=", value, b"\n"].concat(),
                Err(msg) => format!("cmd=get_result rc=-1 msg={msg} value=unknown\n").into_bytes(),
            },
            Command::BarrierIn => {
                self.ranks[rank as usize].in_barrier = true;
                return self.release_barrier(events);
            }
            Command::Finalize => {
                self.ranks[rank as usize].stage = Stage::Closed;
                if self.others.is_some() {
                    events.push(ServerEvent::Left { rank });
                }
                b"cmd=finalize_ack rc=0\n".to_vec()
            }
            Command::SpawnBegin => {
                self.ranks[rank as usize].spawn = Some((1, 1));
                return;
            }
            Command::PublishName => refused("publish_result", "port_names_are_not_kept"),
            Command::UnpublishName => refused("unpublish_result", "port_names_are_not_kept"),
            Command::LookupName => refused("lookup_result", "port_names_are_not_kept"),
            // Handled before.
            Command::Abort { .. } => return,
        };
        events.push(ServerEvent::Reply { rank, line });
    }

    fn spawn_line(&mut self, rank: u32, line: &[u8], events: &mut Vec<ServerEvent>) {
        let state = &mut self.ranks[rank as usize];
        let Some((total, so_far)) = &mut state.spawn else {
            return;
        };
        match parse_spawn_line(line) {
            SpawnLine::Total(n) => *total = n,
            SpawnLine::SoFar(n) => *so_far = n,
            SpawnLine::Other => {}
            SpawnLine::End => {
                // A request for several programs comes in several parts and is answered once.
                let last = so_far >= total;
                state.spawn = None;
                if last {
                    let line = refused("spawn_result", "this_launcher_does_not_spawn_processes");
                    events.push(ServerEvent::Reply { rank, line });
                }
            }
        }
    }

    fn put(&mut self, kvsname: &[u8], key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if kvsname != self.kvsname.as_bytes() {
            return Err("kvs_not_found");
        }
        if key.is_empty() || key.len() > KEY_MAX {
            return Err("key_length");
        }
        if value.len() > VALUE_MAX {
            return Err("value_length");
        }
        if self.store.contains_key(key) {
            return Err("duplicate_key");
        }
        if self.stored_bytes + key.len() + value.len() > STORE_MAX {
            return Err("kvs_full");
        }
        self.stored_bytes += key.len() + value.len();
        self.store.insert(key.to_vec(), value.to_vec());
        if let Some(others) = &mut self.others {
            others.fresh.push((key.to_vec(), value.to_vec()));
        }
        Ok(())
    }

    /// What ranks of this node have put since the last call, for the other nodes.
    pub fn take_fresh(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.others.as_mut().map(|others| std::mem::take(&mut others.fresh)).unwrap_or_default()
    }

    /// Takes in what a rank of another node has put. A key that is there already keeps its value,
    /// and what would fill the store beyond its limit is left out, which is reported to the rank that puts it.
    pub fn merge(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let bytes = key.len() + value.len();
        if self.store.contains_key(&key) || self.stored_bytes + bytes > STORE_MAX {
            return;
        }
        self.stored_bytes += bytes;
        self.store.insert(key, value);
    }

    /// Every node waits in the barrier, so it is over.
    pub fn release(&mut self, events: &mut Vec<ServerEvent>) {
        if let Some(others) = &mut self.others {
            others.asked = false;
        }
        self.let_go(events);
    }

    fn get(&self, kvsname: &[u8], key: &[u8]) -> Result<&[u8], &'static str> {
        if kvsname != self.kvsname.as_bytes() {
            return Err("kvs_not_found");
        }
        self.store.get(key).map(Vec::as_slice).ok_or("key_not_found")
    }

    fn release_barrier(&mut self, events: &mut Vec<ServerEvent>) {
        let waits = |r: &RankState| r.in_barrier || r.presence == Presence::Dead;
        if !self.ranks.iter().all(waits) {
            return;
        }
        match &mut self.others {
            None => self.let_go(events),
            // Nobody is left to wait for the answer.
            Some(_) if !self.ranks.iter().any(|r| r.in_barrier) => {}
            Some(others) => {
                if !std::mem::replace(&mut others.asked, true) {
                    events.push(ServerEvent::AllIn);
                }
            }
        }
    }

    fn let_go(&mut self, events: &mut Vec<ServerEvent>) {
        for (rank, state) in self.ranks.iter_mut().enumerate() {
            if std::mem::take(&mut state.in_barrier) && state.presence == Presence::Running {
                let line = b"cmd=barrier_out rc=0\n".to_vec();
                events.push(ServerEvent::Reply { rank: rank as u32, line });
            }
        }
    }

    /// The process of a rank has ended, in order or not.
    pub fn gone(&mut self, rank: u32, dead: bool, events: &mut Vec<ServerEvent>) {
        let Some(state) = self.ranks.get_mut(rank as usize) else {
            return;
        };
        state.presence = if dead { Presence::Dead } else { Presence::Ended };
        state.in_barrier = false;
        if dead && self.ranks.iter().any(|r| r.in_barrier) {
            self.release_barrier(events);
        }
    }

    /// Whether a rank has said `init` and not `finalize`.
    pub fn is_open(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|r| r.stage == Stage::Open)
    }

    /// A rank that waits in a barrier, and one that has ended in order and will never come.
    pub fn stuck(&self) -> Option<(u32, u32)> {
        let waiting = self.ranks.iter().position(|r| r.in_barrier)?;
        let gone = self
            .ranks
            .iter()
            .position(|r| r.presence == Presence::Ended || r.stage == Stage::Closed)?;
        Some((waiting as u32, gone as u32))
    }
}

fn refused(reply: &str, why: &str) -> Vec<u8> {
    format!("cmd={reply} rc=-1 msg={why}\n").into_bytes()
}

fn violation(rank: u32, error: &ParseError, events: &mut Vec<ServerEvent>) {
    events.push(ServerEvent::Violation { rank, what: error.to_string() });
}

#[cfg(test)]
mod tests;
