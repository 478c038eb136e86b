//! Clients of a server that come and go on a simulated network: their places are used again, an
//! endpoint never names another peer, and what one has left behind stays its own.

mod random;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    AmKept, AmMessage, CloseMode, Envelope, Ep, EpState, MatchSpec, OpError, PeerFailure,
    RequestId, RmaError, SendMode, Sent, SpaceOptions, StreamReceived, StreamWant, Worker,
    WorkerParts,
};

use crate::doubles::{config, opened, parts};

/// Places that a server may have which has few clients at once.
const PLACES: usize = 100;

const CLOSED: OpError = OpError::PeerFailed(PeerFailure::Closed);

/// Active messages: of any length, and such that are kept.
const AM: u16 = 1;
const KEPT: u16 = 2;

/// An active message as the server saw it: the endpoint, the client, and its number there.
type Seen = (Ep, u32, u32);

/// A server, and a network for its clients.
struct Site {
    network: Network,
    config: Config,
    server: Worker,
    /// Nodes of the network so far.
    nodes: u32,
    seen: Arc<Mutex<Vec<Seen>>>,
    kept: Arc<Mutex<Vec<AmKept>>>,
}

/// A client, and its endpoint of the server.
struct Client {
    worker: Worker,
    to: Ep,
    number: u32,
    node: u32,
}

impl Site {
    fn new(options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        let network = Network::new(options);
        let config = config(settings);
        let server = worker(&network, &config, (1, 0), 1);
        let (seen, kept) =
            (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<Mutex<Vec<AmKept>>>::default());
        let sees = Arc::clone(&seen);
        server.am_handler(
            AM,
            Box::new(move |_, message: AmMessage<'_>| {
                let word = |at: usize| {
                    let bytes = message.header()[at..at + 4].try_into().expect("four bytes");
                    u32::from_le_bytes(bytes)
                };
                sees.lock().expect("no test panics with it").push((message.from, word(0), word(4)));
            }),
        );
        let keeps = Arc::clone(&kept);
        server.am_handler(
            KEPT,
            Box::new(move |_, message: AmMessage<'_>| {
                keeps.lock().expect("no test panics with it").push(message.keep());
            }),
        );
        Self { network, config, server, nodes: 1, seen, kept }
    }

    /// A client of the job `job`.
    fn arrive_in(&mut self, job: u64, number: u32) -> Client {
        let uid = u64::from(number) + 100;
        let worker = worker(&self.network, &self.config, (job, number + 1), uid);
        let to = worker.connect(&self.server.address()).expect("the server is there");
        self.nodes += 1;
        Client { worker, to, number, node: self.nodes - 1 }
    }

    fn arrive(&mut self, number: u32) -> Client {
        self.arrive_in(u64::from(number) + 100, number)
    }

    /// One poll of everybody; whether anything happened.
    fn round(&self, clients: &[&Client]) -> bool {
        let mut events = self.server.progress();
        for client in clients {
            events += client.worker.progress();
        }
        events > 0 || self.network.advance()
    }

    #[track_caller]
    fn until(&self, clients: &[&Client], done: impl Fn() -> bool) {
        let mut idle = 0;
        while !done() {
            idle = if self.round(clients) { 0 } else { idle + 1 };
            assert!(idle < 200 || done(), "nothing is under way, yet it is not done");
        }
    }

    fn settle(&self, clients: &[&Client]) {
        let mut idle = 0;
        while idle < 70 {
            idle = if self.round(clients) { 0 } else { idle + 1 };
        }
    }

    /// The endpoint of the client of which the server was notified.
    fn endpoint_of(&self, client: &Client) -> Ep {
        self.until(&[client], || self.saw(client.number).is_some());
        self.saw(client.number).expect("it was waited for")
    }

    fn saw(&self, number: u32) -> Option<Ep> {
        let seen = self.seen.lock().expect("no test panics with it");
        seen.iter().find(|(_, client, _)| *client == number).map(|&(ep, ..)| ep)
    }

    /// Waits for what a worker of the site has begun.
    fn end(&self, worker: &Worker, sent: Result<Sent, OpError>, clients: &[&Client]) {
        if let Ok(Sent::Pending(id)) = sent {
            self.until(clients, || worker.is_complete(id));
            worker.take(id);
        }
    }

    /// Clients that come, say a word and go, until the places of those before them were freed.
    fn others(&mut self, from: u32, count: u32) -> Vec<Ep> {
        let mut eps = Vec::new();
        for number in from..from + count {
            let client = self.arrive(number);
            client.says(3);
            eps.push(self.endpoint_of(&client));
            let closing = client.worker.close(client.to, CloseMode::Flush);
            self.end(&client.worker, closing, &[&client]);
            self.settle(&[&client]);
        }
        eps
    }
}

