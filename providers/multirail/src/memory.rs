//! Memory that peers read by any of the paths: a handle of each transport's under one of ours, a key of
//! each transport's in one of ours. Where it is travels in the key, so that a read outside of it is
//! refused before it is split.

use bowline_base::buffer::RecvBuf;
use bowline_uct::runtime::{Held, RegisteredMemory};
use bowline_uct::{Caps, EpId, LocalSlice, MdAttr, MemError, MemHandle, RkeyId};

use super::split::MAX_PATHS;
use super::wire::PackedKey;
use super::{MultiRail, key_bytes};

/// The handles of some memory, by path.
pub(super) type Handles = [Option<MemHandle>; MAX_PATHS];

/// The opened keys of a peer's memory, by path.
pub(super) type Keys = [Option<RkeyId>; MAX_PATHS];

impl MultiRail {
    pub(super) fn md_attr(&self) -> MdAttr {
        if !self.attr.caps.contains(Caps::GET_ZCOPY) {
            return MdAttr::default();
        }
        let all = || self.paths.iter().filter(|path| path.reads).map(|path| path.iface.md_attr());
        let cost = |of: fn((f32, f32)) -> f32| all().map(|md| of(md.register_cost_ns)).sum();
        MdAttr {
            can_alloc: false,
            can_register: true,
            rkey_bytes: key_bytes(
                self.paths.iter().map(
                    |path| {
                        if path.reads { path.iface.md_attr().rkey_bytes } else { 0 }
                    },
                ),
            ),
            register_cost_ns: (cost(|cost| cost.0), cost(|cost| cost.1)),
        }
    }

    /// Lends memory to reads by every path. One that refuses has no part in reads of it.
    pub(super) fn lend(&mut self, memory: RegisteredMemory) -> Result<MemHandle, MemError> {
        if !self.attr.caps.contains(Caps::EXPOSE) {
            return Err(MemError::Unsupported("lend memory to reads by all paths"));
        }
        // SAFETY: the memory is kept beside the handles that the transports get, and given up by
        // `mem_release` after all of them were released; the transports are dropped before it, since
        // `paths` is the first field. They only read it; a write of the owner by a view may meet the read of a
        // peer, which gets a mixture then, as of all memory that is registered. If no transport takes it, it is
        // dropped here.
        let bytes = unsafe { LocalSlice::from_raw(memory.start(), memory.len()) };
        let mut handles = Handles::default();
        let mut refused = None;
        for (path, handle) in self.paths.iter_mut().zip(&mut handles).filter(|(path, _)| path.reads)
        {
            match path.iface.mem_expose(bytes) {
                Ok(exposed) => *handle = Some(exposed),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            tracing::debug!(%error, "a path does not take part in reads of some memory");
            if handles.iter().all(Option::is_none) {
                return Err(error);
            }
        }
        Ok(self.memory.insert(memory, handles))
    }

    pub(super) fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let held = self.memory.remove(handle)?;
        let mut refused = None;
        for (path, handle) in self.paths.iter_mut().zip(held.with) {
            if let Some(handle) = handle
                && let Err(error) = path.iface.mem_release(handle)
            {
                refused = Some(error);
            }
        }
        let Some(error) = refused else { return Ok(held.into_buffer()) };
        // That transport may still touch it.
        std::mem::forget(held);
        Err(error)
    }

    pub(super) fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        let Held { with: handles, memory } = self.memory.get(handle).ok_or(MemError::NoSuch)?;
        let (start, len) = (memory.start() as u64, memory.len() as u64);
        let mut packed = PackedKey { start, len, keys: Vec::new() };
        for (path, handle) in self.paths.iter().zip(*handles) {
            let key = match handle {
                Some(handle) => path.iface.rkey_pack(handle)?,
                None => Vec::new(),
            };
            packed.keys.push(key);
        }
        packed.pack().ok_or(MemError::Unsupported("write down so long a key"))
    }

    /// Opens the key of every path that is up. A key that one of them does not take is damaged.
    pub(super) fn rkey_unpack(&mut self, ep: EpId, bytes: &[u8]) -> Result<RkeyId, MemError> {
        let index = *self.endpoints.get(ep).ok_or(MemError::NoSuch)?;
        if self.endpoints.open(ep).is_err() {
            let how = self.links[index as usize].failed;
            return Err(how.map_or(MemError::NoSuch, MemError::Peer));
        }
        let packed = PackedKey::parse(bytes).ok_or(MemError::BadKey)?;
        let mut keys = Keys::default();
        let mut refused = None;
        for (at, path) in self.paths.iter_mut().enumerate() {
            let path_of = self.links[index as usize].paths[at];
            let theirs = packed.keys.get(usize::from(path_of.theirs)).filter(|key| !key.is_empty());
            let (Some(inner), Some(theirs)) = (path_of.endpoint(), theirs) else { continue };
            match path.iface.rkey_unpack(inner, theirs) {
                Ok(rkey) => keys[at] = Some(rkey),
                // Its failure is reported soon, and the others work.
                Err(MemError::Peer(_)) => {}
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            None if keys.iter().any(Option::is_some) => {
                Ok(self.keys.insert(self.links[index as usize].uid, packed.start, packed.len, keys))
            }
            None => Err(MemError::BadKey),
            Some(error) => {
                self.close_inner_keys(keys);
                Err(error)
            }
        }
    }

    pub(super) fn rkey_release(&mut self, rkey: RkeyId) {
        if let Some(keys) = self.keys.remove(rkey) {
            self.close_inner_keys(keys);
        }
    }

    fn close_inner_keys(&mut self, keys: Keys) {
        for (path, rkey) in self.paths.iter_mut().zip(keys) {
            if let Some(rkey) = rkey {
                path.iface.rkey_release(rkey);
            }
        }
    }
}
