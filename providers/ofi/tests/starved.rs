//! No descriptor left, at each act of the transport or of libfabric that takes one: an error that says so
//! or a wait, nobody who is taken for dead, and life as before when there are descriptors again.
//!
//! The limit is that of a process, so the test starts itself again for each provider.

use std::fs::File;
use std::process::Command;

use bowline_ofi::OfiIface;
use bowline_uct::conformance::{Watchdog, skipped};
use bowline_uct::{AmId, Armed, Caps, EpId, Iface, OpenError, PeerFailure, PostError, Wakeup};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::processes::{Other, Seen, options, prepare};

const ROLE: &str = "BOWLINE_TEST_OFI_STARVED";

/// More descriptors than any act of the test takes.
const ENOUGH: u64 = 128;

/// Rounds in which nothing can happen, or has long happened.
const ROUNDS: u32 = 5000;

fn limit(current: Option<u64>) {
    let all = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current, ..all }).expect("a soft limit may be moved");
}

/// Takes every descriptor that is left but `spare`.
fn take_all(spare: usize) -> Vec<File> {
    let mut hogs = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hogs.push(file);
    }
    hogs.truncate(hogs.len() - spare);
    hogs
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a descriptor for the list").count()
}

#[test]
fn descriptors_run_out_and_come_back() {
    let _watchdog = Watchdog::start("ofi", "descriptors_run_out_and_come_back");
    for provider in ["tcp", "net", "shm"] {
        if let Err(error) = OfiIface::open(options(provider, false)) {
            skipped(format_args!("{provider}: {error}"));
            continue;
        }
        for role in ["open", "met", "meets"] {
            if provider == "shm" && role != "open" {
                // Its progress follows a null pointer when it cannot open the memory of a peer of
                // another process.
                eprintln!("{provider}, {role}: left out: libfabric crashes");
                continue;
            }
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "starved::role", "--nocapture", "--ignored"])
                .env(ROLE, format!("{role} {provider}"))
                .status()
                .unwrap();
            assert!(status.success(), "{provider}, {role}: {status}");
        }
    }
}

#[test]
#[ignore = "started by the test"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let _watchdog = Watchdog::start("ofi, starved", "role");
    let (role, provider) = role.split_once(' ').expect("two words");
    limit(Some(ENOUGH));
    match role {
        "open" => opening(provider),
        "met" => (0..6).for_each(|spare| met(provider, spare)),
        "meets" => (0..6).for_each(|spare| meets(provider, spare)),
        other => panic!("no such role: {other}"),
    }
}

/// Opening, whichever of its descriptors is the one that is refused. The first time of this process, too:
/// libfabric searches for its providers then.
fn opening(provider: &str) {
    let mut refused = 0;
    let mut before = None;
    let starved = (0..).find_map(|spare| {
        let hogs = take_all(spare);
        match OfiIface::open(options(provider, false)) {
            Ok(iface) => Some(iface),
            Err(error) => {
                let said = error.to_string();
                assert!(matches!(error, OpenError::System { .. }), "{spare}: {said}");
                assert!(said.contains("os error 24"), "{provider}, {spare} descriptors: {said}");
                refused += 1;
                drop(hogs);
                // Nothing is left behind by a try; the first one has loaded libraries.
                let now = open_descriptors();
                assert!(before.is_none_or(|before| now <= before), "{spare}: {before:?}, {now}");
                before = Some(now);
                None
            }
        }
    });
    assert!(refused >= 1, "{provider}");
    let mut plenty = OfiIface::open(options(provider, false)).expect("there is space again");
    // With as few as it needs it can do all that it can with plenty.
    let mut starved = starved.expect("found");
    let sleeps = |iface: &OfiIface| iface.attr().caps.contains(Caps::EVENT_FD);
    assert_eq!(sleeps(&starved), sleeps(&plenty), "{provider}");
    // They meet, the first time without descriptors for that.
    let hogs = take_all(0);
    let address = plenty.address();
    if let Err(error) = starved.connect(&address) {
        assert!(error.to_string().contains("os error 24"), "{provider}: {error}");
    }
    drop(hogs);
    let ep = starved.connect(&address).expect("there is space");
    let (mut seen, mut other) = (Seen::default(), Seen::default());
    send(&mut starved, ep, &mut seen);
    while other.messages.is_empty() {
        starved.progress(&mut seen, 16);
        plenty.progress(&mut other, 16);
    }
}

fn send(iface: &mut OfiIface, ep: EpId, seen: &mut Seen) {
    while let Err(error) = iface.am_short(ep, AmId::new(1), &[0; 3], b"late") {
        assert_eq!(error, PostError::NoResource);
        iface.progress(seen, 16);
    }
}

fn rounds(iface: &mut OfiIface, seen: &mut Seen) {
    for _ in 0..ROUNDS {
        iface.progress(seen, 16);
    }
    assert!(seen.failed.is_empty(), "nobody has failed: {:?}", seen.failed);
}

/// Talks to the other process, which serves, and sees it die.
fn until_death(iface: &mut OfiIface, seen: &mut Seen, mut other: Other, what: &str) {
    while seen.messages.is_empty() {
        iface.progress(seen, 16);
    }
    assert_eq!(seen.messages, [b"hello"], "{what}");
    rounds(iface, seen);
    other.kill();
    while seen.failed.is_empty() {
        iface.progress(seen, 16);
    }
    assert_eq!(seen.failed, [PeerFailure::Died], "{what}: the process is watched");
}

/// A peer comes while there are `spare` descriptors for what is accepted and watched.
fn met(provider: &str, spare: usize) {
    let mut iface = OfiIface::open(options(provider, false)).expect("there is space");
    let mut seen = Seen::default();
    let mut other = prepare(provider, "serve");
    let hogs = take_all(spare);
    other.send(&iface.address());
    let address = other.address();
    rounds(&mut iface, &mut seen);
    // Sleeping or not, it does not fail for want of descriptors.
    if iface.arm(true) == Armed::Ready {
        iface.disarm();
    }
    drop(hogs);
    iface.connect(&address).expect("it lives, and there is space");
    until_death(&mut iface, &mut seen, other, &format!("{provider}, met with {spare}"));
}

/// We meet a peer while there are `spare` descriptors.
fn meets(provider: &str, spare: usize) {
    let mut iface = OfiIface::open(options(provider, false)).expect("there is space");
    let mut seen = Seen::default();
    let mut other = prepare(provider, "serve");
    other.send(&iface.address());
    let address = other.address();
    let hogs = take_all(spare);
    let ep = match iface.connect(&address) {
        Ok(ep) => Some(ep),
        Err(error) => {
            assert!(error.to_string().contains("os error 24"), "{provider}, {spare}: {error}");
            None
        }
    };
    rounds(&mut iface, &mut seen);
    drop(hogs);
    let ep = ep.unwrap_or_else(|| iface.connect(&address).expect("there is space"));
    send(&mut iface, ep, &mut seen);
    until_death(&mut iface, &mut seen, other, &format!("{provider}, meets with {spare}"));
}
