//! Keys of other processes, pid namespaces and earlier owners of a pid: none opens the wrong memory.

use super::*;

use crate::md::Memories;
use bowline_base::sync::atomic::AtomicU64;
use bowline_uct::AddrWriter;

fn me() -> Process {
    Process::current().expect("this process runs")
}

/// The key of memory that this process has allocated, and where that begins.
fn own_key(memories: &mut Memories) -> (Vec<u8>, *const AtomicU64) {
    let handle = memories.alloc(&me(), 4096).expect("a page is there");
    let start = memories.view(handle).expect("it was allocated").as_ptr();
    (memories.pack(handle).expect("it was allocated"), start.cast_const().cast())
}

/// A process in another pid namespace may have the number of this one, and started at the same
/// tick. Its keys do not open the memory of this process.
#[test]
fn a_key_from_another_pid_namespace_does_not_open_own_memory() {
    let mut memories = Memories::new(1, false);
    let (packed, _) = own_key(&mut memories);
    let mut mappings = Mappings::default();
    assert!(unpack(&packed, &me(), &me(), &mut mappings).is_ok(), "its own key is its own");
    let foreign = Process { pid_ns: me().pid_ns + 1, ..me() };
    for mappings in [&mut mappings, &mut Mappings::default()] {
        let opened = unpack(&packed, &me(), &foreign, mappings);
        assert!(matches!(opened, Err(MemError::Unsupported(_))), "{opened:?}");
    }
}

/// A process gets the number of an earlier one, and its first allocation the number of that one's.
#[test]
fn the_mapping_of_an_earlier_process_is_not_used_for_a_later_one() {
    let old = Arc::new(Region::create_private(4096).expect("a page is there"));
    let earlier = Process { pid: 4_000_000, start_time: 17, ..me() };
    let later = Process { start_time: 18, ..earlier };
    let named = |of: &Process, ino| Named {
        pid: of.pid,
        start_time: of.start_time,
        fd: 77,
        dev: 1,
        ino,
        id: 1,
    };
    let key = |of: &Process, ino, len| {
        let Named { pid, start_time, fd, dev, ino, id } = named(of, ino);
        let mut w = AddrWriter::new();
        w.u8(kind::MAPPED).u32(pid).u64(start_time).u32(fd).u64(dev).u64(ino).u64(id);
        w.u64(0).u64(len);
        let mut packed = w.finish();
        packed.extend(check_of(&packed).to_le_bytes());
        packed
    };
    let mut mappings = Mappings::default();
    let (of, packed) = (named(&earlier, 5), key(&earlier, 5, 4096).into());
    let entry = Mapping { of, packed, base: 0, len: 4096, region: Arc::clone(&old), used: 0 };
    mappings.entries.push(entry);
    let mut open = |packed: &[u8], peer: &Process| unpack(packed, &me(), peer, &mut mappings);
    let opened = |access| match access {
        Ok(Access::Mapped { len, region, .. }) => (len, region),
        other => panic!("it is mapped, yet: {other:?}"),
    };
    // By the key that it was opened by, and by another one of the same allocation.
    let (len, again) = opened(open(&key(&earlier, 5, 4096), &earlier));
    assert!(len == 4096 && Arc::ptr_eq(&again, &old));
    let (len, part) = opened(open(&key(&earlier, 5, 64), &earlier));
    assert!(len == 64 && Arc::ptr_eq(&part, &old));
    assert!(open(&key(&earlier, 5, 8192), &earlier).is_err(), "it is not as long");
    assert!(open(&key(&later, 6, 4096), &later).is_err());
    // Neither does another process open it by a key that it was not given.
    assert!(open(&key(&earlier, 5, 4096), &later).is_err());
    // Neither for another file that the same process put in its place.
    assert!(open(&key(&earlier, 6, 4096), &earlier).is_err());
    drop(part);
    // When the process is gone, only what a key still opens stays mapped.
    mappings.forget(&earlier);
    assert_eq!(mappings.entries.len(), 1);
    drop(again);
    drop(old);
    mappings.forget(&earlier);
    assert!(mappings.entries.is_empty());
}

#[test]
fn a_key_of_a_process_that_has_ended_says_so() {
    let mut child = std::process::Command::new("true").spawn().expect("it starts");
    let pid = child.id();
    child.wait().expect("it ends");
    let gone = Process { pid, start_time: 1, ..me() };
    let mut w = AddrWriter::new();
    w.u8(kind::MAPPED).u32(pid).u64(1).u32(5).u64(1).u64(1).u64(1).u64(4096).u64(8);
    let mut packed = w.finish();
    packed.extend(check_of(&packed).to_le_bytes());
    let opened = unpack(&packed, &me(), &gone, &mut Mappings::default());
    assert!(matches!(opened, Err(MemError::Peer(PeerFailure::Died))), "{opened:?}");
}
