//! Streams between processes of which one is killed: what had come can be read, then the reader has an
//! error; sends that wait for a reader that died end; streams with others go on.

use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use bowline::ucp::{Ep, OpError, PeerFailure, RequestId, Sent, StreamReceived, StreamWant, Worker};
use bowline_base::buffer::{RecvBuf, SendBuf};

use crate::Case;
use crate::alone::{LOCALHOST, Outcome, alone};
use crate::common::within_two_minutes;

const ROLE: &str = "STREAMS_TEST_ROLE";

/// The bytes of a stream from a place on.
fn bytes(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// The next bytes of a stream, or how it ended.
fn next(worker: &Worker, ep: Ep, want: StreamWant, capacity: usize) -> Result<Vec<u8>, OpError> {
    let (length, bytes) = match worker.stream_recv(ep, RecvBuf::owned(vec![0; capacity]), want)? {
        StreamReceived::Done(n, buffer) => (n, buffer.into_owned()),
        StreamReceived::Pending(id) => {
            worker.wait_until(|| worker.is_complete(id));
            let (status, bytes) = worker.take_with_buffer(id).ok_or(OpError::BadRequest)?;
            status.outcome?;
            (status.length, bytes)
        }
    };
    let mut bytes = bytes.ok_or(OpError::BadRequest)?;
    bytes.truncate(length as usize);
    Ok(bytes)
}

fn send(worker: &Worker, ep: Ep, bytes: Vec<u8>) -> Result<(), OpError> {
    match worker.stream_send(ep, SendBuf::owned(bytes))? {
        Sent::Done => Ok(()),
        Sent::Pending(id) => worker.wait(id).outcome,
    }
}

/// Starts this program in a role, and accepts it.
fn start(server: &Worker, to: SocketAddr, role: &str, transports: &str) -> Outcome<(Child, Ep)> {
    let mut command = Command::new(std::env::current_exe()?);
    let child = command.env(ROLE, format!("{role} {to} {transports}")).spawn()?;
    let mut asked = None;
    server.wait_until(|| {
        asked = server.next_request();
        asked.is_some()
    });
    let asked = asked.ok_or("it was waited for")?;
    Ok((child, server.accept(asked.id, b"")?))
}

/// What a client does.
fn client(role: &str, to: SocketAddr, transports: &str) -> Outcome {
    let worker = alone(u64::from(std::process::id()), transports)?;
    let id = worker.connect_addr(to, b"")?;
    let mut outcome = None;
    worker.wait_until(|| {
        outcome = worker.dial_outcome(id);
        outcome.is_some()
    });
    let (ep, _) = outcome.ok_or("it was waited for")??;
    match role {
        // Sends without end, short parts and long ones, until it is killed.
        "pour" => {
            let mut at = 0;
            for round in 0_u64.. {
                let len = [1, 30, 5000, 70_000, 700_000][round as usize % 5];
                send(&worker, ep, bytes(at, len))?;
                at += len as u64;
            }
        }
        // Reads nothing, and is killed.
        "stand" => {
            send(&worker, ep, vec![1])?;
            worker.wait_until(|| false);
        }
        // Sends back what it reads, until that is a 0.
        "echo" => loop {
            let got = next(&worker, ep, StreamWant::ALL, 4)?;
            send(&worker, ep, got.clone())?;
            if got == [0; 4] {
                break;
            }
        },
        other => return Err(format!("no such role: {other}").into()),
    }
    Ok(())
}

fn echoes(server: &Worker, ep: Ep, word: [u8; 4]) -> Outcome {
    send(server, ep, word.to_vec())?;
    assert_eq!(next(server, ep, StreamWant::ALL, 4)?, word);
    Ok(())
}

fn died(error: OpError) {
    assert_eq!(error, OpError::PeerFailed(PeerFailure::Died));
}

fn a_pouring_peer_dies(transports: &str) -> Outcome {
    let server = alone(1, transports)?;
    let (_, at) = server.listen(LOCALHOST)?;
    let (echo, other) = start(&server, at, "echo", transports)?;
    let (mut pour, ep) = start(&server, at, "pour", transports)?;
    let mut total = 0_u64;
    let mut killed = false;
    let error = loop {
        if total > 3 << 20 && !killed {
            pour.kill()?;
            killed = true;
        }
        match next(&server, ep, StreamWant::SOME, 50_000) {
            Ok(part) => {
                assert!(!part.is_empty());
                assert!(part == bytes(total, part.len()), "other bytes at {total}");
                total += part.len() as u64;
            }
            Err(error) => break error,
        }
    };
    assert!(killed, "it ended before it was killed: {error}");
    died(error);
    pour.wait()?;
    println!("    {transports}: {total} bytes came before the error");
    // It stays so, for receives and sends.
    died(next(&server, ep, StreamWant::SOME, 10).expect_err("it is dead"));
    died(send(&server, ep, vec![1]).expect_err("it is dead"));
    echoes(&server, other, *b"left")?;
    // Who comes after it, and may get its place, is another.
    let (next, new) = start(&server, at, "echo", transports)?;
    echoes(&server, new, *b"come")?;
    for (child, ep) in [(echo, other), (next, new)] {
        echoes(&server, ep, [0; 4])?;
        ended(child)?;
    }
    Ok(())
}

fn a_peer_dies_that_never_read(transports: &str) -> Outcome {
    let server = alone(1, transports)?;
    let (_, at) = server.listen(LOCALHOST)?;
    let (echo, other) = start(&server, at, "echo", transports)?;
    let (mut stand, ep) = start(&server, at, "stand", transports)?;
    assert_eq!(next(&server, ep, StreamWant::ALL, 1)?, [1]);
    // More than it holds unread, and one that lies here until it reads.
    let mut open: Vec<RequestId> = Vec::new();
    for len in [30_000; 60].into_iter().chain([4 << 20]) {
        if let Sent::Pending(id) = server.stream_send(ep, SendBuf::owned(bytes(0, len)))? {
            open.push(id);
        }
    }
    let until = Instant::now() + Duration::from_millis(200);
    while Instant::now() < until {
        server.progress();
    }
    // They keep nothing from others.
    echoes(&server, other, *b"both")?;
    let waits = open.iter().filter(|&&id| !server.is_complete(id)).count();
    assert!(waits > 10, "only {waits} wait for a reader");
    stand.kill()?;
    let mut lost = 0;
    for id in open {
        match server.wait(id).outcome {
            Ok(()) => {}
            Err(error) => {
                died(error);
                lost += 1;
            }
        }
    }
    // A slow machine may still have carried some to it before it died.
    assert!((11..=waits).contains(&lost), "of {waits} that waited for their reader {lost} failed");
    stand.wait()?;
    echoes(&server, other, *b"left")?;
    echoes(&server, other, [0; 4])?;
    ended(echo)
}

fn ended(mut child: Child) -> Outcome {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the client ended with {status}").into()) }
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
        ("a pouring peer dies, over tcp", || a_pouring_peer_dies("self,tcp")),
        ("a pouring peer dies, over shared memory", || a_pouring_peer_dies("self,shm,tcp")),
        ("a peer dies that never read, over tcp", || a_peer_dies_that_never_read("self,tcp")),
        ("a peer dies that never read, over shared memory", || {
            a_peer_dies_that_never_read("self,shm,tcp")
        }),
    ];
    let case = |&(name, case): &Named| {
        Case::new(format!("streams::{name}"), move || {
            within_two_minutes(name, move || case().unwrap_or_else(|error| panic!("{error}")));
            Ok(())
        })
    };
    cases.iter().map(case).collect()
}