fn worker(network: &Network, config: &Config, (job, rank): (u64, u32), uid: u64) -> Worker {
    let parts = parts(rank, Box::new(network.open()), config);
    opened(WorkerParts { job, uid, ..parts }, 0, SpaceOptions::default())
}

impl Client {
    /// Sends an active message that says who this is.
    fn am(&self, number: u32, len: usize) -> Result<Sent, OpError> {
        let header = [self.number.to_le_bytes(), number.to_le_bytes()].concat();
        self.worker.am_send(self.to, AM, &header, SendBuf::owned(vec![number as u8; len]))
    }

    /// Its first one, by which the server learns of it.
    fn says(&self, len: usize) {
        // The request, where it is one, goes with its worker.
        let _ = self.am(0, len).expect("the server is there");
    }

    fn send(&self, tag: u64, bytes: Vec<u8>) -> Result<Sent, OpError> {
        let envelope = Envelope { space: 0, source: self.number, tag };
        self.worker.send(self.to, envelope, SendBuf::owned(bytes), SendMode::Standard)
    }
}

fn receive(worker: &Worker, source: Option<u32>, len: usize) -> RequestId {
    let spec = MatchSpec { space: 0, source, tag: 0, tag_mask: 0 };
    worker.recv(spec, RecvBuf::owned(vec![0; len])).expect("the space is open")
}

/// Every call that takes an endpoint treats one that is over as one that was closed.
#[track_caller]
fn is_over(worker: &Worker, ep: Ep) {
    let send = |mode| {
        let envelope = Envelope { space: 0, source: 0, tag: 1 };
        worker.send(ep, envelope, SendBuf::owned(vec![1; 4]), mode)
    };
    assert_eq!(send(SendMode::Standard).expect_err("it is over"), CLOSED);
    assert_eq!(send(SendMode::Synchronous).expect_err("it is over"), CLOSED);
    let am = |header: &[u8]| worker.am_send(ep, AM, header, SendBuf::owned(vec![1; 4]));
    assert_eq!(am(&[]).expect_err("it is over"), CLOSED);
    assert_eq!(am(&[0; 8]).expect_err("it is over"), CLOSED);
    let stream = worker.stream_send(ep, SendBuf::owned(vec![1; 4]));
    assert_eq!(stream.expect_err("it is over"), CLOSED);
    let got = worker.stream_recv(ep, RecvBuf::owned(vec![0; 4]), StreamWant::SOME);
    assert_eq!(got.err(), Some(CLOSED));
    assert_eq!(worker.stream_recv_data(ep).expect_err("it is over"), CLOSED);
    assert_eq!(worker.am_max_header(ep).expect_err("it is over"), CLOSED);
    assert_eq!(worker.flush_ep(ep).expect_err("it is over"), CLOSED);
    let reported = worker.on_error(ep, Box::new(|_, _, _| panic!("it is over")));
    assert_eq!(reported.expect_err("it is over"), CLOSED);
    let key = worker.rkey_unpack(ep, &[0; 12]).expect_err("it is over");
    assert!(matches!(key, RmaError::Peer(CLOSED)), "{key}");
    assert!(matches!(worker.close(ep, CloseMode::Flush), Ok(Sent::Done)));
    let state = worker.ep_info(ep).map(|info| info.state);
    assert!(matches!(state, None | Some(EpState::Ended(PeerFailure::Closed))), "{state:?}");
}

