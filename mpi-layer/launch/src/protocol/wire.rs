//! What a launcher and its agents say to each other: frames on a stream.
//!
//! ```text
//!   frame    length (u32, little endian) of kind and body, kind (u8), body
//!   body     fields in order; numbers little endian; bytes with their length (u32) in front,
//!            except where they are the last field
//! ```
//!
//! The agent speaks first, with [`FromAgent::Hello`], whose first field is [`GREETING`]: a shell
//! that prints something of its own is distinguished from an agent. The launcher describes the job in many
//! small messages that end with [`ToAgent::Go`]. [`VERSION`] changes with every message that
//! changes; launcher and agents must have the same.
//!
//! Decoding is total: any bytes give a message or an error, and no length that was received is
//! believed before it was compared with the bytes that are there.

use std::fmt;

use rustix::thread::CpuSet;

mod frame;

use frame::{Fields, frame, put_bytes};
pub use frame::{Frame, WireError, next_frame};

/// The first field of the first message.
pub const GREETING: &[u8; 8] = b"BWLAGENT";
/// The version of the messages.
pub const VERSION: u32 = 3;
/// Most bytes of a frame behind its length. The longest is a program's argument or an environment
/// variable, of which Linux takes 128 KiB.
pub const FRAME_MAX: usize = 256 << 10;
/// Bytes of output or input in one message at most.
pub const PIECE: usize = 32 << 10;

/// Bytes of a set of processors as it travels: a bit for each, the lowest first.
pub(crate) const SET_MAX: usize = CpuSet::MAX_CPU / 8;

/// Longest name of a boot, in bytes; Linux uses 36.
pub(crate) const BOOT_MAX: usize = 64;

/// Bytes that no `Debug` shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AgentSecret(pub [u8; 32]);

impl fmt::Debug for AgentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What an agent is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The job.
    pub job_id: u64,
    /// Its secret.
    pub secret: AgentSecret,
    /// World rank of the first rank of this node.
    pub first: u32,
    /// Ranks of this node.
    pub local: u32,
    /// Ranks of the job.
    pub size: u32,
    /// Bytes of each rank's area in the node's memory.
    pub area_bytes: u64,
    /// Silence of the other side, in milliseconds, after which it counts as gone.
    pub silence_ms: u64,
    /// Whether input for rank 0 will come.
    pub input: bool,
    /// Ranks per node, as `PMI_process_mapping` says it.
    pub mapping: String,
}

/// From the launcher to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// What to do; the first message.
    Spec(Spec),
    /// A program with so many ranks, which are counted on from those of the programs before. What
    /// follows is of it; variables in front of the first are for all.
    Part {
        /// Ranks of the whole job that run it.
        ranks: u32,
    },
    /// The directory to start in.
    Directory(Vec<u8>),
    /// The program.
    Program(Vec<u8>),
    /// Its next argument.
    Arg(Vec<u8>),
    /// A variable of its environment.
    Env {
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// Start the ranks.
    Go {
        /// The processor that each rank is bound to, in order; empty where they are not bound.
        cpus: Vec<u32>,
    },
    /// Send them this signal.
    Signal(i32),
    /// Stop them, and expect nothing of the launcher until it speaks again.
    Stop,
    /// Ask them to end, and kill them after so many milliseconds.
    End {
        /// Milliseconds.
        grace_ms: u64,
    },
    /// Kill them.
    Kill,
    /// A rank of another node is dead.
    Dead {
        /// Its world rank.
        rank: u32,
    },
    /// A rank of another node has put this.
    Put {
        /// Key.
        key: Vec<u8>,
        /// Value.
        value: Vec<u8>,
    },
    /// The barrier is over.
    BarrierOut,
    /// Input for rank 0.
    Input(Vec<u8>),
    /// The end of it.
    InputEnd,
    /// So many bytes of output were written; the agent may send as many again.
    Taken(u32),
    /// Nothing, but the launcher lives.
    Alive,
    /// The job is over.
    Bye,
}

