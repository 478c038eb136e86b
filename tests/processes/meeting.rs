//! Processes that were not started together meet by socket address: requests, answers, and what
//! becomes of their connections; and a server that sleeps in an event loop of its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc;
use std::time::Duration;

use bowline::stack::{self, RankPlace};
use bowline::ucp::{
    Arm, CloseMode, ConnectionRequest, DialError, Envelope, Ep, EpState, MatchSpec, PeerFailure,
    SendMode, Sent, Worker,
};
use bowline::wait::SystemWaiter;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use rustix::event::{Timespec, epoll};

use crate::Case;
use crate::alone::{LOCALHOST, Outcome, alone};
use crate::common::within_two_minutes;

const ROLE: &str = "MEETING_TEST_ROLE";

fn send(worker: &Worker, ep: Ep, tag: u64, bytes: &[u8]) -> Outcome {
    let envelope = Envelope { space: 0, source: 0, tag };
    match worker.send(ep, envelope, SendBuf::owned(bytes.to_vec()), SendMode::Standard)? {
        Sent::Done => Ok(()),
        Sent::Pending(id) => Ok(worker.wait(id).outcome?),
    }
}

fn recv(worker: &Worker, tag: u64) -> Outcome<Vec<u8>> {
    let spec = MatchSpec { space: 0, source: None, tag, tag_mask: u64::MAX };
    let id = worker.recv(spec, RecvBuf::owned(vec![0; 1 << 20]))?;
    worker.wait_until(|| worker.is_complete(id));
    let (status, bytes) = worker.take_with_buffer(id).ok_or("taken by nobody else")?;
    status.outcome?;
    let mut bytes = bytes.ok_or("it was owned")?;
    bytes.truncate(status.length as usize);
    Ok(bytes)
}

fn dial(worker: &Worker, to: SocketAddr, private: &[u8]) -> Result<(Ep, Vec<u8>), DialError> {
    let id = worker.connect_addr(to, private)?;
    let mut outcome = None;
    worker.wait_until(|| {
        outcome = worker.dial_outcome(id);
        outcome.is_some()
    });
    outcome.expect("it was waited for")
}

fn request(worker: &Worker) -> ConnectionRequest {
    let mut request = None;
    worker.wait_until(|| {
        request = worker.next_request();
        request.is_some()
    });
    request.expect("it was waited for")
}

fn close(worker: &Worker, ep: Ep, mode: CloseMode) -> Outcome {
    match worker.close(ep, mode)? {
        Sent::Done => Ok(()),
        Sent::Pending(id) => Ok(worker.wait(id).outcome?),
    }
}

/// Starts this program in a role.
fn start(role: &str, to: SocketAddr, transports: &str) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(ROLE, format!("{role} {to} {transports}"));
    Ok(command.spawn()?)
}

fn ended(mut child: Child) -> Outcome {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the client ended with {status}").into()) }
}

/// What a client does.
fn client(role: &str, to: SocketAddr, transports: &str) -> Outcome {
    let worker = alone(u64::from(std::process::id()), transports)?;
    let (ep, private) = dial(&worker, to, b"from the client")?;
    match role {
        "talk" => {
            assert_eq!(private, b"from the server");
            send(&worker, ep, 1, b"hello")?;
            assert_eq!(recv(&worker, 2)?, vec![7; 300_000]);
            close(&worker, ep, CloseMode::Flush)?;
            // The same two meet again.
            let (again, _) = dial(&worker, to, b"again")?;
            assert_ne!(ep, again);
            send(&worker, again, 3, b"once more")?;
            recv(&worker, 4)?;
        }
        "drip" => {
            for count in 0..20_u8 {
                std::thread::sleep(Duration::from_millis(10));
                send(&worker, ep, 1, &[count])?;
            }
            recv(&worker, 2)?;
        }
        "die" => {
            send(&worker, ep, 1, b"alive")?;
            recv(&worker, 9)?;
            send(&worker, ep, 10, b"and well")?;
            // Killed here.
            std::thread::sleep(Duration::from_secs(100));
        }
        other => return Err(format!("no such role: {other}").into()),
    }
    Ok(())
}

/// A client in another process asks, is accepted, talks over the best lane, closes, and comes again.
fn they_meet_and_talk(transports: &str, expected: &str) -> Outcome {
    let server = alone(1, transports)?;
    let (listener, at) = server.listen(LOCALHOST)?;
    let child = start("talk", at, transports)?;
    let asked = request(&server);
    assert_eq!((asked.listener, &asked.private[..]), (listener, &b"from the client"[..]));
    assert!(asked.from.ip().is_loopback() && asked.from.port() != at.port());
    let ep = server.accept(asked.id, b"from the server")?;
    let (report, reported) = mpsc::channel();
    server.on_error(
        ep,
        Box::new(move |_, _, how| {
            let _ = report.send(how);
        }),
    )?;
    assert_eq!(recv(&server, 1)?, b"hello");
    let info = server.ep_info(ep).ok_or("it is there")?;
    assert_eq!((info.state, info.transport), (EpState::Open, Some(expected)));
    send(&server, ep, 2, &[7; 300_000])?;
    // It closes in order.
    let mut how = None;
    server.wait_until(|| {
        how = how.or_else(|| reported.try_recv().ok());
        how.is_some()
    });
    assert_eq!(how, Some(PeerFailure::Closed));
    let asked = request(&server);
    assert_eq!(asked.private, b"again");
    let again = server.accept(asked.id, b"")?;
    assert_ne!(ep, again);
    assert_eq!(recv(&server, 3)?, b"once more");
    send(&server, again, 4, b"")?;
    close(&server, again, CloseMode::Flush).or_else(|error| {
        // It may have ended before it heard of the close.
        if error.to_string().contains("closed") { Ok(()) } else { Err(error) }
    })?;
    ended(child)
}

