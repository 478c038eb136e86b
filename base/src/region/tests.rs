//! What a region promises: the bytes are shared and reserved, the size is sealed, and every kind
//! of shortage is an error and no signal. Limits are set, and forks tried, in child processes.

use std::os::fd::OwnedFd;

use rustix::mm::{MapFlags, ProtFlags};

use super::*;

fn again(region: &Region) -> OwnedFd {
    region.fd().expect("a memfd region").try_clone_to_owned().unwrap()
}

#[test]
fn two_mappings_show_the_same_bytes() {
    let first = Region::create_memfd("bowline-test", 3 * PAGE).unwrap();
    let second = Region::open(again(&first)).unwrap();
    assert_eq!((first.len(), second.len()), (3 * PAGE, 3 * PAGE));
    assert!(second.view().to_vec().iter().all(|&b| b == 0));
    let at = first.view().slice(2 * PAGE, 5).unwrap();
    at.copy_in(b"bytes");
    assert_eq!(second.view().slice(2 * PAGE, 5).unwrap().to_vec(), b"bytes");
}

#[test]
fn the_whole_length_is_reserved() {
    let region = Region::create_memfd("bowline-test", 1 << 20).unwrap();
    let stat = rustix::fs::fstat(region.fd().unwrap()).unwrap();
    assert_eq!(stat.st_blocks as u64 * 512, 1 << 20);
}

#[test]
fn the_size_cannot_be_changed() {
    let region = Region::create_memfd("bowline-test", PAGE).unwrap();
    let fd = region.fd().unwrap();
    assert!(rustix::fs::ftruncate(fd, 0).is_err());
    assert!(rustix::fs::ftruncate(fd, 2 * PAGE as u64).is_err());
    assert!(rustix::fs::fcntl_add_seals(fd, SealFlags::WRITE).is_err());
}

#[test]
fn descriptors_that_may_change_are_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::SHRINK | SealFlags::GROW] {
        let fd = rustix::fs::memfd_create("bowline-test", flags).unwrap();
        rustix::fs::ftruncate(&fd, PAGE as u64).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        assert!(matches!(Region::open(fd), Err(RegionError::NotSealed)), "{seals:?}");
    }
    let file: OwnedFd = std::fs::File::open("/proc/self/exe").unwrap().into();
    assert!(matches!(Region::open(file), Err(RegionError::NotSealed)));
}

#[test]
fn an_empty_sealed_memfd_is_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("bowline-test", flags).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SEALS).unwrap();
    assert!(matches!(Region::open(fd), Err(RegionError::Length(0))));
}

#[test]
fn impossible_lengths_are_refused() {
    assert!(matches!(Region::create_memfd("bowline-test", 0), Err(RegionError::Length(0))));
    assert!(matches!(Region::create_private(usize::MAX), Err(RegionError::Length(_))));
    // 2^60 bytes are more than any address space holds. Only the mapping is asked for so much:
    // to reserve it would drive the machine out of memory if the check in front were broken.
    assert!(Region::create_private(1 << 60).is_err());
}

#[test]
fn what_the_machine_or_the_group_lacks_is_refused_before_it_is_reserved() {
    let available = Available { machine: Some(PAGE as u64), group: None };
    assert!(Region::create_within(&available, "bowline-test", PAGE).is_ok());
    let refused = Region::create_within(&available, "bowline-test", 2 * PAGE);
    assert!(matches!(refused, Err(RegionError::MachineFull { .. })));
}

/// Runs `check` in a forked child and returns its exit code.
///
/// The child of a threaded program has one thread and whatever locks the others held. The C
/// library puts its allocator right; the test harness it does not, so `check` returns a small
/// number instead of asserting.
fn in_child(check: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `check`, which uses nothing of the test harness, and leaves by
    // `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        let code = check();
        // SAFETY: `_exit` has no preconditions and runs no destructor of the parent's state.
        unsafe { libc::_exit(code) };
    }
    let pid = rustix::process::Pid::from_raw(pid);
    let (_, status) =
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap().unwrap();
    status.exit_status().unwrap_or(-1)
}

#[test]
fn the_file_size_limit_is_an_error_and_no_signal() {
    let code = in_child(|| {
        let limit = rustix::process::Rlimit { current: Some(4 * PAGE as u64), maximum: None };
        if rustix::process::setrlimit(Resource::Fsize, limit).is_err() {
            return 1;
        }
        match Region::create_memfd("bowline-test", 5 * PAGE) {
            Err(RegionError::FileSizeLimit { wanted, limit }) => {
                if wanted == 5 * PAGE as u64 && limit == 4 * PAGE as u64 { 42 } else { 2 }
            }
            _ => 3,
        }
    });
    assert_eq!(code, 42);
}

#[test]
fn the_address_space_limit_is_an_error() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    // The child may map some megabytes more: the allocator of AddressSanitizer ends a process that
    // cannot map memory for the allocator's own use.
    let limit = pages * PAGE as u64 + (16 << 20);
    let code = in_child(|| {
        let limit = rustix::process::Rlimit { current: Some(limit), maximum: None };
        if rustix::process::setrlimit(Resource::As, limit).is_err() {
            return 1;
        }
        match Region::create_private(64 << 20) {
            Err(RegionError::Exhausted { .. }) => 42,
            _ => 2,
        }
    });
    assert_eq!(code, 42);
}

#[test]
fn a_forked_child_neither_has_nor_unmaps_the_memory() {
    let region = Region::create_memfd("bowline-test", PAGE).unwrap();
    let start = region.view().as_ptr();
    let code = in_child(|| {
        // Something of the child's own at the place of the mapping.
        // SAFETY: the place is free in the child, since the region is not inherited; a taken
        // place makes the call fail instead of replacing anything.
        let own = unsafe {
            rustix::mm::mmap_anonymous(
                start.cast(),
                PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE,
            )
        };
        if own.is_err() {
            return 1;
        }
        // SAFETY: a bitwise copy of the handle as fork made it; the original is never dropped in
        // this process, which leaves by `_exit`.
        drop(unsafe { std::ptr::read(&region) });
        // SAFETY: asks for the residency of a page; the kernel checks that it is mapped.
        let mapped = unsafe {
            let mut residency = 0u8;
            libc::mincore(start.cast(), PAGE, &mut residency)
        };
        if mapped == 0 { 42 } else { 2 }
    });
    assert_eq!(code, 42);
    region.view().copy_in(b"still here");
}
