//! One-sided operations between ranks of one process: on mapped memory, on registered memory by
//! the kernel or by plain copies, and every refusal.

use crate::common::*;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::job::JobMemory;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::{
    AtomicOp, AtomicWidth, Caps, EpId, Iface, LocalSlice, MemError, MemoryDomain, OneSided,
    PeerFailure, PostError, Posted, RemoteSlice, Token, WHOLE_PROCESS,
};

/// Two interfaces and an endpoint from the first to the second: of thread ranks, or of a memory
/// that other processes could map.
fn pair(private: bool, options: &ShmOptions) -> (ShmIface, ShmIface, EpId) {
    let job = if private {
        private_job(2, options)
    } else {
        JobMemory::create_memfd(&spec(2, options)).unwrap()
    };
    let mut ranks = interfaces(&job, options);
    let b = ranks.pop().unwrap();
    let mut a = ranks.pop().unwrap();
    let ep = a.connect(&b.address()).unwrap();
    (a, b, ep)
}

fn bytes_at(b: &ShmIface, handle: bowline_uct::MemHandle, at: usize, len: usize) -> Vec<u8> {
    b.mem_view(handle).unwrap().slice(at, len).unwrap().to_vec()
}

/// Puts and gets in every flavour, to `base`, where `handle` is `len` bytes long.
fn moves_bytes(a: &mut ShmIface, b: &ShmIface, ep: EpId, handle: bowline_uct::MemHandle) {
    let packed = b.rkey_pack(handle).unwrap();
    assert!(packed.len() <= b.md_attr().rkey_bytes);
    let rkey = a.rkey_unpack(ep, &packed).unwrap();
    let base = b.mem_view(handle).unwrap().as_ptr() as u64;
    let at = |offset: u64| RemoteSlice { address: base + offset, rkey };

    for len in [0, 1, 3, 8, 17, 33, 500] {
        let data = pattern(1, len as u64, len);
        a.put_short(ep, &data, at(16)).unwrap();
        assert_eq!(bytes_at(b, handle, 16, len), data);
    }
    let data = pattern(2, 0, 700);
    let packed = a.put_bcopy(ep, 1000, &mut |space| space.copy_in(&data), at(100));
    assert_eq!(packed, Ok(700));
    assert_eq!(bytes_at(b, handle, 100, 700), data);
    let mut got = Vec::new();
    a.get_bcopy(ep, at(100), 700, &mut |view| got = view.to_vec()).unwrap();
    assert_eq!(got, data);

    let source = SendBuf::owned(pattern(3, 0, 3000));
    let pieces = [
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        unsafe { LocalSlice::of_send(&source, 0, 1) }.unwrap(),
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        unsafe { LocalSlice::of_send(&source, 1, 0) }.unwrap(),
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        unsafe { LocalSlice::of_send(&source, 1, 2000) }.unwrap(),
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        unsafe { LocalSlice::of_send(&source, 2001, 999) }.unwrap(),
    ];
    assert_eq!(a.put_zcopy(ep, &pieces, at(5), Token(1)), Ok(Posted::Done));
    assert_eq!(bytes_at(b, handle, 5, 3000), source.contiguous().expect("in one piece"));
    let mut to = RecvBuf::owned(vec![0; 3000]);
    let pieces = [
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        unsafe { LocalSlice::of_recv(&mut to, 0, 1234) }.unwrap(),
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        unsafe { LocalSlice::of_recv(&mut to, 1234, 1766) }.unwrap(),
    ];
    assert_eq!(a.get_zcopy(ep, &pieces, at(5), Token(2)), Ok(Posted::Done));
    assert_eq!(to.into_owned().unwrap(), source.contiguous().expect("in one piece"));
    assert_eq!(a.flush(ep, Token(3)), Ok(Posted::Done));
    assert_eq!(a.flush_all(Token(4)), Ok(Posted::Done));

    // Outside of what the key opens, by one byte and by overflow.
    let end = b.mem_view(handle).unwrap().len() as u64;
    for (offset, len) in [(end - 7, 8), (end + 1, 1), (u64::MAX - base - 3, 8)] {
        let to = RemoteSlice { address: base.wrapping_add(offset), rkey };
        assert_eq!(a.put_short(ep, &vec![1; len], to), Err(PostError::BadRemote), "{offset}");
    }
    let before = RemoteSlice { address: base - 1, rkey };
    assert_eq!(a.put_short(ep, &[1], before), Err(PostError::BadRemote));
    a.rkey_release(rkey);
    assert_eq!(a.put_short(ep, &[1], at(0)), Err(PostError::BadArgument));
}