/// The error of a client that is not wanted carries what the server says; nobody listens, and too much
/// private data, are errors too.
fn a_rejection_carries_a_reason() -> Outcome {
    let (server, client) = (alone(1, "self,tcp")?, alone(2, "self,tcp")?);
    let (listener, at) = server.listen(LOCALHOST)?;
    let dialled = client.connect_addr(at, b"please")?;
    let mut asked = None;
    while asked.is_none() {
        server.progress();
        client.progress();
        asked = server.next_request();
    }
    let asked = asked.ok_or("it was waited for")?;
    server.reject(asked.id, b"no space")?;
    assert!(matches!(server.accept(asked.id, b""), Err(DialError::NoSuch)));
    let mut outcome = None;
    while outcome.is_none() {
        server.progress();
        client.progress();
        outcome = client.dial_outcome(dialled);
    }
    match outcome {
        Some(Err(DialError::Rejected { private })) => assert_eq!(private, b"no space"),
        other => panic!("a rejection was due, yet: {other:?}"),
    }
    assert!(matches!(client.dial_outcome(dialled), Some(Err(DialError::NoSuch))));
    let refused = client.connect_addr(at, &[0; 4096]);
    match refused {
        Err(DialError::TooLong { given: 4096, limit }) => {
            // What fits, fits.
            client.connect_addr(at, &vec![0; limit])?;
        }
        other => panic!("too much, yet: {other:?}"),
    }
    server.close_listener(listener);
    drop(server);
    let nobody = dial(&client, at, b"");
    assert!(matches!(nobody, Err(DialError::Failed(_))), "{nobody:?}");
    let unknown = stack_without_connection_manager()?;
    assert!(matches!(unknown.listen(LOCALHOST), Err(DialError::NoConnectionManager)));
    Ok(())
}

fn stack_without_connection_manager() -> Outcome<Worker> {
    let config = Config::from_pairs([("BOWLINE_TRANSPORTS", "self")], stack::SETTINGS)?;
    let area_bytes = stack::area_bytes(&config);
    let job =
        JobMemory::create_private(&JobSpec { job_id: 4, ranks: 1, first_rank: 0, area_bytes })?;
    job.attach(0)?;
    let place = RankPlace::of_thread(&job, 0);
    Ok(stack::worker(&place, &config, SystemWaiter::new(&config))?)
}

/// Hundreds ask at once, while other clients hold connections open, send nothing, or send nonsense.
fn a_crowd_and_idle_clients() -> Outcome {
    const CROWD: usize = 300;
    let (server, client) = (alone(1, "self,tcp")?, alone(2, "self,tcp")?);
    let (_, at) = server.listen(LOCALHOST)?;
    let mut idle_clients = Vec::new();
    for number in 0..64_u8 {
        let mut idle_client = TcpStream::connect(at)?;
        if number % 2 == 0 {
            let _ = idle_client.write(&[number; 100]);
        }
        idle_clients.push(idle_client);
    }
    let dials = (0..CROWD).map(|number| client.connect_addr(at, &(number as u32).to_le_bytes()));
    let dials: Vec<_> = dials.collect::<Result<_, _>>()?;
    let mut seen = vec![false; CROWD];
    let mut left: Vec<_> = dials.into_iter().enumerate().collect();
    let mut rejected = 0;
    while !left.is_empty() {
        server.progress();
        client.progress();
        while let Some(asked) = server.next_request() {
            let number = u32::from_le_bytes(asked.private[..].try_into()?) as usize;
            assert!(!std::mem::replace(&mut seen[number], true), "{number} came twice");
            server.accept(asked.id, &asked.private)?;
        }
        left.retain(|&(number, id)| match client.dial_outcome(id) {
            None => true,
            Some(Ok((_, private))) => {
                assert_eq!(private, (number as u32).to_le_bytes());
                false
            }
            Some(Err(error)) => {
                // The server holds a bounded number of idle clients, and says so by closing.
                assert!(matches!(error, DialError::Failed(_) | DialError::Rejected { .. }));
                rejected += 1;
                false
            }
        });
    }
    println!("    {} of {CROWD} at once were accepted", CROWD - rejected);
    assert!(seen.iter().filter(|&&seen| seen).count() >= CROWD - rejected);
    assert!(CROWD - rejected > 0, "idle clients kept everybody out");
    // One more is served while the idle clients are still there.
    let id = client.connect_addr(at, &0_u32.to_le_bytes())?;
    loop {
        server.progress();
        client.progress();
        if let Some(asked) = server.next_request() {
            server.accept(asked.id, b"in")?;
        }
        if let Some(outcome) = client.dial_outcome(id) {
            assert_eq!(outcome?.1, b"in");
            break;
        }
    }
    for mut idle_client in idle_clients {
        idle_client.set_nonblocking(true)?;
        let _ = idle_client.read(&mut [0; 10]);
    }
    Ok(())
}

