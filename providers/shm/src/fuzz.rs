//! What fuzz targets call: everything here that reads bytes of peers. Each function returns on any
//! input.

use bowline_base::buffer::RecvBuf;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_uct::{
    AtomicOp, AtomicWidth, Discard, Iface, LocalSlice, MemoryDomain, OneSided, RemoteSlice, Token,
    Wakeup,
};

use crate::addr::{Address, Process};
use crate::layout::GuestEntry;
use crate::{ShmIface, ShmOptions};

fn options() -> ShmOptions {
    ShmOptions {
        scmp_slots: 16,
        rings: 1,
        ring_slots: 8,
        ring_data: 4096,
        first_ring_data: 4096,
        max_bcopy: 256,
        guests: 2,
        registrations: 16,
        ..ShmOptions::default()
    }
}

/// Thread ranks, so that nothing but what they have lent can be reached.
fn ranks<const N: usize>() -> [ShmIface; N] {
    let options = options();
    let area_bytes = options.area_bytes();
    let spec = JobSpec { job_id: 1, ranks: N as u32, first_rank: 0, area_bytes };
    let job = JobMemory::create_private(&spec).expect("a few pages are there");
    std::array::from_fn(|local| {
        ShmIface::open(job.clone(), local as u32, options.clone()).expect("it is nobody's yet")
    })
}

/// An address, as it comes from the layer above: as it is, and with what must be true of it to be
/// read any further, since no seed can know this host.
pub fn address(bytes: &[u8]) {
    let Ok(address) = Address::unpack(bytes) else { return };
    assert!(bytes.starts_with(&address.pack()), "what was read is written as it was");
    let [mut iface, other] = ranks();
    let Ok(me) = Process::current() else { return };
    // Own pid: a number of anybody else could be that of a process which is there.
    let local = Address { process: me, ..address };
    let member = Address { node: iface.me.node, ..local };
    let named = Address { instance: other.me.instance, ..member };
    for address in [address, local, member, named] {
        let foreign = address.process.pid != me.pid;
        let packed = address.pack();
        let _ = iface.source_of(&packed);
        if !foreign {
            let _ = iface.reachable(&packed);
            if let Ok(ep) = iface.connect(&packed) {
                iface.disconnect(ep);
            }
        }
        iface.progress(&mut Discard, 8);
    }
}

/// A packed key: what it opens is read and written only where the owner has lent it. The first eight
/// bytes are where the operations go to.
pub fn rkey(bytes: &[u8]) {
    let Some((at, packed)) = bytes.split_first_chunk::<8>() else { return };
    let [mut reader, mut owner] = ranks();
    let ep = reader.connect(&owner.address()).expect("a member of the same memory");
    let registered = owner.mem_register(RecvBuf::owned(vec![3; 64])).expect("a word is free");
    let allocated = owner.mem_alloc(4096).expect("a page is there");
    let places = [registered, allocated]
        .map(|memory| owner.mem_view(memory).expect("it is there").as_ptr().addr() as u64);
    let Ok(rkey) = reader.rkey_unpack(ep, packed) else { return };
    let at = u64::from_le_bytes(*at);
    // Where it says, and around what is there.
    for address in [at, places[0].wrapping_add(at % 128), places[1].wrapping_add(at % 8192)] {
        let to = RemoteSlice { address, rkey };
        let _ = reader.get_bcopy(ep, to, 8, &mut |_| ());
        let _ = reader.put_short(ep, &[1; 8], to);
        let _ = reader.atomic(ep, AtomicOp::Add(1), AtomicWidth::W64, to, Token(1));
        let mut into = RecvBuf::owned(vec![0; 100]);
        // SAFETY: `into` stays, and the call ends in itself.
        if let Some(whole) = unsafe { LocalSlice::of_recv(&mut into, 0, 100) } {
            let _ = reader.get_zcopy(ep, &[whole], to, Token(1));
        }
        let _ = reader.rkey_ptr(rkey, address, 16);
    }
    reader.rkey_release(rkey);
    reader.progress(&mut Discard, 8);
}

/// The words of an entry of the guest table, as somebody else writes them, and then as they are while
/// the owner frees the entry.
pub fn guest_entry(bytes: &[u8]) {
    let [mut iface] = ranks();
    let pid = std::process::id();
    for own in [false, true] {
        let Some(entry) = iface.area.guest(0) else { return };
        let start = std::ptr::from_ref(entry).cast::<AtomicU32>();
        let words = size_of::<GuestEntry>() / size_of::<AtomicU32>();
        for (word, chunk) in bytes.chunks_exact(4).take(words).enumerate() {
            let value = u32::from_le_bytes(chunk.try_into().expect("chunks of four"));
            // SAFETY: an entry is atomics and padding of so many words, aligned to a line, in memory
            // that the interface keeps mapped.
            unsafe { (*start.add(word)).store(value, Ordering::Relaxed) };
        }
        // Its own process: any other number could be that of one which is there.
        if own || entry.pid.load(Ordering::Relaxed) != pid {
            entry.pid.store(if own { pid } else { 0 }, Ordering::Relaxed);
        }
        iface.area.bump_attention();
        for _ in 0..8 {
            iface.progress(&mut Discard, 8);
        }
        let _ = iface.arm(false);
        iface.disarm();
    }
}