fn atomics(a: &mut ShmIface, b: &ShmIface, ep: EpId, handle: bowline_uct::MemHandle) {
    let rkey = a.rkey_unpack(ep, &b.rkey_pack(handle).unwrap()).unwrap();
    let base = b.mem_view(handle).unwrap().as_ptr() as u64;
    let at = RemoteSlice { address: base + 8, rkey };
    a.put_short(ep, &5u64.to_ne_bytes(), at).unwrap();
    let mut fetch = |op, width| a.atomic(ep, op, width, at, Token(1)).unwrap().unwrap();
    use AtomicWidth::{W32, W64};
    assert_eq!(fetch(AtomicOp::Add(u64::MAX), W64), 5);
    assert_eq!(fetch(AtomicOp::Or(0xf0), W64), 4);
    assert_eq!(fetch(AtomicOp::And(0xf4), W64), 0xf4);
    assert_eq!(fetch(AtomicOp::Xor(1), W64), 0xf4);
    assert_eq!(fetch(AtomicOp::Swap(u64::MAX), W64), 0xf5);
    assert_eq!(fetch(AtomicOp::Cswap { compare: 1, new: 2 }, W64), u64::MAX);
    assert_eq!(fetch(AtomicOp::Cswap { compare: u64::MAX, new: 7 }, W64), u64::MAX);
    // A narrow operation leaves its neighbours alone.
    assert_eq!(fetch(AtomicOp::Add(u64::from(u32::MAX)), W32), 7);
    assert_eq!(fetch(AtomicOp::Add(0), W64), 6);
    let odd = RemoteSlice { address: base + 9, rkey };
    let misplaced = a.atomic(ep, AtomicOp::Add(1), W64, odd, Token::NONE);
    assert_eq!(misplaced, Err(PostError::BadArgument));
}

#[test]
fn allocated_memory_is_reached_directly() {
    for private in [true, false] {
        let (mut a, mut b, ep) = pair(private, &ShmOptions::default());
        let handle = b.mem_alloc(10_000).unwrap();
        moves_bytes(&mut a, &b, ep, handle);
        atomics(&mut a, &b, ep, handle);
        let rkey = a.rkey_unpack(ep, &b.rkey_pack(handle).unwrap()).unwrap();
        let base = b.mem_view(handle).unwrap().as_ptr() as u64;
        let pointer = a.rkey_ptr(rkey, base + 50, 100).unwrap();
        pointer.copy_in(&[9; 100]);
        assert_eq!(bytes_at(&b, handle, 50, 100), [9; 100]);
        assert!(a.rkey_ptr(rkey, base, b.mem_view(handle).unwrap().len() + 1).is_none());
        // The key of a buffer that lies in the allocation, without allocating.
        let mut out = [0u8; 128];
        let n = b.rkey_of(base + 100, 9_000, &mut out).unwrap();
        assert_eq!(out[..n], b.rkey_pack(handle).unwrap());
        assert_eq!(b.rkey_of(base + 100, 10_000, &mut out), None);
        assert_eq!(b.rkey_of(base + 100, 10, &mut [0; 3]), None);
        // A key that outlives the allocation reaches memory that nobody uses.
        let packed = b.rkey_pack(handle).unwrap();
        assert!(b.mem_release(handle).unwrap().is_none());
        assert!(b.mem_view(handle).is_none());
        a.put_short(ep, &[1; 8], RemoteSlice { address: base, rkey }).unwrap();
        a.rkey_release(rkey);
        assert_eq!(b.rkey_of(base + 100, 10, &mut out), None);
        drop(packed);
    }
}