/// A server sleeps in its own `epoll`, and is woken by requests, by messages over whatever transport,
/// and by a signal of another thread.
fn it_sleeps_in_an_event_loop(transports: &str) -> Outcome {
    let server = alone(1, transports)?;
    let (_, at) = server.listen(LOCALHOST)?;
    let child = start("drip", at, transports)?;
    let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let fd = server.event_fd()?;
    epoll::add(&events, &fd, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
    let (mut naps, mut wakes) = (0, 0);
    let mut sleep = |limit: Duration| -> Outcome {
        while server.progress() > 0 {}
        if let Arm::Ready { within } = server.arm()? {
            naps += 1;
            let limit = within.map_or(limit, |within| within.min(limit));
            let limit = Timespec {
                tv_sec: limit.as_secs().try_into()?,
                tv_nsec: limit.subsec_nanos().into(),
            };
            let mut ready = Vec::with_capacity(4);
            match epoll::wait(&events, rustix::buffer::spare_capacity(&mut ready), Some(&limit)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            wakes += usize::from(!ready.is_empty());
        }
        while server.progress() > 0 {}
        Ok(())
    };
    let long = Duration::from_secs(30);
    let asked = loop {
        if let Some(asked) = server.next_request() {
            break asked;
        }
        sleep(long)?;
    };
    let ep = server.accept(asked.id, b"")?;
    let spec = MatchSpec { space: 0, source: None, tag: 1, tag_mask: u64::MAX };
    for count in 0..20_u8 {
        let id = server.recv(spec, RecvBuf::owned(vec![0; 1]))?;
        while !server.is_complete(id) {
            sleep(long)?;
        }
        assert_eq!(server.take_with_buffer(id).and_then(|(_, bytes)| bytes), Some(vec![count]));
    }
    let signal = server.signal();
    let raised = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        signal.raise();
    });
    sleep(long)?;
    raised.join().map_err(|_| "the thread panicked")?;
    println!("    {transports}: {naps} naps, {wakes} ended by the descriptor");
    assert!(wakes >= 5, "it hardly slept: {naps} naps, {wakes} wakes");
    send(&server, ep, 2, b"done")?;
    ended(child)
}

/// A client is killed: the handler of its endpoint is called, once, with the death.
fn a_death_is_reported(transports: &str) -> Outcome {
    let server = alone(1, transports)?;
    let (_, at) = server.listen(LOCALHOST)?;
    let mut child = start("die", at, transports)?;
    let asked = request(&server);
    let ep = server.accept(asked.id, b"")?;
    let (report, reported) = mpsc::channel();
    server.on_error(
        ep,
        Box::new(move |_, _, how| {
            let _ = report.send(how);
        }),
    )?;
    assert_eq!(recv(&server, 1)?, b"alive");
    send(&server, ep, 9, b"so that it makes progress")?;
    assert_eq!(recv(&server, 10)?, b"and well");
    child.kill()?;
    let mut how = None;
    server.wait_until(|| {
        how = how.or_else(|| reported.try_recv().ok());
        how.is_some()
    });
    assert_eq!(how, Some(PeerFailure::Died));
    child.wait()?;
    close(&server, ep, CloseMode::Flush)
}

/// Plays the role that the environment names, if it names one.
pub(crate) fn play() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    let words: Vec<&str> = role.split(' ').collect();
    let to = words[1].parse().expect("this program wrote it");
    Some(match client(words[0], to, words[2]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the client {role}: {error}");
            ExitCode::FAILURE
        }
    })
}

/// A case by its name.
type Named = (&'static str, fn() -> Outcome);

pub(crate) fn cases() -> Vec<Case> {
    let cases: &[Named] = &[
        ("they meet and talk by shared memory", || they_meet_and_talk("self,shm,tcp", "shm")),
        ("they meet and talk by tcp", || they_meet_and_talk("self,tcp", "tcp")),
        ("a rejection carries a reason", a_rejection_carries_a_reason),
        ("a crowd, and idle clients", a_crowd_and_idle_clients),
        ("an event loop over tcp", || it_sleeps_in_an_event_loop("self,tcp")),
        ("an event loop over shared memory", || it_sleeps_in_an_event_loop("self,shm,tcp")),
        ("a death is reported over tcp", || a_death_is_reported("self,tcp")),
        ("a death is reported over shared memory", || a_death_is_reported("self,shm,tcp")),
    ];
    let case = |&(name, case): &Named| {
        Case::new(format!("meeting::{name}"), move || {
            within_two_minutes(name, move || case().unwrap_or_else(|error| panic!("{error}")));
            Ok(())
        })
    };
    cases.iter().map(case).collect()
}
