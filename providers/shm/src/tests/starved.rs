//! A process that is out of descriptors, threads or address space: every call that takes one says so, nobody
//! is taken for dead, and all goes on when there is space again. In a process of its own, since a limit
//! is everybody's.

use bowline_base::sync::atomic::Ordering;
use bowline_uct::{Armed, MemoryDomain};
use bowline_uct::{Wakeup, conformance::skipped};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::layout::guest;

/// Runs `body` while this process cannot open another descriptor.
fn without_descriptors<T>(body: impl FnOnce() -> T) -> T {
    let null = std::fs::File::open("/dev/null").unwrap();
    let before = getrlimit(Resource::Nofile);
    let highest = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse::<u64>().ok())
        .max();
    let limit = Rlimit { current: highest.map(|fd| fd + 1), ..before };
    setrlimit(Resource::Nofile, limit).unwrap();
    // The numbers that are free below.
    let mut taken = Vec::new();
    while let Ok(one) = null.try_clone() {
        taken.push(one);
    }
    let result = body();
    drop(taken);
    setrlimit(Resource::Nofile, before).unwrap();
    result
}

/// Runs `body` while this process may map one more MB.
fn without_memory<T>(body: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::As);
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let current = Some(pages * rustix::param::page_size() as u64 + (1 << 20));
    setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
    let result = body();
    setrlimit(Resource::As, before).unwrap();
    result
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
        // Otherwise its files in /proc would still be root's.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
    let before = getrlimit(Resource::Nproc);
    setrlimit(Resource::Nproc, Rlimit { current: Some(1), ..before }).unwrap();
    let refused = std::thread::Builder::new().spawn(|| ()).is_err();
    if refused {
        body();
    } else {
        skipped(format_args!("no threads: the limit of processes does not bind this one"));
    }
    setrlimit(Resource::Nproc, before).unwrap();
    refused
}

fn open(memory: &JobMemory, options: &ShmOptions) -> ShmIface {
    ShmIface::open(memory.clone(), 0, options.clone()).unwrap()
}

#[test]
fn shortages_are_errors_and_pass() {
    let _dog = watchdog();
    let memory = job(1, &ShmOptions::default());
    Role::start("tests::starved::role_starved", &memory, &[]).wait();
}

#[test]
#[ignore = "a role"]
fn role_starved() {
    let _ = in_role();
    let options = ShmOptions { guests: 2, ..ShmOptions::default() };
    let (home, away) = (job(2, &options), job(1, &options));
    let (mut host, mut client) = (open(&home, &options), open(&away, &options));
    let mut member = ShmIface::open(home.clone(), 1, options.clone()).unwrap();
    let to_host = member.connect(&host.address()).unwrap();
    let (mut seen, mut mine) = (Seen::default(), Seen::default());
    for _ in 0..4 {
        host.progress(&mut seen, 8);
    }
    let (at_host, at_client) = (host.address(), client.address());

    // No descriptor: connecting, allocating, the event descriptor, asking after a peer.
    without_descriptors(|| {
        let error = client.connect(&at_host).unwrap_err().to_string();
        assert!(error.contains("os error 24") && error.contains("ulimit -n"), "{error}");
        let error = client.mem_alloc(4096).unwrap_err().to_string();
        assert!(error.contains("os error 24"), "{error}");
        let error = host.event_fd().unwrap_err().to_string();
        assert!(error.contains("os error 24"), "{error}");
        for _ in 0..3 {
            assert_eq!(host.arm(true), Armed::Busy, "nothing could wake it");
        }
        assert_eq!(member.check(to_host), Ok(()), "a process that cannot be asked after lives");
        assert!(!home.is_dead(0));
    });
    assert!(host.event_fd().is_ok());
    assert_eq!(host.arm(true), Armed::Ready);
    host.disarm();
    client.mem_alloc(4096).unwrap();
    let ep = client.connect(&at_host).unwrap();

    // A guest that comes while there is no descriptor: its messages arrive, its host does not sleep,
    // and watches it as soon as it can.
    without_descriptors(|| {
        post(&mut client, &mut mine, ep, 1, b"in time");
        until(&mut host, &mut seen, |seen| seen.messages.len() == 1);
        assert_eq!(host.arm(false), Armed::Busy, "nothing would wake it when the guest ends");
        let state = host.area.guest(0).unwrap().state.load(Ordering::SeqCst);
        assert_eq!(state, guest::UNSEEN);
        assert!(seen.failed.is_empty(), "{:?}", seen.failed);
        assert!(host.connect(&at_client).is_err());
    });
    assert_eq!(host.arm(false), Armed::Ready);
    host.disarm();
    let state = host.area.guest(0).unwrap().state.load(Ordering::SeqCst);
    assert_eq!(state, guest::WELCOME);
    let back = host.connect(&at_client).unwrap();
    post(&mut host, &mut seen, back, 2, b"as ever");
    until(&mut client, &mut mine, |mine| mine.messages.len() == 1);

    // No address space: memory of others, and of one's own.
    let far = job(1, &ShmOptions { rings: 64, ..options.clone() });
    let third = open(&far, &ShmOptions { rings: 64, ..options.clone() });
    let address = third.address();
    without_memory(|| {
        let error = client.connect(&address).unwrap_err().to_string();
        assert!(error.contains("os error 12"), "{error}");
        let error = client.mem_alloc(64 << 20).unwrap_err().to_string();
        assert!(error.contains("os error 12"), "{error}");
    });
    client.mem_alloc(64 << 20).unwrap();
    let there = client.connect(&address).unwrap();
    post(&mut client, &mut mine, there, 3, b"as ever");
    assert_eq!(client.nodes.len(), 2);
}

#[test]
fn missing_threads_are_errors_and_come_back() {
    let _dog = watchdog();
    let memory = job(1, &ShmOptions::default());
    Role::start("tests::starved::role_without_threads", &memory, &[]).wait();
}

#[test]
#[ignore = "a role"]
fn role_without_threads() {
    let _ = in_role();
    let options = ShmOptions { guests: 2, ..ShmOptions::default() };
    let (home, away) = (job(2, &options), job(1, &options));
    let (mut host, mut client) = (open(&home, &options), open(&away, &options));
    let (mut seen, mut mine) = (Seen::default(), Seen::default());
    let at_host = host.address();

    // Who connects has the other process watched by a thread.
    let starved = without_threads(|| {
        let error = client.connect(&at_host).unwrap_err().to_string();
        assert!(error.contains("start a thread that watches"), "{error}");
        assert!(error.contains("os error 11"), "{error}");
    });
    if !starved {
        return;
    }
    let ep = client.connect(&at_host).unwrap();

    // Who is connected to has its guest watched as soon as it can, and does not sleep before.
    without_threads(|| {
        post(&mut client, &mut mine, ep, 1, b"in time");
        until(&mut host, &mut seen, |seen| seen.messages.len() == 1);
        assert_eq!(host.arm(false), Armed::Busy, "nothing would wake it when the guest ends");
        let state = host.area.guest(0).unwrap().state.load(Ordering::SeqCst);
        assert_eq!(state, guest::UNSEEN);
        assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    });
    assert_eq!(host.arm(false), Armed::Ready);
    host.disarm();
    let state = host.area.guest(0).unwrap().state.load(Ordering::SeqCst);
    assert_eq!(state, guest::WELCOME);
    post(&mut client, &mut mine, ep, 2, b"as ever");
    until(&mut host, &mut seen, |seen| seen.messages.len() == 2);
}
