//! Peers that are processes of their own, killed in every state of a connection: each operation
//! gets its answer and the failure is reported.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::common::{Seen, has_device, options};
use bowline_base::buffer::SendBuf;
use bowline_uct::conformance::Watchdog;
use bowline_uct::{
    AmId, Iface, LocalSlice, MemoryDomain, OneSided, PeerFailure, PostError, Posted, RemoteSlice,
    Token,
};
use bowline_verbs::{VerbsIface, VerbsMode, VerbsOptions};

/// Makes the test program the peer, in a mode.
const ROLE: &str = "BOWLINE_TEST_VERBS_PEER";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.trim().bytes().collect();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("hexadecimal")
    };
    digits.chunks(2).map(byte).collect()
}

/// The peer: says where it is and makes progress, unless it is asked to compute.
#[test]
fn peer() {
    let Ok(mode) = std::env::var(ROLE) else {
        return;
    };
    let mut options = options(1);
    options.mode = if mode == "ud" { VerbsMode::Ud } else { VerbsMode::Rc };
    let mut iface = VerbsIface::open(&options).expect("there is a device");
    let window = iface.mem_alloc(1 << 16).ok();
    let key = window.map(|window| iface.rkey_pack(window).expect("it has a key"));
    let start = window.and_then(|window| iface.mem_view(window)).map_or(0, |v| v.as_ptr() as u64);
    let mut out = std::io::stdout();
    writeln!(out, "@{} {} {start}", hex(&iface.address()), hex(&key.unwrap_or_default()))
        .expect("somebody reads");
    out.flush().expect("somebody reads");
    let mut seen = Seen::default();
    // The parent kills this process, or is gone itself.
    let mut answered = None;
    while std::os::unix::process::parent_id() != 1 {
        iface.progress(&mut seen, 16);
        std::thread::yield_now();
        if let Some((_, header, address)) = seen.messages.pop() {
            if header[0] == 1 {
                // To compute: no progress from here on.
                loop {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    if std::os::unix::process::parent_id() == 1 {
                        return;
                    }
                }
            }
            if !address.is_empty() {
                let ep = iface.connect(&address).expect("the parent is there");
                answered = Some(ep);
            }
            if let Some(ep) = answered {
                iface.am_short(ep, AmId::new(1), &header, &[]).expect("there is space");
            }
        }
    }
}

struct Peer {
    child: Child,
    address: Vec<u8>,
    key: Vec<u8>,
    start: u64,
}

impl Peer {
    fn start(mode: &str) -> Self {
        let program = std::env::current_exe().expect("it runs");
        let mut child = Command::new(program)
            .args(["--exact", "processes::peer", "--nocapture", "--test-threads=1"])
            .env(ROLE, mode)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts once more");
        let out = BufReader::new(child.stdout.take().expect("it was asked for"));
        let line = out
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once('@').map(|(_, rest)| rest.to_owned()))
            .expect("the peer says where it is");
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words").to_owned();
        let (address, key) = (unhex(&word()), unhex(&word()));
        let start = word().trim().parse().expect("a number");
        Self { child, address, key, start }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn open(mode: &str) -> (VerbsIface, VerbsOptions) {
    let mut options = options(0);
    options.mode = if mode == "ud" { VerbsMode::Ud } else { VerbsMode::Rc };
    (VerbsIface::open(&options).expect("there is a device"), options)
}

fn until(iface: &mut VerbsIface, seen: &mut Seen, mut done: impl FnMut(&Seen) -> bool) {
    while !done(seen) {
        iface.progress(seen, 16);
        std::thread::yield_now();
    }
}

const MODES: [&str; 2] = ["rc", "ud"];
const ID: AmId = AmId::new(2);

#[test]
fn killed_before_the_first_message() {
    if std::env::var_os(ROLE).is_some() || !has_device("killed_before_the_first_message") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "killed_before_the_first_message");
    for mode in MODES {
        // With an endpoint that nobody used, and with messages that wait for the connection.
        for used in [false, true] {
            let mut peer = Peer::start(mode);
            let (mut iface, _) = open(mode);
            let mut seen = Seen::default();
            let ep = iface.connect(&peer.address).expect("it is there");
            peer.kill();
            if used {
                iface.am_short(ep, ID, &[0; 3], b"late").expect("it waits");
                let flush = iface.flush(ep, Token(4));
                assert_eq!(flush, Ok(Posted::InFlight));
            }
            until(&mut iface, &mut seen, |seen| !seen.failed.is_empty());
            let answers = if used { 1 } else { 0 };
            assert_eq!(seen.completed.len(), answers, "{mode}: {:?}", seen.completed);
            assert!(seen.completed.iter().all(|(_, result)| result.is_err()));
            assert_eq!(iface.am_short(ep, ID, &[0; 3], b""), Err(PostError::PeerFailed));
        }
    }
}

