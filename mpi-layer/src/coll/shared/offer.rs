//! What rank 0 sends the others about the memory of a communicator: its address, the length of its key,
//! the key. What the others take from it is a peer's word and is checked.

use bowline_base::words::ViewWords;
use bowline_ucp::{Ep, MemoryHandle, RmaError, Worker};

use crate::shared_memory::Home;

/// Bytes of an offer; an empty one is zero.
pub(crate) const BYTES: usize = 256;

const ADDRESS: usize = 0;
const LENGTH: usize = 8;
const KEY: usize = 16;

/// Makes memory of `len` bytes and writes what opens it to `offer`; on failure, which is logged, the offer
/// stays empty and everybody goes on by messages.
pub(super) fn make(worker: &Worker, len: usize, offer: &mut [u8; BYTES]) -> Option<MemoryHandle> {
    let attempt = || {
        let memory = worker.mem_alloc(len)?;
        let key = worker.rkey_pack(memory)?;
        let address = worker.mem_view(memory, |view| view.as_ptr() as u64)?;
        Ok::<_, RmaError>((memory, key, address))
    };
    match attempt() {
        Ok((memory, key, address)) if key.len() <= BYTES - KEY => {
            offer[ADDRESS..LENGTH].copy_from_slice(&address.to_le_bytes());
            offer[LENGTH..KEY].copy_from_slice(&(key.len() as u64).to_le_bytes());
            offer[KEY..KEY + key.len()].copy_from_slice(&key);
            Some(memory)
        }
        Ok((memory, ..)) => {
            let _ = worker.mem_release(memory);
            None
        }
        Err(error) => {
            tracing::debug!(%error, "no shared memory for a communicator; it uses messages");
            None
        }
    }
}

/// The address and the key of an offer.
pub(crate) fn parse(offer: &[u8; BYTES]) -> Option<(u64, &[u8])> {
    let number = |at: usize| {
        let bytes = offer[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let len = usize::try_from(number(LENGTH)).ok()?;
    let key = offer[KEY..].get(..len).filter(|key| !key.is_empty())?;
    Some((number(ADDRESS), key))
}

/// Opens the memory that `offer` describes.
pub(crate) fn open(worker: &Worker, root: Ep, offer: &[u8; BYTES], len: usize) -> Option<Home> {
    let (address, key) = parse(offer)?;
    let key = worker.rkey_unpack(root, key).ok()?;
    // It must be mapped here, since words in it are polled, and lines must be lines here as well.
    let usable = worker.remote_view(key, address, len, |view| ViewWords::new(view).is_some());
    match usable {
        Ok(true) => Some(Home::Peer(key, address)),
        Ok(false) | Err(_) => {
            worker.rkey_release(key);
            None
        }
    }
}