#[test]
fn registered_memory_is_reached_until_it_is_released() {
    for private in [true, false] {
        let (mut a, mut b, ep) = pair(private, &ShmOptions::default());
        assert!(a.attr().caps.contains(Caps::RMA_REGISTERED));
        let handle = b.mem_register(RecvBuf::owned(vec![0; 10_000])).unwrap();
        moves_bytes(&mut a, &b, ep, handle);
        if private {
            atomics(&mut a, &b, ep, handle);
        }
        let rkey = a.rkey_unpack(ep, &b.rkey_pack(handle).unwrap()).unwrap();
        let base = b.mem_view(handle).unwrap().as_ptr() as u64;
        let at = RemoteSlice { address: base, rkey };
        let add = a.atomic(ep, AtomicOp::Add(1), AtomicWidth::W64, at, Token::NONE);
        assert_eq!(add.map(drop), if private { Ok(()) } else { Err(PostError::Unsupported) });
        assert!(a.rkey_ptr(rkey, base, 8).is_none());
        let memory = b.mem_release(handle).unwrap().unwrap();
        assert_eq!(a.put_short(ep, &[1; 8], at), Err(PostError::BadRemote));
        // Registered again: another generation, and the old key stays closed.
        let again = b.mem_register(memory).unwrap();
        assert_eq!(a.put_short(ep, &[1; 8], at), Err(PostError::BadRemote));
        let rkey = a.rkey_unpack(ep, &b.rkey_pack(again).unwrap()).unwrap();
        a.put_short(ep, &[1; 8], RemoteSlice { address: base, rkey }).unwrap();
        assert_eq!(bytes_at(&b, again, 0, 8), [1; 8]);
    }
}

#[test]
fn registrations_run_out_with_an_error_that_names_the_setting() {
    let options = with(|options| {
        options.registrations = 4;
    });
    let (_a, mut b, _ep) = pair(true, &options);
    let handles: Vec<_> =
        (0..4).map(|_| b.mem_register(RecvBuf::owned(vec![0; 8])).unwrap()).collect();
    let error = b.mem_register(RecvBuf::owned(vec![0; 8])).unwrap_err();
    assert!(error.to_string().contains("BOWLINE_SHM_REGISTRATIONS"), "{error}");
    b.mem_release(handles[2]).unwrap();
    b.mem_register(RecvBuf::owned(vec![0; 8])).unwrap();
}

#[test]
fn exhaustion_is_an_error_with_a_reason() {
    for private in [true, false] {
        let (_a, mut b, _ep) = pair(private, &ShmOptions::default());
        for len in [0, 1 << 50, usize::MAX] {
            let error = b.mem_alloc(len).unwrap_err().to_string();
            assert!(error.len() > 40, "{len}: {error}");
        }
        b.mem_alloc(4096).unwrap();
    }
}

#[test]
fn the_process_key_opens_any_buffer_and_is_one_per_endpoint() {
    for private in [true, false] {
        let (mut a, mut b, ep) = pair(private, &ShmOptions::default());
        let rkey = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
        assert_eq!(a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap(), rkey);
        assert_eq!(a.has_cma(ep), Some(true));
        assert_eq!(a.attr().caps.contains(Caps::LENT_ONLY), private);
        let far = SendBuf::owned(pattern(5, 5, 3 << 20));
        if private {
            // Of a thread rank it opens what that has lent.
            // SAFETY: `far` stays until `b` is dropped, and nothing writes it.
            let all = unsafe { LocalSlice::of_send(&far, 0, far.len()) };
            b.mem_expose(all.unwrap()).unwrap();
        }
        let far = far.contiguous().expect("in one piece");
        let mut near = RecvBuf::owned(vec![0; far.len()]);
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < far.len() {
            let len = (100_003).min(far.len() - at);
            // SAFETY: the buffer is kept, and left alone, until the operation has ended.
            pieces.push(unsafe { LocalSlice::of_recv(&mut near, at, len) }.unwrap());
            at += len;
        }
        let from = RemoteSlice { address: far.as_ptr() as u64, rkey };
        assert_eq!(a.get_zcopy(ep, &pieces, from, Token(1)), Ok(Posted::Done));
        assert_eq!(near.into_owned().unwrap(), far);
        a.rkey_release(rkey);
        assert_eq!(a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap(), rkey);
        drop(b);
    }
}

