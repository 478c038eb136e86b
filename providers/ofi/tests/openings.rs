//! Interfaces are opened and closed while another thread of the process maps and unmaps memory: nothing that
//! libfabric does for its cache of registrations may hit it. Only providers with such a cache can fail here, so
//! it is the one that the module `conformance` calls `named`.
//!
//! A crash ends the process, so the openings have one of their own.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_ofi::OfiIface;
use bowline_uct::conformance::{Watchdog, skipped};

use crate::conformance::{must_open, named};
use crate::processes::options;

const ROLE: &str = "BOWLINE_TEST_OFI_OPENINGS";

const OPENINGS: u32 = 30;

/// Of a mapping.
const BYTES: usize = 4 << 20;

/// Has the system find pages and take them back, which is where the thread nearly always is then. It asks by
/// functions of the C library, which are what libfabric would overwrite; `rustix` calls the system itself.
fn map_and_unmap() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a new mapping at a place that the system chooses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    // SAFETY: the mapping is `BYTES` long, and nobody uses it.
    let advised = unsafe { libc::madvise(start, BYTES, libc::MADV_DONTNEED) };
    // SAFETY: as above; it is unmapped once.
    let unmapped = unsafe { libc::munmap(start, BYTES) };
    assert_eq!((advised, unmapped), (0, 0), "{}", std::io::Error::last_os_error());
}

#[test]
#[ignore = "part of the test below"]
fn role() {
    let Ok(provider) = std::env::var(ROLE) else { return };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: it says nothing of other memory.
            while !ended.load(Ordering::Relaxed) {
                map_and_unmap();
            }
        });
        let opened =
            (0..OPENINGS).try_for_each(|_| OfiIface::open(options(&provider, false)).map(drop));
        // Relaxed: as above.
        ended.store(true, Ordering::Relaxed);
        opened.expect("it opened before");
    });
}

#[test]
fn memory_is_unmapped_meanwhile() {
    let _watchdog = Watchdog::start("ofi", "memory_is_unmapped_meanwhile");
    let provider = named();
    if let Err(error) = OfiIface::open(options(&provider, false)) {
        assert!(!must_open(), "{provider} is to be there: {error}");
        return skipped(format_args!("{provider}: {error}"));
    }
    let status = Command::new(std::env::current_exe().expect("it has a name"))
        .args(["--exact", "openings::role", "--nocapture", "--ignored"])
        .env(ROLE, &provider)
        .status()
        .expect("this program starts");
    assert!(status.success(), "{provider}: {status}");
}