/// From an agent to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// The greeting of an agent of this [`VERSION`].
    Hello {
        /// The name of the boot of its machine's kernel.
        boot: Vec<u8>,
        /// The processors that it may use: a bit for each, the lowest first.
        cpus: Vec<u8>,
    },
    /// The greeting of an agent of another version.
    OtherVersion {
        /// Which.
        version: u32,
        /// What else it says, which is not understood.
        rest: Vec<u8>,
    },
    /// The ranks cannot be started; none runs.
    Refused {
        /// Exit code for the job.
        code: i32,
        /// Why.
        why: String,
    },
    /// A rank was started.
    Started {
        /// World rank.
        rank: u32,
        /// Process, as the agent's node numbers it.
        pid: u32,
    },
    /// A rank has ended.
    Ended {
        /// World rank.
        rank: u32,
        /// How: 0 exited, 1 without finalising, 2 by signal, 3 unknown.
        how: u8,
        /// Exit code or signal.
        code: i32,
    },
    /// A rank asks for the end of the job.
    Aborted {
        /// World rank.
        rank: u32,
        /// Exit code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// A rank was killed for what it said to the agent.
    Misbehaved {
        /// World rank.
        rank: u32,
        /// What.
        what: String,
    },
    /// A rank waits in a barrier for one of its node that has left.
    Stuck {
        /// Who has left.
        gone: u32,
        /// Who waits.
        waiting: u32,
    },
    /// A rank has left the job in order.
    Left {
        /// World rank.
        rank: u32,
    },
    /// A rank of this node has put this.
    Put {
        /// Key.
        key: Vec<u8>,
        /// Value.
        value: Vec<u8>,
    },
    /// Every living rank of the node waits in the barrier.
    AllIn,
    /// Output of a rank.
    Output {
        /// World rank.
        rank: u32,
        /// Standard error instead of standard output.
        is_error: bool,
        /// Bytes, not whole lines.
        bytes: Vec<u8>,
    },
    /// Rank 0 has taken so many bytes of input.
    InputTaken(u32),
    /// All ranks have ended and all their output was sent.
    Done,
    /// Nothing, but the agent lives.
    Alive,
}

impl ToAgent {
    /// Appends the message's frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Spec(spec) => frame(0, out, |out| {
                out.extend_from_slice(&spec.job_id.to_le_bytes());
                out.extend_from_slice(&spec.secret.0);
                for word in [spec.first, spec.local, spec.size] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                out.extend_from_slice(&spec.area_bytes.to_le_bytes());
                out.extend_from_slice(&spec.silence_ms.to_le_bytes());
                out.push(u8::from(spec.input));
                out.extend_from_slice(spec.mapping.as_bytes());
            }),
            Self::Directory(path) => frame(1, out, |out| out.extend_from_slice(path)),
            Self::Program(path) => frame(2, out, |out| out.extend_from_slice(path)),
            Self::Arg(arg) => frame(3, out, |out| out.extend_from_slice(arg)),
            Self::Env { name, value } => frame(4, out, |out| {
                put_bytes(out, name);
                out.extend_from_slice(value);
            }),
            Self::Go { cpus } => frame(5, out, |out| {
                cpus.iter().for_each(|cpu| out.extend_from_slice(&cpu.to_le_bytes()));
            }),
            Self::Signal(number) => {
                frame(6, out, |out| out.extend_from_slice(&number.to_le_bytes()));
            }
            Self::Stop => frame(7, out, |_| ()),
            Self::End { grace_ms } => {
                frame(8, out, |out| out.extend_from_slice(&grace_ms.to_le_bytes()));
            }
            Self::Kill => frame(9, out, |_| ()),
            Self::Dead { rank } => frame(10, out, |out| out.extend_from_slice(&rank.to_le_bytes())),
            Self::Put { key, value } => frame(11, out, |out| {
                put_bytes(out, key);
                out.extend_from_slice(value);
            }),
            Self::BarrierOut => frame(12, out, |_| ()),
            Self::Input(bytes) => frame(13, out, |out| out.extend_from_slice(bytes)),
            Self::InputEnd => frame(14, out, |_| ()),
            Self::Taken(bytes) => frame(15, out, |out| out.extend_from_slice(&bytes.to_le_bytes())),
            Self::Alive => frame(16, out, |_| ()),
            Self::Bye => frame(17, out, |_| ()),
            Self::Part { ranks } => {
                frame(18, out, |out| out.extend_from_slice(&ranks.to_le_bytes()));
            }
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When kind and body are none.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::of(body);
        let message = match kind {
            0 => Self::spec(&mut fields),
            1 => Some(Self::Directory(fields.rest())),
            2 => Some(Self::Program(fields.rest())),
            3 => Some(Self::Arg(fields.rest())),
            4 => fields.bytes().map(|name| Self::Env { name, value: fields.rest() }),
            5 => fields.words().map(|cpus| Self::Go { cpus }),
            6 => fields.signed().map(Self::Signal),
            7 => Some(Self::Stop),
            8 => fields.long().map(|grace_ms| Self::End { grace_ms }),
            9 => Some(Self::Kill),
            10 => fields.word().map(|rank| Self::Dead { rank }),
            11 => fields.bytes().map(|key| Self::Put { key, value: fields.rest() }),
            12 => Some(Self::BarrierOut),
            13 => Some(Self::Input(fields.rest())),
            14 => Some(Self::InputEnd),
            15 => fields.word().map(Self::Taken),
            16 => Some(Self::Alive),
            17 => Some(Self::Bye),
            18 => fields.word().map(|ranks| Self::Part { ranks }),
            unknown => return Err(WireError::Kind(unknown)),
        };
        message.filter(|_| fields.is_over()).ok_or(WireError::Body(kind))
    }

    fn spec(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self::Spec(Spec {
            job_id: fields.long()?,
            secret: AgentSecret(fields.array()?),
            first: fields.word()?,
            local: fields.word()?,
            size: fields.word()?,
            area_bytes: fields.long()?,
            silence_ms: fields.long()?,
            input: fields.flag()?,
            mapping: fields.text()?,
        }))
    }
}