/// Threads of one process have no kernel between them: whatever a peer, or bytes in the form of a
/// key of it, names, only what the owner has lent is touched, and only in the way in which it was lent.
#[test]
fn between_threads_no_key_opens_memory_that_is_not_lent() {
    let (mut a, mut b, ep) = pair(true, &ShmOptions::default());
    let process = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    let victim = vec![0x11u8; 4096];
    let registered = b.mem_register(RecvBuf::owned(vec![3; 64])).unwrap();
    // A key of a registration that stands, with the victim's address in place of its own.
    let mut forged = b.rkey_pack(registered).unwrap();
    let (base, check) = (1 + 4 + 8, forged.len() - 4);
    forged[base..base + 8].copy_from_slice(&(victim.as_ptr() as u64).to_le_bytes());
    forged[base + 8..base + 16].copy_from_slice(&4096u64.to_le_bytes());
    let hash = forged[..check].iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    forged[check..].copy_from_slice(&((hash ^ (hash >> 32)) as u32).to_le_bytes());
    let forged = a.rkey_unpack(ep, &forged).unwrap();
    let source = SendBuf::owned(vec![0xff; 64]);
    // SAFETY: `source` stays, and the calls end in themselves.
    let piece = [unsafe { LocalSlice::of_send(&source, 0, 64) }.unwrap()];
    // The null page, the end of the address space, and memory of this process that is there.
    for rkey in [process, forged] {
        for address in [victim.as_ptr() as u64, 8, u64::MAX - 63] {
            let at = RemoteSlice { address, rkey };
            assert_eq!(a.put_short(ep, &[1; 8], at), Err(PostError::BadRemote));
            assert_eq!(a.put_zcopy(ep, &piece, at, Token(1)), Err(PostError::BadRemote));
            assert_eq!(a.get_bcopy(ep, at, 8, &mut |_| ()), Err(PostError::BadRemote));
            let add = a.atomic(ep, AtomicOp::Add(1), AtomicWidth::W64, at, Token::NONE);
            assert_eq!(add, Err(PostError::BadRemote));
        }
    }
    assert_eq!(victim, [0x11; 4096]);
    // What is lent to reads is not written; what is lent to writes is, until it is taken back.
    let shown = SendBuf::owned(vec![7; 64]);
    // SAFETY: `shown` stays until the memory is released.
    let exposed = b.mem_expose(unsafe { LocalSlice::of_send(&shown, 0, 64) }.unwrap()).unwrap();
    let at = RemoteSlice { address: shown.contiguous().unwrap().as_ptr() as u64, rkey: process };
    assert_eq!(a.get_bcopy(ep, at, 64, &mut |view| assert_eq!(view.to_vec(), [7; 64])), Ok(()));
    assert_eq!(a.put_short(ep, &[1; 8], at), Err(PostError::BadRemote));
    let add = a.atomic(ep, AtomicOp::Add(1), AtomicWidth::W64, at, Token::NONE);
    assert_eq!(add, Err(PostError::BadRemote));
    b.mem_release(exposed).unwrap();
    assert_eq!(a.get_bcopy(ep, at, 64, &mut |_| ()), Err(PostError::BadRemote));
    let mut landing = RecvBuf::owned(vec![0; 64]);
    // SAFETY: `landing` stays, and is not read, until the memory is released.
    let lent = b.mem_lend(unsafe { LocalSlice::of_recv(&mut landing, 0, 64) }.unwrap()).unwrap();
    let at = RemoteSlice { address: landing.address(), rkey: process };
    assert_eq!(a.put_zcopy(ep, &piece, at, Token(1)), Ok(Posted::Done));
    b.mem_release(lent).unwrap();
    assert_eq!(a.put_zcopy(ep, &piece, at, Token(1)), Err(PostError::BadRemote));
    assert_eq!(landing.into_owned().unwrap(), [0xff; 64]);
    // Only the peer of the endpoint: this rank's own memory is not the peer's.
    let own = a.mem_register(RecvBuf::owned(vec![0; 8])).unwrap();
    let address = a.mem_view(own).unwrap().as_ptr() as u64;
    let at = RemoteSlice { address, rkey: process };
    assert_eq!(a.put_short(ep, &[1; 8], at), Err(PostError::BadRemote));
}

