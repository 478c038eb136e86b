//! The client against our own server on a thread, and against managers that go away or answer
//! nonsense. Managers of other make are not tried here.

use std::io::BufRead;
use std::os::unix::net::UnixStream;

use super::super::server::{Server, ServerEvent};
use super::*;

/// A manager on a thread for one rank of a job of one.
fn manager() -> (OwnedFd, std::thread::JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        let mut server = Server::new(1, "kvs_1");
        let mut out = ours.try_clone().unwrap();
        for line in io::BufReader::new(ours).lines() {
            let mut events = Vec::new();
            server.line(0, line.unwrap().as_bytes(), &mut events);
            for event in events {
                match event {
                    ServerEvent::Reply { line, .. } => out.write_all(&line).unwrap(),
                    ServerEvent::Violation { .. } => return,
                    ServerEvent::Left { .. } | ServerEvent::AllIn => panic!("there is one node"),
                    ServerEvent::Abort { code, message, .. } => {
                        assert_eq!((code, message.as_str()), (5, "two lines"));
                    }
                }
            }
        }
    });
    (theirs.into(), thread)
}

#[test]
fn long_values_come_back_whole() {
    let (fd, thread) = manager();
    let mut client = Client::connect(fd).unwrap();
    assert_eq!(client.kvsname(), "kvs_1");
    for len in [0, 1, 499, 500, 501, 1000, 5000] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        client.put_bytes(&format!("k{len}"), &bytes).unwrap();
        client.barrier().unwrap();
        assert_eq!(client.get_bytes(&format!("k{len}")).unwrap(), bytes, "{len} bytes");
    }
    client.put("odd", "7:123").unwrap();
    client.put("short", "7:12").unwrap();
    client.put("plain", "text").unwrap();
    client.put("long", "1:1234").unwrap();
    for key in ["odd", "short", "plain", "long", "missing"] {
        assert!(client.get_bytes(key).is_err(), "{key}");
    }
    client.abort(5, "two\nlines").unwrap();
    client.finalize().unwrap();
    drop(client);
    thread.join().unwrap();
}

#[test]
fn refusals_and_bad_arguments_are_distinguished() {
    let (fd, thread) = manager();
    let mut client = Client::connect(fd).unwrap();
    client.put("a", "1").unwrap();
    assert!(matches!(client.put("a", "2"), Err(PmiError::Refused { .. })));
    assert!(matches!(client.put("with blank", "2"), Err(PmiError::Argument(..))));
    assert!(matches!(client.put("b", "two words"), Err(PmiError::Argument(..))));
    assert!(matches!(client.put(&"k".repeat(65), "2"), Err(PmiError::Argument(..))));
    assert!(matches!(client.get("b"), Err(PmiError::Refused { .. })));
    drop(client);
    thread.join().unwrap();
}

#[test]
fn a_manager_that_goes_or_babbles_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    let error = Client::connect(theirs.into()).unwrap_err();
    assert!(matches!(error, PmiError::Closed | PmiError::Io(_)), "{error}");
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"cmd=maxes\n").unwrap();
    let error = Client::connect(theirs.into()).unwrap_err();
    assert!(matches!(error, PmiError::Unexpected { .. }), "{error}");
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"nonsense\n").unwrap();
    let error = Client::connect(theirs.into()).unwrap_err();
    assert!(matches!(error, PmiError::Damaged(_)), "{error}");
}
