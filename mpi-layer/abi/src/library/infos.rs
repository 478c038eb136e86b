//! Information: pairs of a key and a value, behind handles.
//!
//! It may be used at any time in any thread, so the table is behind a lock. `MPI_INFO_ENV` says how the
//! process was started, and cannot be changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arg::Out;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Info;
use crate::table::Table;

/// Keys and values in the order in which keys came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs(pub(crate) Vec<(Vec<u8>, Vec<u8>)>);

impl Pairs {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.0.iter_mut().find(|(own, _)| own == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.0.push((key.to_vec(), value.to_vec())),
        }
    }

    /// Sets all of these.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(key, value)| self.set(key, value));
    }

    /// Those that ask for algorithms of collectives, whether these exist or not: a collective and a name.
    pub(crate) fn algorithms(&self) -> Vec<(&str, &str)> {
        self.0.iter().filter_map(|(key, value)| algorithm(key, value)).collect()
    }

    /// Those of them that are hints for communicators, of the standard or of this library, with a value that they may
    /// have.
    /// A program gets them back from the object that it gave them to; all others are passed over.
    pub(crate) fn understood(mut self) -> Self {
        self.0.retain(|(key, value)| {
            let asserted = ASSERTIONS.iter().any(|known| known.as_bytes() == key);
            asserted && [b"true".as_slice(), b"false"].contains(&value.as_slice())
                || algorithm(key, value)
                    .is_some_and(|(of, name)| bowline_mpi::is_algorithm(of, name))
        });
        self
    }

    /// Whether the key was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let before = self.0.len();
        self.0.retain(|(own, _)| own != key);
        self.0.len() < before
    }
}

/// What keys begin with that ask for the algorithm of a collective, whose name follows.
const ALGORITHM: &[u8] = b"bowline_";

/// What a key asks for if it asks for an algorithm, whether there is such a one or not: the collective and the name.
fn algorithm<'a>(key: &'a [u8], value: &'a [u8]) -> Option<(&'a str, &'a str)> {
    let collective = std::str::from_utf8(key.strip_prefix(ALGORITHM)?).ok()?;
    let name = std::str::from_utf8(value).unwrap_or("no text");
    bowline_mpi::is_algorithm(collective, "auto").then_some((collective, name))
}

/// What a program may promise of its messages. The library relies on none of it, so that a promise that
/// is not kept does no harm.
const ASSERTIONS: [&str; 4] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
];

static INFOS: Mutex<Table<Pairs>> = Mutex::new(Table::new(Info::KIND));

pub(crate) fn infos() -> MutexGuard<'static, Table<Pairs>> {
    INFOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pairs of a handle. With `MPI_INFO_NULL`, for functions that take it, there are none.
pub(crate) fn pairs_or_none(info: Info) -> Result<Pairs, Fault> {
    if info == MPI_INFO_NULL { Ok(Pairs::default()) } else { pairs(info) }
}

/// The pairs of a handle.
pub(crate) fn pairs(info: Info) -> Result<Pairs, Fault> {
    if info == MPI_INFO_ENV {
        return Ok(environment(&arguments()));
    }
    infos().get(info.0).cloned().ok_or_else(|| not_info(info))
}

/// Makes information for the program.
pub(crate) fn give(pairs: Pairs, info: Out<Info>) -> Result<(), Fault> {
    if info.is_null() {
        return Err(fault(MPI_ERR_ARG, "there is no address for the information"));
    }
    let made = infos().insert(pairs);
    let full = || fault(MPI_ERR_OTHER, "there is too much information");
    info.set(Info(made.ok_or_else(full)?))
}

/// The handle whose number in C is this one.
pub(crate) fn from_int(low: usize) -> Info {
    Info(infos().complete(low))
}

/// Changes what a handle stands for.
pub(crate) fn change<R>(info: Info, act: impl FnOnce(&mut Pairs) -> R) -> Result<R, Fault> {
    if info == MPI_INFO_ENV {
        return Err(fault(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed"));
    }
    infos().get_mut(info.0).map(act).ok_or_else(|| not_info(info))
}

/// Adds a value to information that a function was given.
pub(crate) fn add(info: Info, key: &[u8], value: &[u8]) -> Result<(), Fault> {
    change(info, |pairs| pairs.set(key, value))
}

#[cold]
pub(crate) fn not_info(info: Info) -> Fault {
    let text = match info {
        MPI_INFO_NULL => "the information is MPI_INFO_NULL".into(),
        Info(value) => format!("{value:#x} is no information, or such that was freed"),
    };
    fault(MPI_ERR_INFO, text)
}

/// The words with which this process was started.
fn arguments() -> Vec<Vec<u8>> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = line.strip_suffix(&[0]).unwrap_or(&line).split(|&byte| byte == 0);
    words.map(<[u8]>::to_vec).collect()
}

/// How the process was started, under the keys of the standard.
pub(crate) fn environment(words: &[Vec<u8>]) -> Pairs {
    let mut pairs = Pairs::default();
    let mut set = |key: &str, value: &[u8]| {
        if !value.is_empty() {
            pairs.set(key.as_bytes(), &value[..value.len().min(MPI_MAX_INFO_VAL as usize - 1)]);
        }
    };
    if let Some((command, arguments)) = words.split_first() {
        set("command", command);
        set("argv", &arguments.join(&b' '));
    }
    set("arch", std::env::consts::ARCH.as_bytes());
    set("host", &host_name());
    if let Ok(directory) = std::env::current_dir() {
        set("wdir", directory.as_os_str().as_encoded_bytes());
    }
    // The same at any time: launchers say it in the environment.
    let size = super::running().map(|library| library.world.comm.size().to_string());
    if let Some(size) = size.or_else(|| std::env::var("PMI_SIZE").ok()) {
        set("maxprocs", size.as_bytes());
    }
    pairs
}

/// The name of this machine.
pub(crate) fn host_name() -> Vec<u8> {
    let mut name = [0_u8; MPI_MAX_PROCESSOR_NAME as usize];
    // SAFETY: the length is that of the array, one byte kept for the end.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if failed != 0 {
        return b"localhost".to_vec();
    }
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len() - 1);
    name[..len].to_vec()
}