/// An owner that takes memory back and frees it, while its peer copies from it all the time.
#[test]
fn memory_that_is_taken_back_is_copied_by_nobody() {
    let _dog = Watchdog::new(120);
    let (mut a, mut b, ep) = pair(true, &ShmOptions::default());
    let process = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    let (place, read, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let enough = || [&read, &refused].iter().all(|count| count.load(Ordering::Acquire) >= 300);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !enough() {
                let from = RemoteSlice { address: place.load(Ordering::Acquire), rkey: process };
                let mut to = RecvBuf::owned(vec![0; 1 << 16]);
                // SAFETY: `to` stays, and the call ends in itself.
                let whole = [unsafe { LocalSlice::of_recv(&mut to, 0, 1 << 16) }.unwrap()];
                match a.get_zcopy(ep, &whole, from, Token(1)) {
                    Ok(_) => {
                        let bytes = to.into_owned().unwrap();
                        assert!(bytes.iter().all(|&byte| byte == 5), "freed memory was read");
                        read.fetch_add(1, Ordering::Release);
                    }
                    Err(PostError::BadRemote) => {
                        refused.fetch_add(1, Ordering::Release);
                    }
                    Err(PostError::NoResource) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
        while !enough() && !reader.is_finished() {
            let bytes = SendBuf::owned(vec![5; 1 << 16]);
            // SAFETY: `bytes` stays as it is until the memory is released.
            let all = unsafe { LocalSlice::of_send(&bytes, 0, 1 << 16) };
            let lent = b.mem_expose(all.unwrap()).unwrap();
            place.store(bytes.contiguous().unwrap().as_ptr() as u64, Ordering::Release);
            std::thread::yield_now();
            b.mem_release(lent).unwrap();
            // What its next owner would write.
            let mut bytes = bytes.into_owned().expect("it owns them");
            bytes.fill(6);
        }
    });
}

#[test]
fn a_transfer_that_stops_in_the_middle_is_reported_by_its_completion() {
    let (mut a, _b, ep) = pair(false, &ShmOptions::default());
    let page = rustix::param::page_size();
    // SAFETY: fresh private mappings, unmapped below and at the end.
    let map = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            2 * page,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::PRIVATE,
        )
    }
    .unwrap();
    // SAFETY: the second page, which nothing refers to.
    unsafe { rustix::mm::munmap(map.cast::<u8>().add(page).cast(), page) }.unwrap();
    let rkey = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    let from = RemoteSlice { address: map as u64, rkey };
    let mut to = RecvBuf::owned(vec![0; 2 * page]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let whole = [unsafe { LocalSlice::of_recv(&mut to, 0, 2 * page) }.unwrap()];
    let mut sink = Recorder::default();
    assert_eq!(a.get_zcopy(ep, &whole, from, Token(9)), Ok(Posted::InFlight));
    a.progress(&mut sink, 8);
    assert_eq!(sink.completed, [(Token(9), Err(PeerFailure::Refused))]);
    // Without a token, the flush reports.
    assert_eq!(a.get_zcopy(ep, &whole, from, Token::NONE), Ok(Posted::Done));
    assert_eq!(a.flush(ep, Token(10)), Ok(Posted::InFlight));
    a.progress(&mut sink, 8);
    assert_eq!(sink.completed[1], (Token(10), Err(PeerFailure::Refused)));
    assert_eq!(a.flush(ep, Token(11)), Ok(Posted::Done));
    // Nothing of it moved: an error at once.
    let nowhere = RemoteSlice { address: map as u64 + page as u64, rkey };
    assert_eq!(a.get_zcopy(ep, &whole[..1], nowhere, Token(1)), Err(PostError::BadRemote));
    // SAFETY: the first page, which nothing refers to any more.
    unsafe { rustix::mm::munmap(map, page) }.unwrap();
}

