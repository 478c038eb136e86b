//! No descriptor left, at each act that takes one: an error that says so or a wait, never a spin without
//! an end, and life as before when there are descriptors again. The same without a thread to be had.
//!
//! A program of one test, since the limits are those of its process.

use std::fs::File;
use std::net::TcpStream;

use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::conformance::harness::Recorder;
use bowline_uct::conformance::{Watchdog, skipped};
use bowline_uct::{AmId, Armed, Iface, OpenError, Wakeup};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ID: AmId = AmId::new(1);

/// Takes every descriptor that is left but `spare`.
fn take_all(spare: usize) -> Vec<File> {
    let mut hogs = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hogs.push(file);
    }
    hogs.truncate(hogs.len() - spare);
    hogs
}

fn open() -> Result<TcpIface, OpenError> {
    let mut options = TcpOptions::with_secret([5; 32]);
    options.interfaces = "lo".into();
    TcpIface::open(options)
}

/// How often an interface may not sleep, of `polls` times that it wants to.
fn busy(iface: &mut TcpIface, seen: &mut Recorder, polls: u32, descriptor: bool) -> u32 {
    let mut busy = 0;
    for _ in 0..polls {
        iface.progress(seen, 16);
        busy += u32::from(iface.arm(descriptor) == Armed::Busy);
        iface.disarm();
    }
    busy
}

/// Runs `body` while this process cannot start a thread; `false` where that cannot be had.
fn without_threads(body: impl FnOnce()) -> bool {
    // The limit does not bind root.
    if rustix::process::getuid().is_root() {
        // SAFETY: changes who this process is, in all its threads, none of which needs to be root.
        if unsafe { libc::setresuid(65534, 65534, 65534) } != 0 {
            skipped(format_args!("no threads: root may not become another user here"));
            return false;
        }
    }
    let before = getrlimit(Resource::Nproc);
    setrlimit(Resource::Nproc, Rlimit { current: Some(1), ..before }).expect("it is lowered");
    let refused = std::thread::Builder::new().spawn(|| ()).is_err();
    if refused {
        body();
    } else {
        skipped(format_args!("no threads: the limit of processes does not bind this one"));
    }
    setrlimit(Resource::Nproc, before).expect("it is as before");
    refused
}

#[test]
fn descriptors_and_threads_run_out_and_come_back() {
    let _watchdog = Watchdog::start("tcp", "descriptors_and_threads_run_out_and_come_back");
    let limit = Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("it is lowered");

    // Opening, whichever of its descriptors is the one that is refused.
    let mut refused = 0;
    let mut spare = 0;
    let opened = loop {
        let hogs = take_all(spare);
        match open() {
            Ok(iface) => break (iface, hogs),
            Err(error) => {
                let said = error.to_string();
                assert!(matches!(error, OpenError::System { .. }), "{said}");
                assert!(said.contains("os error 24"), "{spare} descriptors: {said}");
                refused += 1;
            }
        }
        drop(hogs);
        spare += 1;
    };
    assert!(refused >= 3, "an epoll, a timer and a listener are wanted");
    let (mut a, hogs) = opened;
    drop(hogs);
    let mut b = open().expect("there is space again");
    let (mut seen_a, mut seen_b) = (Recorder::default(), Recorder::default());

    // Sleep on the descriptor, prepared before; clients wait in the kernel meanwhile.
    a.event_fd().expect("there is space");
    let (_, at) = a.listen("127.0.0.1:0".parse().unwrap()).expect("there is space");
    let client = TcpStream::connect(at).expect("the kernel takes it");
    let mut hogs = take_all(0);
    let polls = 2000;
    let before = busy(&mut a, &mut seen_a, polls, true);
    assert!(
        before < polls / 2,
        "{before} times of {polls} it may not sleep, and nothing can be done"
    );

    // Connecting says what is missing. With the one descriptor that it takes it begins, and waits for the
    // other side, which has none to accept it.
    let error = b.connect(&a.address()).expect_err("no descriptor").to_string();
    assert!(error.contains("os error 24"), "{error}");
    hogs.pop();
    let ep = b.connect(&a.address()).expect("it is known where");
    b.am_short(ep, ID, &[1, 0, 0], b"later").expect("it is queued");
    for _ in 0..200 {
        a.progress(&mut seen_a, 16);
        b.progress(&mut seen_b, 16);
    }
    assert!(seen_a.messages.is_empty() && seen_b.failed.is_empty());

    // The thread that lets a futex sleeper hear of sockets wants descriptors of its own.
    assert_eq!(busy(&mut b, &mut seen_b, 10, false), 10, "nobody could wake it");

    drop(hogs);
    while seen_a.messages.is_empty() {
        a.progress(&mut seen_a, 16);
        b.progress(&mut seen_b, 16);
    }
    assert!(seen_b.failed.is_empty(), "it was no failure");
    drop(client);
    while busy(&mut b, &mut seen_b, 10, false) == 10 {
        a.progress(&mut seen_a, 16);
    }

    // The same thread cannot be started. Who sleeps on the descriptor does without.
    let (mut c, mut seen_c) = (open().expect("there is space"), Recorder::default());
    let starved = without_threads(|| {
        assert_eq!(busy(&mut c, &mut seen_c, 10, false), 10, "nobody could wake it");
        c.event_fd().expect("that takes no thread");
        assert!(busy(&mut c, &mut seen_c, 10, true) < 10);
        let ep = c.connect(&b.address()).expect("that takes no thread");
        c.am_short(ep, ID, &[1, 0, 0], b"alone").expect("it is queued");
        while seen_b.messages.is_empty() {
            b.progress(&mut seen_b, 16);
            c.progress(&mut seen_c, 16);
        }
    });
    while starved && busy(&mut c, &mut seen_c, 10, false) == 10 {
        b.progress(&mut seen_b, 16);
    }
}
