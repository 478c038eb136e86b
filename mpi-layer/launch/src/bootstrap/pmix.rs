//! The key-value store of a job whose manager speaks PMIx (Slurm's `srun --mpi=pmix`, PRRTE's
//! `prterun`).
//!
//! PMIx asks for the rank that has put a value, which readers here do not name. So everything that
//! a rank has put since the last barrier travels as one value, `bowline.kvs.N` with the number of
//! the barrier, and a reader goes through the ranks: first the one whose number the key ends with,
//! as most keys do, then all in order. What was fetched of a rank is kept.

mod library;

use std::collections::HashMap;

use super::Kvs;
use crate::pmi::PmiError;
use library::Library;

/// A connection to the local PMIx server.
#[derive(Debug)]
pub(super) struct Pmix {
    library: Library,
    size: u32,
    /// Put since the last barrier.
    fresh: Vec<(String, Vec<u8>)>,
    /// Put by this rank.
    own: HashMap<String, Vec<u8>>,
    /// Barriers so far.
    barriers: u32,
    peers: HashMap<u32, Peer>,
}

/// What a rank has put, as far as it was fetched.
#[derive(Debug, Default)]
struct Peer {
    /// Barriers whose value was fetched.
    barriers: u32,
    values: HashMap<String, Vec<u8>>,
}

impl Pmix {
    /// Greets the server.
    pub(super) fn connect() -> Result<Self, PmiError> {
        let library = Library::connect().map_err(refused("init", ""))?;
        let size = library.job_number("pmix.job.size").map_err(refused("get", "the job's size"))?;
        Ok(Self {
            library,
            size,
            fresh: Vec::new(),
            own: HashMap::new(),
            barriers: 0,
            peers: HashMap::new(),
        })
    }

    pub(super) fn rank(&self) -> u32 {
        self.library.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The ranks on this node, if the server says who they are.
    pub(super) fn neighbours(&self) -> Option<Vec<u32>> {
        let text = self.library.job_text("pmix.lpeers").ok()?;
        let mut ranks: Vec<u32> =
            text.split(',').map(|rank| rank.trim().parse().ok()).collect::<Option<_>>()?;
        ranks.sort_unstable();
        ranks.dedup();
        let all_exist = ranks.iter().all(|rank| *rank < self.size);
        (all_exist && ranks.contains(&self.rank())).then_some(ranks)
    }

    /// The value of a key that `rank` has put.
    fn of_rank(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        let peer = self.peers.entry(rank).or_default();
        while peer.barriers < self.barriers {
            let name = value_key(peer.barriers);
            let bytes = self.library.get_bytes(rank, &name).map_err(refused("get", &name))?;
            let pairs = unpack(&bytes).ok_or_else(|| PmiError::Unexpected {
                asked: "get",
                got: format!("a damaged value of rank {rank}"),
            })?;
            for (key, value) in pairs {
                peer.values.entry(key).or_insert(value);
            }
            peer.barriers += 1;
        }
        Ok(peer.values.get(key).cloned())
    }
}

impl Kvs for Pmix {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        if self.own.contains_key(key) {
            return Err(refused("put", key)("duplicate_key".into()));
        }
        self.own.insert(key.into(), value.into());
        self.fresh.push((key.into(), value.into()));
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Vec<u8>, PmiError> {
        if let Some(value) = self.own.get(key) {
            return Ok(value.clone());
        }
        let hint = hint(key).filter(|rank| *rank < self.size);
        let own = self.rank();
        for rank in hint.into_iter().chain(0..self.size).filter(|rank| *rank != own) {
            if let Some(value) = self.of_rank(rank, key)? {
                return Ok(value);
            }
        }
        Err(refused("get", key)("key_not_found".into()))
    }

    fn barrier(&mut self) -> Result<(), PmiError> {
        let bytes = pack(&self.fresh);
        let name = value_key(self.barriers);
        self.library.put(&name, &bytes).map_err(refused("put", &name))?;
        self.library.exchange().map_err(refused("fence", ""))?;
        self.fresh.clear();
        self.barriers += 1;
        Ok(())
    }

    fn abort(&mut self, code: i32, message: &str) -> Result<(), PmiError> {
        let message = message.replace('\0', " ");
        self.library.abort(code, &message).map_err(refused("abort", ""))
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        self.library.finalize().map_err(refused("finalize", ""))
    }
}

fn refused(asked: &'static str, what: &str) -> impl FnOnce(String) -> PmiError {
    let what = what.to_owned();
    move |why| PmiError::Refused { asked, what, why }
}

fn value_key(barrier: u32) -> String {
    format!("bowline.kvs.{barrier}")
}

/// The number that a key ends with.
fn hint(key: &str) -> Option<u32> {
    key.rsplit('-').next()?.parse().ok()
}

/// Keys and values in a row, each with its length (u32, little endian) in front; one zero byte in
/// front of all, since some servers do not take an empty value.
fn pack(pairs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0];
    for (key, value) in pairs {
        for bytes in [key.as_bytes(), value] {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
    out
}

fn unpack(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (length, after) = rest.split_first_chunk()?;
        let (field, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *rest = after;
        Some(field)
    }
    let mut rest = bytes.strip_prefix(&[0])?;
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let key = String::from_utf8(field(&mut rest)?.to_vec()).ok()?;
        pairs.push((key, field(&mut rest)?.to_vec()));
    }
    Some(pairs)
}

#[cfg(any(test, fuzzing))]
pub(super) fn take_any(bytes: &[u8]) {
    if let Some(pairs) = unpack(bytes) {
        assert_eq!(pack(&pairs), bytes, "what is read is all there is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_and_damage_is_refused() {
        let pairs = vec![("a-1".to_owned(), vec![0, 255]), ("b".to_owned(), Vec::new())];
        let bytes = pack(&pairs);
        assert_eq!(unpack(&bytes), Some(pairs));
        assert_eq!(unpack(&pack(&[])), Some(Vec::new()));
        for cut in [0, 2, 5, bytes.len() - 1] {
            assert_eq!(unpack(&bytes[..cut]), None, "cut at {cut}");
        }
        assert_eq!(unpack(&[0, 255, 255, 255, 255, 1]), None);
        assert_eq!(unpack(&[0, 1, 0, 0, 0, 0xff, 0, 0, 0, 0]), None);
    }

    #[test]
    fn keys_hint_at_their_rank() {
        assert_eq!(hint("bowline-worker-17"), Some(17));
        assert_eq!(hint("bowline-secret"), None);
    }
}