#[test]
fn refusal_by_the_kernel_turns_an_endpoint_to_copying() {
    let options = with(|options| {
        options.refuse_cma_after = Some(2);
    });
    let (mut a, b, ep) = pair(false, &options);
    let rkey = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    let far = 77u64;
    let from = RemoteSlice { address: (&raw const far) as u64, rkey };
    let mut read = || a.get_bcopy(ep, from, 8, &mut |_| ());
    assert_eq!(read(), Ok(()));
    assert_eq!(read(), Ok(()));
    assert_eq!(read(), Err(PostError::Unsupported));
    assert_eq!(read(), Err(PostError::Unsupported));
    assert_eq!(a.has_cma(ep), Some(false));
    assert_eq!(a.counters().cma_refused, 1);
    // Messages go on.
    a.am_short(ep, ID, &[1; 3], &[]).unwrap();
    let mut sink = Recorder::default();
    let mut b = b;
    b.progress(&mut sink, 8);
    assert_eq!(sink.messages.len(), 1);
}

#[test]
fn cross_memory_attach_can_be_switched_off() {
    for private in [true, false] {
        let options = with(|options| {
            options.cma = Some(false);
        });
        let (mut a, mut b, ep) = pair(private, &options);
        assert!(!a.attr().caps.contains(Caps::RMA_REGISTERED));
        let rkey = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
        let far = 77u64;
        let from = RemoteSlice { address: (&raw const far) as u64, rkey };
        assert_eq!(a.get_bcopy(ep, from, 8, &mut |_| ()), Err(PostError::Unsupported));
        // Allocated memory needs no kernel.
        let handle = b.mem_alloc(10_000).unwrap();
        moves_bytes(&mut a, &b, ep, handle);
    }
}

#[test]
fn keys_are_valid_on_their_endpoint_only_and_nonsense_is_refused() {
    let options = ShmOptions::default();
    let job = private_job(3, &options);
    let mut ranks = interfaces(&job, &options);
    let (addresses, handles): (Vec<_>, Vec<_>) =
        ranks.iter_mut().map(|r| (r.address(), r.mem_alloc(4096).unwrap())).unzip();
    let packed = ranks[1].rkey_pack(handles[1]).unwrap();
    let a = &mut ranks[0];
    let to_1 = a.connect(&addresses[1]).unwrap();
    let to_2 = a.connect(&addresses[2]).unwrap();
    let rkey = a.rkey_unpack(to_1, &packed).unwrap();
    let at = RemoteSlice { address: 0, rkey };
    assert_eq!(a.put_short(to_2, &[1], at), Err(PostError::BadArgument));
    for cut in 0..packed.len() {
        assert!(matches!(a.rkey_unpack(to_1, &packed[..cut]), Err(MemError::BadKey)), "{cut}");
    }
    // Another process's key, and one whose allocation does not exist.
    for byte in [1, 5, packed.len() - 17] {
        let mut bad = packed.clone();
        bad[byte] ^= 0x55;
        assert!(matches!(a.rkey_unpack(to_1, &bad), Err(MemError::BadKey)), "byte {byte}");
    }
    assert!(matches!(a.rkey_unpack(EpId(9), &packed), Err(MemError::NoSuch)));
}

