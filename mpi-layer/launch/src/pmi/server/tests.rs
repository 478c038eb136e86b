//! The server line by line, without sockets: answers, limits, barriers among ranks that end, and
//! what counts as a violation.

use super::*;

fn ask(server: &mut Server, rank: u32, line: &str) -> Vec<ServerEvent> {
    let mut events = Vec::new();
    server.line(rank, line.as_bytes(), &mut events);
    events
}

fn answer(server: &mut Server, rank: u32, line: &str) -> String {
    match &ask(server, rank, line)[..] {
        [ServerEvent::Reply { rank: to, line }] if *to == rank => {
            String::from_utf8(line.clone()).unwrap()
        }
        events => panic!("{line:?} gave {events:?}"),
    }
}

fn open(size: u32) -> Server {
    let mut server = Server::new(size, "kvs_7");
    for rank in 0..size {
        let hello = answer(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1");
        assert_eq!(hello, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    }
    server
}

#[test]
fn questions_of_the_start_are_answered() {
    let mut server = open(3);
    let maxes = answer(&mut server, 1, "cmd=get_maxes");
    assert_eq!(maxes, "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    assert_eq!(answer(&mut server, 1, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0\n");
    server.programs([0, 0, 1]);
    assert_eq!(answer(&mut server, 2, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=1\n");
    assert_eq!(answer(&mut server, 1, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=3\n");
    assert_eq!(answer(&mut server, 1, "cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=kvs_7\n");
    let mapping = answer(&mut server, 2, "cmd=get kvsname=kvs_7 key=PMI_process_mapping");
    assert_eq!(mapping, "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))\n");
}

#[test]
fn values_are_kept_once_and_within_limits() {
    let mut server = open(2);
    let put = |server: &mut Server, key: &str, value: &str| {
        answer(server, 0, &format!("cmd=put kvsname=kvs_7 key={key} value={value}"))
    };
    assert!(put(&mut server, "a", "x y").contains("rc=0"));
    assert!(put(&mut server, "a", "z").contains("rc=-1 msg=duplicate_key"));
    assert!(put(&mut server, &"k".repeat(65), "z").contains("rc=-1 msg=key_length"));
    assert!(put(&mut server, "b", &"v".repeat(1025)).contains("rc=-1 msg=value_length"));
    assert!(put(&mut server, "b", &"v".repeat(1024)).contains("rc=0"));
    assert!(answer(&mut server, 1, "cmd=get kvsname=kvs_7 key=a").ends_with("value=x y\n"));
    assert!(answer(&mut server, 1, "cmd=get kvsname=kvs_7 key=c").contains("key_not_found"));
    assert!(answer(&mut server, 1, "cmd=get kvsname=other key=a").contains("kvs_not_found"));
}

#[test]
fn a_barrier_waits_for_the_living() {
    let mut server = open(3);
    let released = |events: &[ServerEvent]| -> Vec<u32> {
        events
            .iter()
            .map(|event| match event {
                ServerEvent::Reply { rank, line } if line.starts_with(b"cmd=barrier_out") => *rank,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert!(ask(&mut server, 0, "cmd=barrier_in").is_empty());
    assert!(ask(&mut server, 2, "cmd=barrier_in").is_empty());
    assert_eq!(server.stuck(), None);
    assert_eq!(released(&ask(&mut server, 1, "cmd=barrier_in")), [0, 1, 2]);
    assert!(ask(&mut server, 0, "cmd=barrier_in").is_empty());
    assert!(ask(&mut server, 2, "cmd=barrier_in").is_empty());
    let mut events = Vec::new();
    server.gone(1, true, &mut events);
    assert_eq!(released(&events), [0, 2]);
    events.clear();
    server.gone(2, false, &mut events);
    assert!(events.is_empty());
    assert!(ask(&mut server, 0, "cmd=barrier_in").is_empty());
    assert_eq!(server.stuck(), Some((0, 2)));
}

#[test]
fn a_rank_that_waits_and_ends_does_not_count_twice() {
    let mut server = open(2);
    assert!(ask(&mut server, 0, "cmd=barrier_in").is_empty());
    let mut events = Vec::new();
    server.gone(0, true, &mut events);
    assert!(events.is_empty());
    assert_eq!(ask(&mut server, 1, "cmd=barrier_in").len(), 1);
}

#[test]
fn what_is_no_request_is_a_violation_of_that_rank_only() {
    let mut server = Server::new(2, "kvs_7");
    let is_violation = |events: &[ServerEvent], of: u32| matches!(events, [ServerEvent::Violation { rank, .. }] if *rank == of);
    assert!(is_violation(&ask(&mut server, 1, "cmd=get_maxes"), 1));
    assert!(is_violation(&ask(&mut server, 1, "\u{1}\u{2}"), 1));
    assert!(answer(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0").contains("rc=-1"));
    answer(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
    assert!(is_violation(&ask(&mut server, 0, "cmd=init pmi_version=1"), 0));
    assert!(server.is_open(0) && !server.is_open(1));
    answer(&mut server, 0, "cmd=finalize");
    assert!(!server.is_open(0));
    assert!(is_violation(&ask(&mut server, 0, "cmd=get_maxes"), 0));
    assert!(ask(&mut server, 9, "cmd=get_maxes").is_empty());
}

#[test]
fn spawning_is_refused_once_per_request() {
    let mut server = open(1);
    for (so_far, answered) in [(1, 0), (2, 1)] {
        for line in ["mcmd=spawn", "nprocs=1", "execname=x", "totspawns=2"] {
            assert!(ask(&mut server, 0, line).is_empty());
        }
        assert!(ask(&mut server, 0, &format!("spawnssofar={so_far}")).is_empty());
        let events = ask(&mut server, 0, "endcmd");
        assert_eq!(events.len(), answered);
        if let [ServerEvent::Reply { line, .. }] = &events[..] {
            assert!(line.starts_with(b"cmd=spawn_result rc=-1 msg="));
        }
    }
    assert!(answer(&mut server, 0, "cmd=lookup_name service=x").contains("rc=-1"));
}

#[test]
fn an_abort_is_heard_at_any_time() {
    let mut server = Server::new(1, "kvs_7");
    let events = ask(&mut server, 0, "cmd=abort exitcode=9 message=no way");
    assert_eq!(events, [ServerEvent::Abort { rank: 0, code: 9, message: "no way".into() }]);
}

#[test]
fn preset_bytes_are_read_as_if_a_rank_had_put_them() {
    let mut server = Server::new(1, "kvs");
    server.preset("own", &[1, 0xab]);
    let mut events = Vec::new();
    server.line(0, b"cmd=init pmi_version=1 pmi_subversion=1", &mut events);
    server.line(0, b"cmd=get kvsname=kvs key=own", &mut events);
    let line = b"cmd=get_result rc=0 msg=success value=2:01ab\n".to_vec();
    assert_eq!(events.pop(), Some(ServerEvent::Reply { rank: 0, line }));
    assert!(!format!("{server:?}").contains("01ab"));
}

#[test]
fn nodes_exchange_what_was_put_at_barriers() {
    let mapping = NodeMapping::in_blocks(&[2, 1]);
    let mut server = Server::of_node(2, 3, &mapping, "kvs");
    for rank in 0..2 {
        ask(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1");
    }
    let size = ask(&mut server, 0, "cmd=get_universe_size");
    let reply = |rank, line: &str| ServerEvent::Reply { rank, line: line.as_bytes().to_vec() };
    assert_eq!(size, [reply(0, "cmd=universe_size rc=0 size=3\n")]);
    ask(&mut server, 0, "cmd=put kvsname=kvs key=a value=1");
    assert_eq!(ask(&mut server, 0, "cmd=barrier_in"), []);
    assert_eq!(ask(&mut server, 1, "cmd=barrier_in"), [ServerEvent::AllIn]);
    assert_eq!(server.take_fresh(), [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(server.take_fresh(), []);
    // A death while the others are waited for does not ask again.
    let mut events = Vec::new();
    server.gone(1, true, &mut events);
    assert_eq!(events, []);
    server.merge(b"a".to_vec(), b"other".to_vec());
    server.merge(b"b".to_vec(), b"2".to_vec());
    server.release(&mut events);
    assert_eq!(events, [reply(0, "cmd=barrier_out rc=0\n")]);
    let value = |v: &str| reply(0, &format!("cmd=get_result rc=0 msg=success value={v}\n"));
    assert_eq!(ask(&mut server, 0, "cmd=get kvsname=kvs key=a"), [value("1")]);
    assert_eq!(ask(&mut server, 0, "cmd=get kvsname=kvs key=b"), [value("2")]);
    assert_eq!(ask(&mut server, 0, "cmd=barrier_in"), [ServerEvent::AllIn]);
    server.release(&mut events);
    let left = ask(&mut server, 0, "cmd=finalize");
    assert_eq!(left, [ServerEvent::Left { rank: 0 }, reply(0, "cmd=finalize_ack rc=0\n")]);
}