#[test]
fn killed_while_idle_and_while_computing() {
    if std::env::var_os(ROLE).is_some() || !has_device("killed_while_idle_and_while_computing") {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "killed_while_idle_and_while_computing");
    for mode in MODES {
        for computing in [0, 1] {
            let mut peer = Peer::start(mode);
            let (mut iface, _) = open(mode);
            let mut seen = Seen::default();
            let ep = iface.connect(&peer.address).expect("it is there");
            let address = iface.address();
            iface.am_short(ep, ID, &[0; 3], &address).expect("it waits");
            until(&mut iface, &mut seen, |seen| !seen.messages.is_empty());
            iface.am_short(ep, ID, &[computing, 0, 0], &[]).expect("there is space");
            if computing == 1 {
                // A peer that computes is slow and not dead: longer than the time-out.
                let begin = std::time::Instant::now();
                until(&mut iface, &mut seen, |_| begin.elapsed().as_secs() >= 5);
                assert!(seen.failed.is_empty(), "{mode}: a computing peer was taken for dead");
            }
            peer.kill();
            until(&mut iface, &mut seen, |seen| !seen.failed.is_empty());
            assert_eq!(seen.failed, [PeerFailure::Unreachable], "{mode}");
        }
    }
}

#[test]
fn killed_in_the_midst_of_messages_and_transfers() {
    if std::env::var_os(ROLE).is_some()
        || !has_device("killed_in_the_midst_of_messages_and_transfers")
    {
        return;
    }
    let _watchdog = Watchdog::start("verbs", "killed_in_the_midst_of_messages_and_transfers");
    for mode in MODES {
        for round in 0..3 {
            let mut peer = Peer::start(mode);
            let (mut iface, _) = open(mode);
            let mut seen = Seen::default();
            let ep = iface.connect(&peer.address).expect("it is there");
            let rkey = iface.rkey_unpack(ep, &peer.key).ok();
            let bytes = SendBuf::owned(vec![3; 1 << 16]);
            // SAFETY: the buffer is kept, and left alone, until the operation has ended.
            let slice = unsafe { LocalSlice::of_send(&bytes, 0, bytes.len()) }.expect("all of it");
            let (mut token, mut expected) = (0, Vec::new());
            let mut refused = None;
            let mut posts = 0_u64;
            while refused.is_none() {
                match iface.am_short(ep, ID, &[0; 3], b"message") {
                    Ok(()) | Err(PostError::NoResource) => {}
                    Err(error) => refused = Some(error),
                }
                if let Some(rkey) = rkey
                    && expected.len() < seen.completed.len() + 8
                {
                    token += 1;
                    let to = RemoteSlice { address: peer.start, rkey };
                    if iface.put_zcopy(ep, &[slice], to, Token(token)).is_ok() {
                        expected.push(Token(token));
                    }
                }
                iface.progress(&mut seen, 16);
                posts += 1;
                if posts == 200 * (round + 1) {
                    peer.kill();
                }
            }
            assert_eq!(refused, Some(PostError::PeerFailed), "{mode}");
            until(&mut iface, &mut seen, |seen| !seen.failed.is_empty());
            let mut done: Vec<Token> = seen.completed.iter().map(|(token, _)| *token).collect();
            done.sort_by_key(|token| token.0);
            assert_eq!(done, expected, "{mode}: each transfer is answered once");
            assert_eq!(seen.failed.len(), 1, "{mode}: reported once");
        }
    }
}