impl FromAgent {
    /// Appends the message's frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let words = |out: &mut Vec<u8>, words: &[u32]| {
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        };
        match self {
            Self::OtherVersion { version, rest } => frame(0, out, |out| {
                out.extend_from_slice(GREETING);
                words(out, &[*version]);
                out.extend_from_slice(rest);
            }),
            Self::Hello { boot, cpus } => frame(0, out, |out| {
                out.extend_from_slice(GREETING);
                words(out, &[VERSION]);
                put_bytes(out, boot);
                out.extend_from_slice(cpus);
            }),
            Self::Refused { code, why } => frame(1, out, |out| {
                out.extend_from_slice(&code.to_le_bytes());
                out.extend_from_slice(why.as_bytes());
            }),
            Self::Started { rank, pid } => frame(2, out, |out| words(out, &[*rank, *pid])),
            Self::Ended { rank, how, code } => frame(3, out, |out| {
                words(out, &[*rank]);
                out.push(*how);
                out.extend_from_slice(&code.to_le_bytes());
            }),
            Self::Aborted { rank, code, message } => frame(4, out, |out| {
                words(out, &[*rank]);
                out.extend_from_slice(&code.to_le_bytes());
                out.extend_from_slice(message.as_bytes());
            }),
            Self::Misbehaved { rank, what } => frame(5, out, |out| {
                words(out, &[*rank]);
                out.extend_from_slice(what.as_bytes());
            }),
            Self::Stuck { gone, waiting } => frame(6, out, |out| words(out, &[*gone, *waiting])),
            Self::Left { rank } => frame(7, out, |out| words(out, &[*rank])),
            Self::Put { key, value } => frame(8, out, |out| {
                put_bytes(out, key);
                out.extend_from_slice(value);
            }),
            Self::AllIn => frame(9, out, |_| ()),
            Self::Output { rank, is_error, bytes } => frame(10, out, |out| {
                words(out, &[*rank]);
                out.push(u8::from(*is_error));
                out.extend_from_slice(bytes);
            }),
            Self::InputTaken(bytes) => frame(11, out, |out| words(out, &[*bytes])),
            Self::Done => frame(12, out, |_| ()),
            Self::Alive => frame(13, out, |_| ()),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When kind and body are none.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::of(body);
        let message = match kind {
            0..=9 => Self::report(kind, &mut fields),
            10 => Self::output(&mut fields),
            11 => fields.word().map(Self::InputTaken),
            12 => Some(Self::Done),
            13 => Some(Self::Alive),
            unknown => return Err(WireError::Kind(unknown)),
        };
        message.filter(|_| fields.is_over()).ok_or(WireError::Body(kind))
    }

    fn report(kind: u8, fields: &mut Fields<'_>) -> Option<Self> {
        Some(match kind {
            0 => {
                fields.array().filter(|greeting| greeting == GREETING)?;
                match fields.word()? {
                    VERSION => {
                        let boot = fields.bytes().filter(|boot| boot.len() <= BOOT_MAX)?;
                        let cpus = Some(fields.rest()).filter(|cpus| cpus.len() <= SET_MAX)?;
                        Self::Hello { boot, cpus }
                    }
                    version => Self::OtherVersion { version, rest: fields.rest() },
                }
            }
            1 => Self::Refused { code: fields.signed()?, why: fields.text()? },
            2 => Self::Started { rank: fields.word()?, pid: fields.word()? },
            3 => Self::Ended {
                rank: fields.word()?,
                how: fields.byte().filter(|how| *how <= 3)?,
                code: fields.signed()?,
            },
            4 => Self::Aborted {
                rank: fields.word()?,
                code: fields.signed()?,
                message: fields.text()?,
            },
            5 => Self::Misbehaved { rank: fields.word()?, what: fields.text()? },
            6 => Self::Stuck { gone: fields.word()?, waiting: fields.word()? },
            7 => Self::Left { rank: fields.word()? },
            8 => Self::Put { key: fields.bytes()?, value: fields.rest() },
            9 => Self::AllIn,
            _ => return None,
        })
    }

    fn output(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self::Output { rank: fields.word()?, is_error: fields.flag()?, bytes: fields.rest() })
    }
}

#[cfg(test)]
mod tests;
