//! A server that lives long, clients that come and go in every way, and ranks that end.

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Sleep;
use bowline_base::scmp::Message;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{Armed, LocalSlice, MemoryDomain, OneSided, Posted, RemoteSlice, Wakeup};

use super::*;
use crate::addr::start_time;
use crate::endpoint::Condition;
use crate::layout::guest;

/// How many clients a server has one after another; more by this variable.
const CLIENTS: &str = "SHM_TEST_CLIENTS";

fn small() -> ShmOptions {
    ShmOptions {
        scmp_slots: 16,
        rings: 1,
        ring_slots: 8,
        ring_data: 4096,
        first_ring_data: 4096,
        max_bcopy: 256,
        promote_after: 2,
        guests: 4,
        registrations: 16,
        ..ShmOptions::default()
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc is there").count()
}

/// Mappings of this process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("/proc is there").lines().count()
}

/// Memory of this process that is there, in MB.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages: usize = text.split(' ').nth(1).expect("the second field").parse().expect("a number");
    (pages * rustix::param::page_size()) >> 20
}

fn nothing_is_left(server: &ShmIface) {
    assert!(server.nodes.is_empty(), "{} node memories are open", server.nodes.len());
    assert!(server.guests.iter().all(Option::is_none), "a guest has its place");
    assert!(server.eps.iter().all(|e| e.condition == Condition::Vacant), "an endpoint is there");
    assert_eq!((server.lost.len(), server.failures.len()), (0, 0));
    for index in 0..server.options.guests {
        let entry = server.area.guest(index).expect("the table is that long");
        assert_eq!(entry.state.load(Ordering::SeqCst), guest::FREE);
    }
    assert_eq!(server.receiver.active.len(), 0);
    assert!(server.receiver.free.iter().flatten().all(|ring| ring.owner().is_none()));
}

/// Clients one after the other, each with a node memory of its own, with messages both ways, a ring and
/// memory that the server reads. They leave before or after the server lets go of them, or are damaged.
#[test]
fn a_server_keeps_nothing_of_clients_that_have_gone() {
    // In a process of its own, whose descriptors and mappings are nobody else's.
    let memory = job(1, &small());
    Role::start("tests::server::role_server", &memory, &[]).wait();
}

#[test]
#[ignore = "a role"]
fn role_server() {
    let _ = in_role();
    let _dog = std::env::var_os(CLIENTS).is_none().then(watchdog);
    let clients = std::env::var(CLIENTS).map_or(400, |text| text.parse().expect("a number"));
    let options = small();
    let mut server = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
    let mut seen = Seen::default();
    let mut before = None;
    for round in 0..clients {
        let mut client = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
        let mut mine = Seen::default();
        let to_server = client.connect(&server.address()).unwrap();
        for number in 0..6 {
            post(&mut client, &mut mine, to_server, number, b"a request");
        }
        until(&mut server, &mut seen, |seen| seen.messages.len() == 6);
        let to_client = server.connect(&client.address()).unwrap();
        assert!(to_client.0 < 2, "numbers of endpoints are used again: {to_client:?}");
        let memory = client.mem_alloc(4096).unwrap();
        let key = server.rkey_unpack(to_client, &client.rkey_pack(memory).unwrap()).unwrap();
        let address = client.mem_view(memory).unwrap().as_ptr() as u64;
        let mut into = RecvBuf::owned(vec![1; 64]);
        // SAFETY: `into` stays, and the calls end in themselves.
        let whole = [unsafe { LocalSlice::of_recv(&mut into, 0, 64) }.unwrap()];
        let from = RemoteSlice { address, rkey: key };
        assert_eq!(server.get_zcopy(to_client, &whole, from, Token(1)), Ok(Posted::Done));
        post(&mut server, &mut seen, to_client, 9, b"an answer");
        until(&mut client, &mut mine, |mine| !mine.messages.is_empty());
        let how = match round % 4 {
            0 => {
                server.disconnect(to_client);
                PeerFailure::Closed
            }
            // The other way round, below.
            1 => PeerFailure::Closed,
            _ => {
                // A message with an id that there is not, by whatever way it goes now.
                let e = &mut client.eps[0];
                match &mut e.sending {
                    bowline_base::ring::promote::Sending::Ring(ring) => {
                        assert!(ring.try_push_short(0x99, 0, &[0; 3], &[]));
                    }
                    _ => {
                        let message = Message { id: 0x99, flags: 0, header: &[0; 3], payload: &[] };
                        e.queue.push(e.intent.word(), &message).unwrap();
                    }
                }
                until(&mut server, &mut seen, |seen| !seen.failed.is_empty());
                // It hears of it, too, as long as it is there.
                until(&mut client, &mut mine, |mine| !mine.failed.is_empty());
                assert_eq!(mine.failed[0].2, PeerFailure::Damaged);
                PeerFailure::Damaged
            }
        };
        drop(client);
        until(&mut server, &mut seen, |seen| !seen.failed.is_empty());
        server.disconnect(to_client);
        // A key is its holder's: it stays, and opens nothing by the process that has the number next.
        assert!(server.get_zcopy(to_client, &whole, from, Token(1)).is_err());
        server.rkey_release(key);
        while server.progress(&mut seen, 64) > 0 || server.todo {}
        while server.guests.iter().any(Option::is_some) {
            server.progress(&mut seen, 64);
        }
        while server.todo {
            server.progress(&mut seen, 64);
        }
        assert_eq!(seen.failed.len(), 1, "reported once: {:?}", seen.failed);
        assert_eq!(seen.failed[0].2, how);
        seen = Seen::default();
        nothing_is_left(&server);
        let counts = (descriptors(), mappings(), resident());
        if round == 8 {
            before = Some(counts);
        } else if let Some(before) = before {
            assert!(counts.0 <= before.0 + 2, "{counts:?} after {before:?}, client {round}");
            // A sanitizer keeps what was freed, in memory that it maps bit by bit.
            if cfg!(bowline_sanitize) {
                continue;
            }
            assert!(counts.1 <= before.1 + 8, "{counts:?} after {before:?}, client {round}");
            // What 400 clients took was 1.2 MB for the node memory of each.
            assert!(counts.2 <= before.2 + 8, "{counts:?} after {before:?}, client {round}");
        }
    }
}