/// One after the other, with messages of every kind both ways, and each way to leave.
#[test]
fn thousands_of_clients_take_few_places_and_no_endpoint_comes_back() {
    const CLIENTS: u32 = 3000;
    let mut site = Site::new(NetworkOptions::default(), &[]);
    let mut eps = Vec::new();
    for number in 0..CLIENTS {
        let client = site.arrive(number);
        client.says([5, 300, 30_000][number as usize % 3]);
        let ep = site.endpoint_of(&client);
        eps.push(ep);
        let sent = client.send(7, number.to_le_bytes().to_vec());
        site.end(&client.worker, sent, &[&client]);
        let got = receive(&site.server, None, 4);
        site.until(&[&client], || site.server.is_complete(got));
        let (status, bytes) = site.server.take_with_buffer(got).expect("complete");
        assert_eq!((status.source, status.outcome), (number, Ok(())));
        assert_eq!(bytes, Some(number.to_le_bytes().to_vec()));
        let answer = Envelope { space: 0, source: 9, tag: u64::from(number) };
        let back = receive(&client.worker, Some(9), 8);
        let buffer = SendBuf::owned(u64::from(number).to_le_bytes().to_vec());
        let sent = site.server.send(ep, answer, buffer, SendMode::Standard);
        site.end(&site.server, sent, &[&client]);
        site.until(&[&client], || client.worker.is_complete(back));
        let (status, bytes) = client.worker.take_with_buffer(back).expect("complete");
        assert_eq!((status.tag, status.outcome), (u64::from(number), Ok(())));
        assert_eq!(bytes, Some(u64::from(number).to_le_bytes().to_vec()));
        let close = |worker: &Worker, ep, mode| {
            let closing = worker.close(ep, mode);
            site.end(worker, closing, &[&client]);
        };
        match number % 6 {
            0 => close(&client.worker, client.to, CloseMode::Flush),
            1 => close(&site.server, ep, CloseMode::Flush),
            2 => close(&site.server, ep, CloseMode::Force),
            3 => {
                let first = client.worker.close(client.to, CloseMode::Flush);
                close(&site.server, ep, CloseMode::Flush);
                site.end(&client.worker, first, &[&client]);
            }
            4 => site.network.kill(client.node),
            // Dropped in order, without a farewell.
            _ => {}
        }
        drop(client);
        site.settle(&[]);
        let count = site.server.peer_count();
        assert!(count.slots <= PLACES, "{count:?} after {number} clients");
        site.seen.lock().expect("no test panics with it").clear();
    }
    let distinct: HashSet<Ep> = eps.iter().copied().collect();
    assert_eq!(distinct.len(), eps.len(), "an endpoint came back from the dead");
    let last = site.arrive(CLIENTS);
    last.says(4);
    let open = site.endpoint_of(&last);
    let known = eps.len() - 2 * PLACES;
    eps[..known].iter().for_each(|&ep| is_over(&site.server, ep));
    site.settle(&[&last]);
    let counters = last.worker.counters();
    assert_eq!((counters.unexpected, counters.am_received, counters.stray), (0, 0, 0));
    assert_eq!(site.server.ep_info(open).map(|info| info.state), Some(EpState::Open));
}

