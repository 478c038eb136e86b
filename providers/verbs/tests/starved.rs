//! What a process is refused, at each act of the transport or of libibverbs that takes it: descriptors,
//! threads, locked memory, address space. The error says so, nothing is left behind, and everything works
//! when there is enough again.
//!
//! The limits are those of a process, so the test starts itself again for each of them.

use std::fs::File;
use std::process::Command;

use bowline_uct::conformance::Watchdog;
use bowline_uct::{AmId, EpId, Iface, MemoryDomain, OpenError, PostError};
use bowline_verbs::{VerbsIface, VerbsMode};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{GUEST, Seen, has_device, options};

const ROLE: &str = "BOWLINE_TEST_VERBS_STARVED";
const ID: AmId = AmId::new(2);

/// More descriptors than any act of the test takes.
const ENOUGH: u64 = 128;

fn limit(resource: Resource, current: Option<u64>) {
    let all = getrlimit(resource);
    setrlimit(resource, Rlimit { current, ..all }).expect("a soft limit may be moved");
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a descriptor for the list").count()
}

/// Runs the test `starved::role` in a process of its own.
fn start(role: &str) {
    let _watchdog = Watchdog::start("verbs, starved", "the test");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "starved::role", "--nocapture", "--ignored"])
        .env(ROLE, role)
        .status()
        .unwrap();
    assert!(status.success(), "{role}: {status}");
}

#[test]
fn descriptors_run_out_and_come_back() {
    if has_device("descriptors_run_out_and_come_back") {
        start("descriptors rc");
        start("descriptors ud");
    }
}

#[test]
fn threads_and_memory_run_out_and_come_back() {
    if has_device("threads_and_memory_run_out_and_come_back") {
        // The rights of root are given up, and with them the devices of a machine that is no guest.
        if std::env::var_os(GUEST).is_none() && rustix::process::getuid().is_root() {
            return bowline_uct::conformance::skipped(
                "only a guest's devices may be opened to all",
            );
        }
        start("others rc");
        start("others ud");
    }
}

#[test]
#[ignore = "started by the tests"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let _watchdog = Watchdog::start("verbs, starved", "role");
    let (role, mode) = role.split_once(' ').expect("two words");
    let mode = if mode == "ud" { VerbsMode::Ud } else { VerbsMode::Rc };
    match role {
        "descriptors" => descriptors(mode),
        "others" => others(mode),
        other => panic!("no such role: {other}"),
    }
}

fn open(device: usize, mode: VerbsMode) -> Result<VerbsIface, OpenError> {
    let mut options = options(device);
    options.mode = mode;
    VerbsIface::open(&options)
}

/// Messages both ways between two interfaces.
fn meet(a: &mut VerbsIface, b: &mut VerbsIface) {
    let to_b = a.connect(&b.address()).expect("they reach each other");
    let to_a = b.connect(&a.address()).expect("they reach each other");
    let (mut seen_a, mut seen_b) = (Seen::default(), Seen::default());
    send(a, to_b, &mut seen_a);
    send(b, to_a, &mut seen_b);
    while seen_a.messages.is_empty() || seen_b.messages.is_empty() {
        a.progress(&mut seen_a, 16);
        b.progress(&mut seen_b, 16);
        std::thread::yield_now();
    }
    assert!(seen_a.failed.is_empty() && seen_b.failed.is_empty());
    assert_eq!((&*seen_a.messages[0].2, &*seen_b.messages[0].2), (&b"here"[..], &b"here"[..]));
}

fn send(iface: &mut VerbsIface, ep: EpId, seen: &mut Seen) {
    while let Err(error) = iface.am_short(ep, ID, &[0; 3], b"here") {
        assert_eq!(error, PostError::NoResource);
        iface.progress(seen, 16);
    }
}

/// What opening says while something is short.
fn refused(mode: VerbsMode, why: &str) {
    match open(0, mode) {
        Ok(_) => panic!("opened in spite of {why}"),
        Err(error) => {
            let text = error.to_string();
            assert!(matches!(error, OpenError::System { .. }), "{text}");
            assert!(text.contains(why), "{text}");
        }
    }
}

/// Opens with ever more descriptors, until there are enough.
fn descriptors(mode: VerbsMode) {
    limit(Resource::Nofile, Some(ENOUGH));
    let mut before = None;
    let mut failed = 0;
    let mut starved = (0..).find_map(|spare| {
        let mut hogs = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            hogs.push(file);
        }
        hogs.truncate(hogs.len() - spare);
        match open(0, mode) {
            Ok(iface) => Some(iface),
            Err(error) => {
                let text = error.to_string();
                // The loader of libraries has no number for it.
                let said = text.contains("os error 24") || text.contains("Too many open files");
                assert!(said, "{spare} descriptors: {text}");
                failed += 1;
                drop(hogs);
                // A try leaves nothing behind; the first one has loaded libraries.
                let now = open_descriptors();
                assert!(before.is_none_or(|before| now <= before), "{spare}: {before:?}, {now}");
                before = Some(now);
                None
            }
        }
    });
    assert!(failed >= 3, "a device and its channels take more than {failed} descriptors");
    let mut plenty = open(1, mode).expect("there is space again");
    meet(starved.as_mut().expect("found"), &mut plenty);
}

/// Threads, locked memory and address space, of which root is refused none.
fn others(mode: VerbsMode) {
    if rustix::process::getuid().is_root() {
        let devices = std::fs::read_dir("/dev/infiniband").expect("devices have files");
        for device in devices {
            use std::os::unix::fs::PermissionsExt;
            let path = device.expect("it can be read").path();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).expect("root");
        }
        setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }).expect("root");
        // SAFETY: changes who this process is, in all its threads, none of which needs to be root.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0, "root may become another");
        // Otherwise its files in /proc would still be root's.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
    // What libraries and the first interface load is there before anything is short.
    let mut plenty = open(1, mode).expect("there is space");

    limit(Resource::Nproc, Some(1));
    refused(mode, "os error 11");
    limit(Resource::Nproc, getrlimit(Resource::Nproc).maximum);

    limit(Resource::Memlock, Some(64 << 10));
    refused(mode, "os error 12");
    if mode == VerbsMode::Rc {
        let error = plenty.mem_alloc(1 << 20).unwrap_err().to_string();
        assert!(error.contains("os error 12"), "{error}");
    }
    limit(Resource::Memlock, None);

    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    // Less than the buffers of an interface.
    limit(Resource::As, Some(pages * rustix::param::page_size() as u64 + (1 << 18)));
    refused(mode, "os error 12");
    if mode == VerbsMode::Rc {
        let error = plenty.mem_alloc(64 << 20).unwrap_err().to_string();
        assert!(error.contains("os error 12"), "{error}");
    }
    limit(Resource::As, None);

    if mode == VerbsMode::Rc {
        let memory = plenty.mem_alloc(1 << 20).expect("there is space again");
        plenty.mem_release(memory).expect("it is held");
    }
    meet(&mut open(0, mode).expect("there is space again"), &mut plenty);
}