/// An entry of the guest table as a process leaves it that was killed while it filled it in.
#[test]
fn a_place_that_was_claimed_by_a_process_that_ended_is_taken_by_the_next() {
    let options = small();
    let mut server = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    for index in 0..options.guests {
        let by = if index == 0 { std::process::id() } else { dead };
        let entry = server.area.guest(index).unwrap();
        entry.state.store(guest::claimed_by(by), Ordering::SeqCst);
    }
    let mut seen = Seen::default();
    // One place is being filled in by somebody who is there, and stays his.
    let mut clients = Vec::new();
    for number in 0..u64::from(options.guests) - 1 {
        let mut client = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
        let ep = client.connect(&server.address()).unwrap();
        post(&mut client, &mut Seen::default(), ep, number, b"here");
        clients.push(client);
    }
    until(&mut server, &mut seen, |seen| seen.messages.len() == clients.len());
    let mut late = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
    let error = late.connect(&server.address()).unwrap_err().to_string();
    assert!(error.contains("BOWLINE_SHM_GUESTS"), "{error}");
    drop(clients);
    until(&mut server, &mut seen, |seen| seen.failed.len() + 1 == options.guests as usize);
    late.connect(&server.address()).unwrap();
}

/// A client that dies between its last step of connecting and the server's next poll.
#[test]
fn a_guest_that_died_before_it_was_welcomed_leaves_nothing() {
    let _dog = watchdog();
    let options = small();
    let mut server = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let entry = server.area.guest(1).unwrap();
    entry.pid.store(child.id(), Ordering::SeqCst);
    entry.start_time.store(start_time(child.id()).unwrap().unwrap(), Ordering::SeqCst);
    entry.instance.store(5, Ordering::SeqCst);
    entry.node.store(6, Ordering::SeqCst);
    // It had announced a message, and reserved its slot.
    let words = server.area.scmp_words();
    let intent = bowline_base::scmp::seq::attach(words, 0, 2).unwrap();
    let mut producer = intent;
    producer.announce(&entry.intent, 1).unwrap();
    let _never_published = producer.reserve(1).unwrap();
    entry.state.store(guest::JOINED, Ordering::SeqCst);
    server.area.bump_attention();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut seen = Seen::default();
    until(&mut server, &mut seen, |seen| !seen.failed.is_empty());
    assert_eq!(seen.failed, [(Some(Source(2)), None, PeerFailure::Died)]);
    while server.todo {
        server.progress(&mut seen, 8);
    }
    nothing_is_left(&server);
    // Nothing of it stands in the way of the next one.
    let mut client = ShmIface::open(job(1, &options), 0, options.clone()).unwrap();
    let ep = client.connect(&server.address()).unwrap();
    post(&mut client, &mut Seen::default(), ep, 3, b"here");
    until(&mut server, &mut seen, |seen| seen.messages.len() == 1);
}

/// A rank that ends wakes those who know it, and nobody else; everybody sees it at the next poll.
#[test]
fn a_rank_that_ends_rings_those_who_know_it() {
    let options = small();
    let count = 70;
    let job = job(count, &options);
    let mut all: Vec<ShmIface> = (0..count)
        .map(|local| ShmIface::open(job.clone(), local, options.clone()).unwrap())
        .collect();
    let mut leaver = all.pop().unwrap();
    let mut seen: Vec<Seen> = all.iter().map(|_| Seen::default()).collect();
    // It has connected to 3, and 5 and 66 have to it.
    let _ = leaver.connect(&all[3].address()).unwrap();
    for local in [5, 66] {
        let _ = all[local].connect(&leaver.address()).unwrap();
    }
    let attention: Vec<u32> =
        all.iter().map(|r| r.area.attention().word.load(Ordering::SeqCst)).collect();
    for (rank, seen) in all.iter_mut().zip(&mut seen) {
        for _ in 0..4 {
            rank.progress(seen, 8);
        }
        assert_eq!(rank.arm(false), Armed::Ready);
    }
    drop(leaver);
    for (local, rank) in all.iter_mut().enumerate() {
        assert_eq!(rank.bell.is_rung(), [3, 5, 66].contains(&local), "rank {local}");
        let now = rank.area.attention().word.load(Ordering::SeqCst);
        assert_eq!(now, attention[local], "nothing of rank {local} was touched");
        rank.disarm();
    }
    for (rank, seen) in all.iter_mut().zip(&mut seen) {
        until(rank, seen, |seen| !seen.failed.is_empty());
        assert_eq!(seen.failed[0].0, Some(Source(count - 1)));
        assert_eq!(seen.failed[0].2, PeerFailure::Closed);
        assert_eq!(seen.failed.len(), 1);
    }
    // A client that connects too late gets an error at once, and one that arms does not sleep through it.
    let address = all[1].address();
    let mut late = all.remove(0);
    let closing = all.remove(0);
    drop(closing);
    assert!(late.connect(&address).is_err());
    late.bell.arm(Sleep::Futex);
    late.bell.disarm();
    assert_eq!(late.arm(false), Armed::Busy);
}
