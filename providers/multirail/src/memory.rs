//! Memory that peers read by any of the paths: a handle of each transport's under one of ours, a key of
//! each transport's in one of ours. Where it is travels in the key, so that a read outside of it is
//! refused before it is split.

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::{Caps, EpId, LocalSlice, MdAttr, MemError, MemHandle, RkeyId};

use super::split::MAX_PATHS;
use super::wire::PackedKey;
use super::{MultiRail, key_bytes};

/// Local memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// The memory itself, where it is kept here; only the transports touch it until it is released.
    home: Option<RecvBuf>,
    bytes: LocalSlice,
    handles: [Option<MemHandle>; MAX_PATHS],
}

/// A peer's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenKey {
    pub(super) link: u32,
    start: u64,
    len: u64,
    pub(super) keys: [Option<RkeyId>; MAX_PATHS],
}

impl OpenKey {
    /// Whether it opens `len` bytes at `address`.
    pub(super) fn opens(&self, address: u64, len: u64) -> bool {
        let offset = address.checked_sub(self.start);
        offset.and_then(|at| at.checked_add(len)).is_some_and(|end| end <= self.len)
    }
}

impl MultiRail {
    pub(super) fn md(&self) -> MdAttr {
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

    /// Lends `bytes` to reads by every path. One that refuses has no part in reads of them.
    pub(super) fn lend(
        &mut self,
        bytes: LocalSlice,
        home: Option<RecvBuf>,
    ) -> Result<MemHandle, MemError> {
        if !self.attr.caps.contains(Caps::EXPOSE) {
            return Err(MemError::Unsupported("lend memory to reads by all paths"));
        }
        let mut handles = [None; MAX_PATHS];
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
        Ok(MemHandle(self.memory.insert(Memory { home, bytes, handles })))
    }

    /// The same for memory that is kept here.
    pub(super) fn keep(&mut self, mut home: RecvBuf) -> Result<MemHandle, MemError> {
        let len = home.len();
        // SAFETY: `home` is kept beside the handles that the transports get, and given back by
        // `release_memory` after all of them were released; the transports are dropped before it, since
        // `paths` is the first field. Nobody looks at its bytes meanwhile. If no transport takes them,
        // `lend` drops it at once.
        let bytes = unsafe { LocalSlice::of_recv(&mut home, 0, len) }.ok_or(MemError::NoSuch)?;
        self.lend(bytes, Some(home))
    }

    /// The bytes of registered memory. Those that are only lent to reads nobody may write.
    pub(super) fn view_memory(&self, handle: MemHandle) -> Option<View<'_>> {
        let Memory { home, bytes, .. } = self.memory.get(handle.0)?;
        // SAFETY: the bytes are those of `home`, which is writable and is kept here, and used by the
        // transports alone, until it is released, for which all of this is borrowed exclusively.
        home.as_ref().map(|_| unsafe { View::from_raw(bytes.as_ptr(), bytes.len()) })
    }

    pub(super) fn release_memory(
        &mut self,
        handle: MemHandle,
    ) -> Result<Option<RecvBuf>, MemError> {
        let memory = self.memory.remove(handle.0).ok_or(MemError::NoSuch)?;
        let mut refused = None;
        for (path, handle) in self.paths.iter_mut().zip(memory.handles) {
            if let Some(handle) = handle
                && let Err(error) = path.iface.mem_release(handle)
            {
                refused = Some(error);
            }
        }
        let Some(error) = refused else { return Ok(memory.home) };
        // That transport may still touch it.
        std::mem::forget(memory.home);
        Err(error)
    }

    pub(super) fn pack_key(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        let memory = self.memory.get(handle.0).ok_or(MemError::NoSuch)?;
        let (start, len) = (memory.bytes.as_ptr() as u64, memory.bytes.len() as u64);
        let mut packed = PackedKey { start, len, keys: Vec::new() };
        for (path, handle) in self.paths.iter().zip(memory.handles) {
            let key = match handle {
                Some(handle) => path.iface.rkey_pack(handle)?,
                None => Vec::new(),
            };
            packed.keys.push(key);
        }
        packed.pack().ok_or(MemError::Unsupported("write down so long a key"))
    }

    /// Opens the key of every path that is up. A key that one of them does not take is damaged.
    pub(super) fn open_key(&mut self, ep: EpId, bytes: &[u8]) -> Result<RkeyId, MemError> {
        let index = *self.endpoints.get(ep).ok_or(MemError::NoSuch)?;
        if self.endpoints.open(ep).is_err() {
            let how = self.links[index as usize].failed;
            return Err(how.map_or(MemError::NoSuch, MemError::Peer));
        }
        let packed = PackedKey::parse(bytes).ok_or(MemError::BadKey)?;
        let mut keys = [None; MAX_PATHS];
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
        let key = OpenKey { link: index, start: packed.start, len: packed.len, keys };
        match refused {
            None if keys.iter().any(Option::is_some) => Ok(RkeyId(self.keys.insert(key))),
            None => Err(MemError::BadKey),
            Some(error) => {
                self.close_inner_keys(&key);
                Err(error)
            }
        }
    }

    pub(super) fn close_key(&mut self, rkey: RkeyId) {
        if let Some(key) = self.keys.remove(rkey.0) {
            self.close_inner_keys(&key);
        }
    }

    fn close_inner_keys(&mut self, key: &OpenKey) {
        for (path, rkey) in self.paths.iter_mut().zip(key.keys) {
            if let Some(rkey) = rkey {
                path.iface.rkey_release(rkey);
            }
        }
    }
}
