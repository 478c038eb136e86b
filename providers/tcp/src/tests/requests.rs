//! Connections by socket address: private data, acceptance, rejection, failure.

use bowline_uct::{Armed, EpId, PeerFailure, Wakeup};

use super::{Side, options, until, watchdog};
use crate::{ConnectId, Connected, MAX_PRIVATE, TcpConnectError, TcpOptions, TcpRequest};

fn next(client: &mut Side, server: &mut Side) -> TcpRequest {
    let mut request = None;
    until(&mut [client, server], |sides| {
        request = sides[1].iface.next_request();
        request.is_some()
    });
    request.unwrap()
}

fn outcome(
    client: &mut Side,
    server: &mut Side,
    id: ConnectId,
) -> Result<Connected, TcpConnectError> {
    let mut outcome = None;
    until(&mut [client, server], |sides| {
        outcome = sides[0].iface.connect_outcome(id);
        outcome.is_some()
    });
    outcome.unwrap()
}

#[test]
fn accepted_requests_are_connections() {
    let _dog = watchdog("accepted_requests_are_connections");
    for place in ["127.0.0.1:0", "[::1]:0"] {
        let (mut client, mut server) = (Side::open(options()), Side::open(options()));
        let Ok((listener, at)) = server.iface.listen(place.parse().unwrap()) else {
            bowline_uct::conformance::skipped(format_args!("this host cannot listen at {place}"));
            continue;
        };
        let mut eps: Vec<(EpId, EpId)> = Vec::new();
        // Several between the same two interfaces.
        for round in 0..3_u8 {
            let id = client.iface.connect_to(at, &[round; 100]).unwrap();
            assert_eq!(client.iface.connect_outcome(id), None);
            let request = next(&mut client, &mut server);
            assert_eq!((request.listener, &request.private[..]), (listener, &[round; 100][..]));
            assert_eq!(request.from.ip(), at.ip());
            let theirs = server.iface.accept_request(request.id, &[round; MAX_PRIVATE]).unwrap();
            // The server may send at once.
            server.post(theirs, u64::from(round));
            let Connected { ep, private } = outcome(&mut client, &mut server, id).unwrap();
            assert_eq!(private, [round; MAX_PRIVATE]);
            client.post(ep, 10 + u64::from(round));
            until(&mut [&mut client, &mut server], |sides| {
                sides.iter().all(|side| side.seen.messages.len() == 1)
            });
            let (got, said) = (client.seen.messages.remove(0), server.seen.messages.remove(0));
            assert_eq!((got.header[0], got.source.0), (u64::from(round), ep.0));
            assert_eq!((said.header[0], said.source.0), (10 + u64::from(round), theirs.0));
            assert_eq!(client.iface.connect_outcome(id), Some(Err(TcpConnectError::NoSuch)));
            eps.push((ep, theirs));
        }
        // Each ends with its endpoint, what was sent before included.
        let (ep, theirs) = eps[1];
        client.post(ep, 99);
        client.iface.disconnect(ep);
        until(&mut [&mut client, &mut server], |sides| !sides[1].seen.failed.is_empty());
        assert_eq!(server.seen.messages.remove(0).header[0], 99);
        assert_eq!(server.seen.failed.len(), 1);
        assert_eq!(
            (server.seen.failed[0].1, server.seen.failed[0].2),
            (Some(theirs), PeerFailure::Closed)
        );
        client.post(eps[2].0, 5);
        until(&mut [&mut client, &mut server], |sides| !sides[1].seen.messages.is_empty());
        assert!(client.seen.failed.is_empty(), "closing is no failure");
        server.iface.close_listener(listener);
        let id = client.iface.connect_to(at, &[]).unwrap();
        let gone = outcome(&mut client, &mut server, id);
        assert_eq!(gone, Err(TcpConnectError::Failed(PeerFailure::Died)));
        assert!(client.seen.failed.is_empty(), "it had no endpoint");
    }
}

#[test]
fn rejected_requests_say_why() {
    let _dog = watchdog("rejected_requests_say_why");
    let (mut client, mut server) = (Side::open(options()), Side::open(options()));
    let (_, at) = server.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let id = client.iface.connect_to(at, b"please").unwrap();
    let request = next(&mut client, &mut server);
    server.iface.reject_request(request.id, b"no space").unwrap();
    let rejected = outcome(&mut client, &mut server, id);
    assert_eq!(rejected, Err(TcpConnectError::Rejected { private: b"no space".to_vec() }));
    assert!(server.iface.accept_request(request.id, &[]).is_err(), "answered already");
    assert!(client.iface.connect_to(at, &[0; MAX_PRIVATE + 1]).is_err());
    // A client that ends before the answer.
    let hasty = Side::open(options());
    let mut hasty = hasty;
    hasty.iface.connect_to(at, b"quick").unwrap();
    let request = next(&mut hasty, &mut server);
    hasty.iface.abandon();
    until(&mut [&mut server], |sides| sides[0].handshakes() == 0);
    let late = server.iface.accept_request(request.id, &[]).unwrap_err().to_string();
    assert!(late.contains("given up"), "{late}");
    // One without the secret is not even shown.
    let mut foreign = Side::open(TcpOptions::with_secret([9; 32]));
    let id = foreign.iface.connect_to(at, b"let me in").unwrap();
    let refused = outcome(&mut foreign, &mut server, id);
    assert_eq!(refused, Err(TcpConnectError::Failed(PeerFailure::Refused)));
    assert_eq!(server.iface.next_request(), None);
    // A server's interface for peers is no listener.
    let place = server.place();
    let id = client.iface.connect_to(place, &[]).unwrap();
    let rejected = outcome(&mut client, &mut server, id);
    assert_eq!(rejected, Err(TcpConnectError::Rejected { private: Vec::new() }));
}

#[test]
fn requests_and_outcomes_keep_awake() {
    let _dog = watchdog("requests_and_outcomes_keep_awake");
    let (mut client, mut server) = (Side::open(options()), Side::open(options()));
    let (_, at) = server.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let id = client.iface.connect_to(at, &[]).unwrap();
    until(&mut [&mut client, &mut server], |sides| !sides[1].iface.requests.is_empty());
    assert_eq!(server.iface.arm(false), Armed::Busy, "a request waits");
    let request = server.iface.next_request().unwrap();
    server.iface.accept_request(request.id, &[]).unwrap();
    until(&mut [&mut client, &mut server], |sides| !sides[0].iface.outcomes.is_empty());
    assert_eq!(client.iface.arm(true), Armed::Busy, "an outcome waits");
    assert!(client.iface.connect_outcome(id).unwrap().is_ok());
    until(&mut [&mut client, &mut server], |sides| {
        let ready = sides.iter_mut().all(|side| side.iface.arm(false) == Armed::Ready);
        sides.iter_mut().for_each(|side| side.iface.disarm());
        ready
    });
}