#[test]
fn a_notified_put_is_seen_after_its_bytes() {
    let _dog = Watchdog::new(60);
    for rings in [0, 2] {
        let options = with(|options| {
            options.rings = rings;
        });
        let (mut a, mut b, ep) = pair(true, &options);
        let total = 5000u64;
        let handle = b.mem_alloc(total as usize * 8).unwrap();
        let rkey = a.rkey_unpack(ep, &b.rkey_pack(handle).unwrap()).unwrap();
        let base = b.mem_view(handle).unwrap().as_ptr() as u64;
        let sender = std::thread::spawn(move || {
            let mut sink = Recorder::default();
            for n in 0..total {
                let at = RemoteSlice { address: base + n * 8, rkey };
                while let Err(error) = a.put_notify(ep, &(!n).to_ne_bytes(), at, ID, &[n, 0, 0]) {
                    assert_eq!(error, PostError::NoResource);
                    a.progress(&mut sink, 8);
                    std::thread::yield_now();
                }
            }
            // A refused put leaves nothing behind, neither bytes nor a notification.
            let outside = RemoteSlice { address: base + total * 8 + 4096, rkey };
            let refused = a.put_notify(ep, &[1; 8], outside, ID, &[0; 3]);
            assert!(matches!(refused, Err(PostError::BadRemote | PostError::NoResource)));
            a
        });
        let mut sink = Recorder::default();
        let mut next = 0u64;
        while next < total {
            b.progress(&mut sink, 64);
            for message in sink.messages.drain(..) {
                assert_eq!(message.header[0], next);
                assert_eq!(bytes_at(&b, handle, next as usize * 8, 8), (!next).to_ne_bytes());
                next += 1;
            }
            std::thread::yield_now();
        }
        let a = sender.join().unwrap();
        assert_eq!(b.progress(&mut sink, 64), 0);
        assert!(sink.messages.is_empty());
        drop(a);
    }
}

/// A reader that sees the last word of a put sees all of it, whatever its length.
#[test]
fn puts_to_mapped_memory_end_with_their_last_word() {
    let options = ShmOptions::default();
    let (mut a, mut b, ep) = pair(true, &options);
    let window = b.mem_alloc(64 << 10).unwrap();
    let packed = b.rkey_pack(window).unwrap();
    let rkey = a.rkey_unpack(ep, &packed).unwrap();
    assert!(a.puts_end_last(rkey));
    let process = a.rkey_unpack(ep, &WHOLE_PROCESS).unwrap();
    assert!(!a.puts_end_last(process), "what the kernel copies has no order");
    let view = b.mem_view(window).unwrap();
    let base = view.as_ptr() as u64;
    for (offset, len) in [(0, 16), (8, 64), (72, 1000), (0, 4096), (64, 6000), (40, 8192)] {
        let last = view.word(offset + len - 8).unwrap();
        last.store(0, Ordering::SeqCst);
        let rounds = 2000_u64;
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut seen = 0;
                while seen < rounds {
                    // Acquire pairs with the last store of the put.
                    let number = last.load(Ordering::Acquire);
                    if number == seen {
                        std::thread::yield_now();
                        continue;
                    }
                    seen = number;
                    for at in (0..len - 8).step_by(8) {
                        // Relaxed: ordered by the load above. The next put may have begun.
                        let word = view.word(offset + at).unwrap().load(Ordering::Relaxed);
                        assert!(word >= seen, "word {at} of {len} bytes: {word} behind {seen}");
                    }
                }
            });
            for round in 1..=rounds {
                let bytes = round.to_ne_bytes().repeat(len / 8);
                a.put_short(ep, &bytes, RemoteSlice { address: base + offset as u64, rkey })
                    .unwrap();
            }
            reader.join().unwrap();
        });
    }
}
