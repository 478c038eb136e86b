//! Chapter: information, pairs of a key and a value.
//!
//! It may be used at any time in any thread, so the table is behind a lock. `MPI_INFO_ENV` says how the
//! process was started, and cannot be changed.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arg::{In, Out, Text, TextOut};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Info;
use crate::library;
use crate::table::Table;

/// Keys and values in the order in which keys came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs(Vec<(Vec<u8>, Vec<u8>)>);

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
    fn remove(&mut self, key: &[u8]) -> bool {
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

fn infos() -> MutexGuard<'static, Table<Pairs>> {
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
fn change<R>(info: Info, act: impl FnOnce(&mut Pairs) -> R) -> Result<R, Fault> {
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
fn not_info(info: Info) -> Fault {
    let text = match info {
        MPI_INFO_NULL => "the information is MPI_INFO_NULL".into(),
        Info(value) => format!("{value:#x} is no information, or such that was freed"),
    };
    fault(MPI_ERR_INFO, text)
}

/// A key that is one.
fn checked_key(key: Text) -> Result<Vec<u8>, Fault> {
    let key = key.bytes()?;
    if key.is_empty() || key.len() >= MPI_MAX_INFO_KEY as usize {
        let text =
            format!("the key has {} bytes; it may have 1 to {}", key.len(), MPI_MAX_INFO_KEY - 1);
        return Err(fault(MPI_ERR_INFO_KEY, text));
    }
    Ok(key)
}

mpi! {
    any fn MPI_Info_create(info: Out<Info>) {
        give(Pairs::default(), info)
    }

    any fn MPI_Info_create_env(argc: c_int, argv: In<In<c_char>>, info: Out<Info>) {
        let count = usize::try_from(argc)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the number of arguments is {argc}")))?;
        let words = if argv.is_null() { Vec::new() } else { argv.array(count)? };
        let words: Vec<Vec<u8>> = words
            .into_iter()
            .take_while(|word| !word.is_null())
            .map(|word| Text::of(word).bytes())
            .collect::<Result<_, _>>()?;
        give(environment(&words), info)
    }

    any fn MPI_Info_set(info: Info, key: Text, value: Text) {
        pairs(info)?;
        let (key, value) = (checked_key(key)?, value.bytes()?);
        if value.len() >= MPI_MAX_INFO_VAL as usize {
            let text = format!("the value has {} bytes, more than {}", value.len(), MPI_MAX_INFO_VAL - 1);
            return Err(fault(MPI_ERR_INFO_VALUE, text));
        }
        change(info, |pairs| pairs.set(&key, &value))
    }

    any fn MPI_Info_delete(info: Info, key: Text) {
        pairs(info)?;
        let key = checked_key(key)?;
        if change(info, |pairs| pairs.remove(&key))? {
            return Ok(());
        }
        let text = format!("there is no key {:?}", String::from_utf8_lossy(&key));
        Err(fault(MPI_ERR_INFO_NOKEY, text))
    }

    any fn MPI_Info_get(info: Info, key: Text, valuelen: c_int, value: TextOut, flag: Out<c_int>) {
        let (pairs, key) = (pairs(info)?, checked_key(key)?);
        let room = usize::try_from(valuelen)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the room for the value is {valuelen}")))?;
        let found = pairs.get(&key);
        if let Some(found) = found {
            // The byte behind the value is not counted.
            value.set(found, room.saturating_add(1))?;
        }
        flag.set(found.is_some().into())
    }

    any fn MPI_Info_get_string(info: Info, key: Text, buflen: Out<c_int>, value: TextOut,
                               flag: Out<c_int>) {
        let (pairs, key) = (pairs(info)?, checked_key(key)?);
        let given = buflen.get()?;
        let room = usize::try_from(given)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the room for the value is {given}")))?;
        let found = pairs.get(&key);
        if let Some(found) = found {
            if room > 0 {
                value.set(found, room)?;
            }
            // Values are short; see `MPI_Info_set`.
            buflen.set(found.len() as c_int + 1)?;
        }
        flag.set(found.is_some().into())
    }

    any fn MPI_Info_get_valuelen(info: Info, key: Text, valuelen: Out<c_int>, flag: Out<c_int>) {
        let (pairs, key) = (pairs(info)?, checked_key(key)?);
        let found = pairs.get(&key);
        if let Some(found) = found {
            valuelen.set(found.len() as c_int)?;
        }
        flag.set(found.is_some().into())
    }

    any fn MPI_Info_get_nkeys(info: Info, nkeys: Out<c_int>) {
        nkeys.set(pairs(info)?.0.len() as c_int)
    }

    any fn MPI_Info_get_nthkey(info: Info, n: c_int, key: TextOut) {
        let pairs = pairs(info)?;
        let count = pairs.0.len();
        let nth = usize::try_from(n).ok().and_then(|n| pairs.0.get(n));
        let (found, _) =
            nth.ok_or_else(|| fault(MPI_ERR_ARG, format!("there is no key {n} of {count}")))?;
        key.set(found, MPI_MAX_INFO_KEY as usize)?;
        Ok(())
    }

    any fn MPI_Info_dup(info: Info, newinfo: Out<Info>) {
        give(pairs(info)?, newinfo)
    }

    any fn MPI_Info_free(info: Out<Info>) {
        let freed = info.get()?;
        if freed == MPI_INFO_ENV {
            return Err(fault(MPI_ERR_INFO, "MPI_INFO_ENV cannot be freed"));
        }
        infos().remove(freed.0).ok_or_else(|| not_info(freed))?;
        info.set(MPI_INFO_NULL)
    }
}

/// The words with which this process was started.
fn arguments() -> Vec<Vec<u8>> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = line.strip_suffix(&[0]).unwrap_or(&line).split(|&byte| byte == 0);
    words.map(<[u8]>::to_vec).collect()
}

/// How the process was started, under the keys of the standard.
fn environment(words: &[Vec<u8>]) -> Pairs {
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
    set("host", &crate::environment::host_name());
    if let Ok(directory) = std::env::current_dir() {
        set("wdir", directory.as_os_str().as_encoded_bytes());
    }
    // The same at any time: launchers say it in the environment.
    let size = library::running().map(|library| library.world.comm.size().to_string());
    if let Some(size) = size.or_else(|| std::env::var("PMI_SIZE").ok()) {
        set("maxprocs", size.as_bytes());
    }
    pairs
}