/// Messages that nobody has received are their senders' as long as they lie there, and hold the place.
#[test]
fn what_a_client_has_left_behind_is_received_as_its_own() {
    const LEFT: u32 = 40;
    let mut site = Site::new(NetworkOptions::default(), &[]);
    let content = |number: u32| vec![number as u8 ^ 0x5a; 3 + 97 * number as usize];
    let mut eps = Vec::new();
    for number in 0..LEFT {
        let client = site.arrive(number);
        client.says(4);
        eps.push(site.endpoint_of(&client));
        let sent = client.send(u64::from(number), content(number));
        site.end(&client.worker, sent, &[&client]);
        let closing = client.worker.close(client.to, CloseMode::Flush);
        site.end(&client.worker, closing, &[&client]);
        site.settle(&[&client]);
    }
    site.others(1000, 300);
    let count = site.server.peer_count();
    assert!((LEFT as usize..=PLACES + 2 * LEFT as usize).contains(&count.slots), "{count:?}");
    for &ep in &eps {
        let state = site.server.ep_info(ep).expect("it is not forgotten").state;
        assert_eq!(state, EpState::Ended(PeerFailure::Closed));
    }
    for number in (0..LEFT).rev() {
        let got = receive(&site.server, Some(number), 10_000);
        let (status, bytes) = site.server.take_with_buffer(got).expect("it was there");
        assert_eq!((status.source, status.tag), (number, u64::from(number)));
        let bytes = bytes.expect("owned");
        assert_eq!(bytes[..status.length as usize], content(number));
    }
    site.others(2000, 300);
    eps.iter().for_each(|&ep| assert_eq!(site.server.ep_info(ep), None, "it is forgotten"));
    assert!(site.server.peer_count().known <= PLACES);
}

/// Bytes of a stream can be taken after their sender has left, unless its endpoint was closed here.
#[test]
fn a_stream_that_was_not_read_holds_its_place_until_its_endpoint_is_closed() {
    let mut site = Site::new(NetworkOptions::default(), &[]);
    let leaves = |site: &mut Site, number: u32| {
        let client = site.arrive(number);
        client.says(4);
        let ep = site.endpoint_of(&client);
        let sent = client.worker.stream_send(client.to, SendBuf::owned(vec![number as u8; 5000]));
        site.end(&client.worker, sent, &[&client]);
        let closing = client.worker.close(client.to, CloseMode::Flush);
        site.end(&client.worker, closing, &[&client]);
        site.settle(&[&client]);
        ep
    };
    let (read, left) = (leaves(&mut site, 1), leaves(&mut site, 2));
    site.others(1000, 300);
    let mut listed = Vec::new();
    site.server.stream_poll(&mut listed);
    assert_eq!(listed, [read, left]);
    let got = site.server.stream_recv(read, RecvBuf::owned(vec![0; 5000]), StreamWant::ALL);
    let Ok(StreamReceived::Done(5000, buffer)) = got else { panic!("all of it is here") };
    assert_eq!(buffer.into_owned(), Some(vec![1; 5000]));
    assert!(matches!(site.server.close(left, CloseMode::Flush), Ok(Sent::Done)));
    site.others(2000, 300);
    for ep in [read, left] {
        is_over(&site.server, ep);
        assert_eq!(site.server.ep_info(ep), None);
    }
    listed.clear();
    site.server.stream_poll(&mut listed);
    assert_eq!(listed, [], "the stream of a place's next peer is its own");
}

/// A kept message whose data lies with its sender names that one, and not who has its place and a
/// message of the same number.
#[test]
fn a_kept_message_of_a_client_that_left_is_not_its_successors() {
    let mut site = Site::new(NetworkOptions::default(), &[("BOWLINE_RNDV_THRESHOLD", "0")]);
    let offers = |site: &mut Site, number: u32| {
        let client = site.arrive(number);
        let before = site.kept.lock().expect("no test panics with it").len();
        let sent = client.worker.am_send(
            client.to,
            KEPT,
            &number.to_le_bytes(),
            SendBuf::owned(vec![number as u8; 9000]),
        );
        let Ok(Sent::Pending(id)) = sent else { panic!("its data stays with it") };
        site.until(&[&client], || site.kept.lock().expect("no test panics with it").len() > before);
        let message = site.kept.lock().expect("no test panics with it").pop().expect("just kept");
        assert_eq!(message.header(), number.to_le_bytes());
        (client, message, id)
    };
    let mut old = Vec::new();
    for number in 0..300 {
        let (client, message, _) = offers(&mut site, number);
        old.push((message.from(), message));
        if number % 2 == 0 {
            site.network.kill(client.node);
        }
        drop(client);
        site.settle(&[]);
    }
    assert!(site.server.peer_count().slots <= PLACES, "{:?}", site.server.peer_count());
    // As many at once as there are places of the others.
    let fresh: Vec<_> = (1000..1150).map(|number| offers(&mut site, number)).collect();
    let eps: HashSet<Ep> = fresh.iter().map(|(_, message, _)| message.from()).collect();
    for (at, (ep, message)) in old.into_iter().enumerate() {
        assert!(!eps.contains(&ep));
        if at % 3 == 0 {
            site.server.am_drop(message);
        } else {
            let error = site.server.am_recv(message, RecvBuf::owned(vec![0; 9000]));
            let OpError::PeerFailed(_) = error.expect_err("its sender has left") else {
                panic!("that is why")
            };
        }
    }
    for (client, message, id) in fresh {
        assert!(!client.worker.is_complete(id), "a message of another was taken for its own");
        let got = site.server.am_recv(message, RecvBuf::owned(vec![0; 9000])).expect("it lives");
        site.until(&[&client], || site.server.is_complete(got) && client.worker.is_complete(id));
        let (status, bytes) = site.server.take_with_buffer(got).expect("complete");
        assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![client.number as u8; 9000])));
        assert_eq!(client.worker.take(id).expect("complete").outcome, Ok(()));
    }
}

/// A key that is open holds the place of its owner; who releases it gives it back.
#[test]
fn an_open_key_holds_the_place_of_its_owner() {
    let mut site = Site::new(NetworkOptions::default(), &[]);
    let client = site.arrive(1);
    client.says(4);
    let ep = site.endpoint_of(&client);
    let memory = client.worker.mem_alloc(64).expect("the network lends memory");
    let packed = client.worker.rkey_pack(memory).expect("there");
    let key = site.server.rkey_unpack(ep, &packed).expect("it opens");
    site.network.kill(client.node);
    drop(client);
    site.settle(&[]);
    site.others(1000, 300);
    let state = site.server.ep_info(ep).expect("it is not forgotten").state;
    assert!(matches!(state, EpState::Ended(_)), "{state:?}");
    site.server.rkey_release(key);
    site.others(2000, 300);
    is_over(&site.server, ep);
    assert_eq!(site.server.ep_info(ep), None);
}

/// The program asks after the ranks of its own job as long as it likes: those that have failed stay,
/// until they are closed.
#[test]
fn a_rank_of_the_own_job_that_has_failed_is_remembered() {
    let mut site = Site::new(NetworkOptions::default(), &[]);
    let mut eps = Vec::new();
    for number in 1..3 {
        let client = site.arrive_in(1, number);
        client.says(4);
        eps.push(site.endpoint_of(&client));
        site.network.kill(client.node);
        drop(client);
        site.settle(&[]);
    }
    assert!(matches!(site.server.close(eps[1], CloseMode::Flush), Ok(Sent::Done)));
    site.others(1000, 300);
    let state = site.server.ep_info(eps[0]).expect("it is remembered").state;
    assert_eq!(state, EpState::Ended(PeerFailure::Died));
    is_over(&site.server, eps[1]);
    assert_eq!(site.server.ep_info(eps[1]), None);
}

/// Endpoints that are made and closed without a word between them.
#[test]
fn endpoints_that_are_never_used_take_few_places() {
    let mut site = Site::new(NetworkOptions::default(), &[]);
    let client = site.arrive(1);
    let mut old = Vec::new();
    for _ in 0..1000 {
        let ep = client.worker.connect(&site.server.address()).expect("the server is there");
        assert!(!old.contains(&ep), "an endpoint came back from the dead");
        assert!(matches!(client.worker.close(ep, CloseMode::Flush), Ok(Sent::Done)));
        old.push(ep);
    }
    assert!(client.worker.peer_count().slots <= PLACES);
    old.iter().for_each(|&ep| is_over(&client.worker, ep));
}
