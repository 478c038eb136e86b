//! Processes: many that connect to each other, killed ones, and a host that cannot be reached.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::conformance::{Watchdog, skipped};
use bowline_uct::{
    AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict, Wakeup,
};

const ID: AmId = AmId::new(2);

fn watchdog(name: &'static str) -> Watchdog {
    Watchdog::start("tcp", name)
}

/// Counts.
#[derive(Default)]
struct Seen {
    /// Number of messages, and the sum of their first words.
    messages: u64,
    sum: u64,
    failed: Vec<(Option<Source>, Option<EpId>, PeerFailure)>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.messages += 1;
        self.sum += arrival.header[0];
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.failed.push((source, ep, how));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.trim().len()).step_by(2).map(digit).collect()
}

/// A test of this file run as a process of its own, killed when dropped.
struct Role {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Role {
    fn start(prefix: &[&str], name: &str, environment: &[(&str, String)]) -> Self {
        let exe = std::env::current_exe().unwrap();
        let mut words: Vec<&std::ffi::OsStr> = prefix.iter().map(|word| word.as_ref()).collect();
        words.push(exe.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["--exact", name, "--ignored", "--nocapture"]);
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from }
    }

    /// What the role says next; the harness's own lines are passed over.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the process has ended");
            // The harness writes the test's name without an end of line first.
            if let Some((_, said)) = line.trim_end().split_once("say ") {
                return said.to_owned();
            }
        }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn wait(&mut self) {
        assert!(self.child.wait().unwrap().success(), "the process failed");
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(line: &str) {
    println!("say {line}");
}

fn listen() -> String {
    let mut line = String::new();
    assert!(std::io::stdin().read_line(&mut line).unwrap() > 0, "the parent has ended");
    line.trim().to_owned()
}

fn options() -> TcpOptions {
    TcpOptions::with_secret([0x1f; 32])
}

/// The state in which a role is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Its interface is open, nobody makes progress there.
    Deaf,
    /// Connected and silent.
    Idle,
    /// It sends as much as it can.
    Streams,
    /// It does not receive, and the kernel's buffers are full.
    Full,
}

/// Opens an interface and does what `TCP_STATE` says.
#[test]
#[ignore = "a role"]
fn role_victim() {
    let mut patient = options();
    patient.timeout = Duration::from_secs(60);
    let mut iface = TcpIface::open(patient).unwrap();
    say(&hex(&iface.address()));
    let parent = unhex(&listen());
    let mut seen = Seen::default();
    match std::env::var("TCP_STATE").unwrap().as_str() {
        "Deaf" => {}
        "Streams" => {
            let ep = iface.connect(&parent).unwrap();
            let mut number = 0;
            loop {
                if iface.am_short(ep, ID, &[number, 0, 0], &[1; 100]).is_ok() {
                    number += 1;
                }
                iface.progress(&mut seen, 16);
            }
        }
        _ => {
            let ep = iface.connect(&parent).unwrap();
            iface.am_short(ep, ID, &[1, 0, 0], &[]).unwrap();
            while seen.messages == 0 {
                iface.progress(&mut seen, 16);
            }
            say("connected");
        }
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn killed_in_any_state_is_an_error() {
    let _dog = watchdog("killed_in_any_state_is_an_error");
    for state in [State::Deaf, State::Idle, State::Streams, State::Full] {
        let mut iface = TcpIface::open(options()).unwrap();
        let mut seen = Seen::default();
        let mut role =
            Role::start(&[], "processes::role_victim", &[("TCP_STATE", format!("{state:?}"))]);
        let theirs = unhex(&role.hear());
        let ep = iface.connect(&theirs).unwrap();
        role.send(&hex(&iface.address()));
        iface.am_short(ep, ID, &[5, 0, 0], &[]).unwrap();
        match state {
            // In the kernel's queue of its listener.
            State::Deaf => {
                for _ in 0..2000 {
                    iface.progress(&mut seen, 16);
                }
            }
            State::Streams => {
                while seen.messages < 2000 {
                    iface.progress(&mut seen, 16);
                }
            }
            State::Idle | State::Full => {
                while seen.messages == 0 {
                    iface.progress(&mut seen, 16);
                }
                assert_eq!(role.hear(), "connected");
                if state == State::Full {
                    while iface.am_short(ep, ID, &[0; 3], &[1; 1000]).is_ok() {}
                }
            }
        }
        assert!(seen.failed.is_empty(), "{state:?}: {:?}", seen.failed);
        role.kill();
        let start = Instant::now();
        while seen.failed.is_empty() {
            iface.progress(&mut seen, 16);
        }
        eprintln!("{state:?}: the death was reported after {:?}", start.elapsed());
        assert_eq!(seen.failed.len(), 1);
        assert_eq!((seen.failed[0].1, seen.failed[0].2), (Some(ep), PeerFailure::Died));
        assert_eq!(iface.am_short(ep, ID, &[0; 3], &[]), Err(PostError::PeerFailed));
        assert_eq!(iface.check(ep), Err(PostError::PeerFailed));
    }
}

/// A sleeper hears of a death too.
#[test]
fn a_death_wakes_a_sleeper() {
    let _dog = watchdog("a_death_wakes_a_sleeper");
    use bowline_uct::Armed;
    for descriptor in [false, true] {
        let mut iface = TcpIface::open(options()).unwrap();
        let mut seen = Seen::default();
        let mut role =
            Role::start(&[], "processes::role_victim", &[("TCP_STATE", "Idle".to_owned())]);
        let theirs = unhex(&role.hear());
        let ep = iface.connect(&theirs).unwrap();
        role.send(&hex(&iface.address()));
        iface.am_short(ep, ID, &[5, 0, 0], &[]).unwrap();
        while seen.messages == 0 {
            iface.progress(&mut seen, 16);
        }
        assert_eq!(role.hear(), "connected");
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            role.kill();
        });
        while seen.failed.is_empty() {
            if iface.progress(&mut seen, 16) > 0 || iface.arm(descriptor) == Armed::Busy {
                continue;
            }
            // Without a time-out: only the death can end it, or the interface's own timer.
            if descriptor {
                let fd = iface.event_fd().unwrap();
                let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut fds, None).unwrap();
            } else {
                let _ = iface.doorbell().unwrap().clone().wait(None);
            }
            iface.disarm();
        }
        killer.join().unwrap();
        assert_eq!(seen.failed[0].2, PeerFailure::Died);
    }
}

/// One of many: says its address, hears everybody's, sends one message to each and waits for as
/// many.
#[test]
#[ignore = "a role"]
fn role_member() {
    let me: usize = std::env::var("TCP_MEMBER").unwrap().parse().unwrap();
    let mut iface = TcpIface::open(options()).unwrap();
    say(&hex(&iface.address()));
    let all: Vec<Vec<u8>> = listen().split(' ').map(unhex).collect();
    let mut seen = Seen::default();
    for round in 0..2_u64 {
        for step in 1..all.len() {
            let ep = iface.connect(&all[(me + step) % all.len()]).unwrap();
            let header = [me as u64, 0, 0];
            while let Err(error) = iface.am_short(ep, ID, &header, &[1; 40]) {
                assert_eq!(error, PostError::NoResource);
                iface.progress(&mut seen, 64);
            }
        }
        let wanted = (round + 1) * (all.len() as u64 - 1);
        while seen.messages < wanted {
            if iface.progress(&mut seen, 64) == 0 {
                std::thread::yield_now();
            }
            assert!(seen.failed.is_empty(), "{:?}", seen.failed);
        }
        if round == 0 {
            say("all");
            assert_eq!(listen(), "on");
        }
    }
    let (bytes, peers) = iface.peer_memory();
    let counters = iface.counters();
    say(&format!("{} {bytes} {peers} {}", seen.sum, counters.connections));
    // Nobody leaves before everybody has said that it is done.
    while listen() != "end" {}
    iface.abandon();
}

/// `BOWLINE_TCP_TEST_RANKS` says how many; more than a hundred take a while on two processors.
#[test]
fn processes_connect_all_to_all() {
    let _dog = watchdog("processes_connect_all_to_all");
    let ranks: u64 = std::env::var("BOWLINE_TCP_TEST_RANKS")
        .map_or(32, |text| text.parse().expect("a number of ranks"));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert!(limit.current.is_none_or(|most| most > ranks + 64), "too few descriptors allowed");
    let start = Instant::now();
    let mut roles: Vec<Role> = (0..ranks)
        .map(|rank| Role::start(&[], "processes::role_member", &[("TCP_MEMBER", rank.to_string())]))
        .collect();
    let addresses: Vec<String> = roles.iter_mut().map(Role::hear).collect();
    let all = addresses.join(" ");
    eprintln!(
        "{ranks} processes, addresses of {} bytes: {:?}",
        addresses[0].len() / 2,
        start.elapsed()
    );
    let start = Instant::now();
    roles.iter_mut().for_each(|role| role.send(&all));
    roles.iter_mut().for_each(|role| assert_eq!(role.hear(), "all"));
    eprintln!("all to all connected after {:?}", start.elapsed());
    let memory = |role: &Role| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", role.child.id())).unwrap();
        status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default().to_owned()
    };
    eprintln!("a process: {}", memory(&roles[0]));
    let sockets = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    eprintln!("sockets of the host: {}", sockets.lines().nth(1).unwrap_or_default());
    roles.iter_mut().for_each(|role| role.send("on"));
    for (rank, role) in roles.iter_mut().enumerate() {
        let reported = role.hear();
        let numbers: Vec<u64> = reported.split(' ').map(|word| word.parse().unwrap()).collect();
        let others = ranks * (ranks - 1) / 2 - rank as u64;
        assert_eq!(numbers[0], 2 * others, "each rank's number, twice");
        assert_eq!(
            (numbers[2], numbers[3]),
            (ranks - 1, ranks - 1),
            "one connection for each peer"
        );
        if rank == 0 {
            let each = numbers[1] / numbers[2];
            eprintln!("memory for each connection: {each} bytes, without the kernel's");
            assert!(each < 2048, "an idle connection holds {each} bytes");
        }
    }
    roles.iter_mut().for_each(|role| role.send("end"));
    roles.iter_mut().for_each(Role::wait);
}

/// A network namespace with a veth pair to it, taken down when dropped.
struct Namespace {
    name: String,
    here: String,
    there: String,
}

impl Namespace {
    fn ip(words: &str) -> Result<(), String> {
        let output = Command::new("ip").args(words.split(' ')).output();
        let output = output.map_err(|error| format!("cannot run ip: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {text}")) }
    }

    /// A namespace that is reached at 198.51.100.2 from 198.51.100.1, addresses for examples.
    fn make(number: u32) -> Result<Self, String> {
        // Names of interfaces have at most 15 characters.
        let name = format!("bl{}n{number}", std::process::id());
        Self::ip(&format!("netns add {name}"))?;
        let namespace =
            Self { here: format!("{name}a"), there: format!("{name}b"), name: name.clone() };
        let Self { here, there, .. } = &namespace;
        for words in [
            format!("link add {here} type veth peer name {there} netns {name}"),
            format!("addr add 198.51.100.1/24 dev {here}"),
            format!("link set {here} up"),
            format!("-n {name} addr add 198.51.100.2/24 dev {there}"),
            format!("-n {name} link set {there} up"),
            format!("-n {name} link set lo up"),
        ] {
            Self::ip(&words)?;
        }
        Ok(namespace)
    }

    /// Takes the link on this side down or up.
    fn link(&self, state: &str) {
        Self::ip(&format!("link set {} {state}", self.here)).unwrap();
    }

    fn cut(&self) {
        // Not the link, whose end the kernel on this side would notice: packets just go nowhere.
        Self::ip(&format!("-n {} addr flush dev {}", self.name, self.there)).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Self::ip(&format!("link del {}", self.here));
        let _ = Self::ip(&format!("netns del {}", self.name));
    }
}

/// Runs a role in a network of its own: on the machine's, other processes would take the test's addresses for
/// theirs, and what leads nowhere would leave by the default route.
fn alone_in_a_network(role: &str) {
    let alone = Command::new("unshare").args(["--net", "true"]).output();
    if !alone.is_ok_and(|output| output.status.success()) {
        skipped("a network namespace cannot be made");
        return;
    }
    let mut role = Role::start(&["unshare", "--net"], role, &[]);
    match role.hear().split_once(' ') {
        Some(("not", why)) => skipped(why),
        _ => role.wait(),
    }
}

#[test]
fn an_unreachable_host_is_an_error_by_the_time_out() {
    let _dog = watchdog("an_unreachable_host_is_an_error_by_the_time_out");
    alone_in_a_network("processes::role_unreachable_host");
}

#[test]
#[ignore = "a role"]
fn role_unreachable_host() {
    for (number, busy) in [(0, false), (1, true)] {
        let namespace = match Namespace::make(number) {
            Ok(namespace) => namespace,
            Err(why) => return say(&format!("not a network namespace cannot be made: {why}")),
        };
        if number == 0 {
            say("begins");
            Namespace::ip("link set lo up").unwrap();
        }
        let prefix = ["ip", "netns", "exec", namespace.name.as_str()];
        let mut role =
            Role::start(&prefix, "processes::role_victim", &[("TCP_STATE", "Idle".to_owned())]);
        let theirs = unhex(&role.hear());
        let mut hasty = options();
        hasty.timeout = Duration::from_secs(3);
        let mut iface = TcpIface::open(hasty).unwrap();
        let mut seen = Seen::default();
        role.send(&hex(&iface.address()));
        let routes = iface.explain(&theirs).unwrap();
        for route in &routes {
            eprintln!("{route}");
        }
        assert!(routes[0].chosen && !routes[0].remote.unwrap().ip().is_loopback());
        assert!(
            routes
                .iter()
                .any(|route| !route.chosen && route.reason.contains("loopback of another")),
            "loopback does not lead there"
        );
        let ep = iface.connect(&theirs).unwrap();
        iface.am_short(ep, ID, &[5, 0, 0], &[]).unwrap();
        while seen.messages == 0 {
            iface.progress(&mut seen, 16);
        }
        assert_eq!(role.hear(), "connected");
        namespace.cut();
        let start = Instant::now();
        if busy {
            // With data on its way the kernel asks in other ways than without.
            while iface.am_short(ep, ID, &[0; 3], &[1; 1000]).is_ok() {}
        }
        while seen.failed.is_empty() {
            iface.progress(&mut seen, 16);
            std::thread::sleep(Duration::from_millis(1));
        }
        eprintln!("busy {busy}: reported after {:?} with a time-out of 3 s", start.elapsed());
        assert_eq!(seen.failed.len(), 1);
        assert_eq!((seen.failed[0].1, seen.failed[0].2), (Some(ep), PeerFailure::Unreachable));
        // And one that cannot be reached from the start.
        iface.disconnect(ep);
        seen.failed.clear();
        if let Ok(ep) = iface.connect(&theirs) {
            while seen.failed.is_empty() {
                iface.progress(&mut seen, 16);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!((seen.failed[0].1, seen.failed[0].2), (Some(ep), PeerFailure::Unreachable));
        }
    }
}

/// Both sides begin to connect while the link between them is down, and nothing is lost.
#[test]
fn a_link_that_comes_up_late_is_waited_for() {
    let _dog = watchdog("a_link_that_comes_up_late_is_waited_for");
    alone_in_a_network("processes::role_late_link");
}

#[test]
#[ignore = "a role"]
fn role_late_link() {
    let namespace = match Namespace::make(2) {
        Ok(namespace) => namespace,
        Err(why) => return say(&format!("not a network namespace cannot be made: {why}")),
    };
    say("begins");
    Namespace::ip("link set lo up").unwrap();
    let prefix = ["ip", "netns", "exec", namespace.name.as_str()];
    let mut role =
        Role::start(&prefix, "processes::role_victim", &[("TCP_STATE", "Idle".to_owned())]);
    let theirs = unhex(&role.hear());
    let mut patient = options();
    patient.timeout = Duration::from_secs(60);
    let mut iface = TcpIface::open(patient).unwrap();
    let mut seen = Seen::default();
    let mine = hex(&iface.address());
    namespace.link("down");
    iface.reachable(&theirs).expect("a route may come");
    assert!(
        iface.explain(&theirs).unwrap().iter().all(|route| !route.chosen),
        "no route leads there"
    );
    let ep = iface.connect(&theirs).unwrap();
    iface.am_short(ep, ID, &[5, 0, 0], &[]).unwrap();
    role.send(&mine);
    while iface.counters().tried_again < 3 {
        iface.progress(&mut seen, 16);
    }
    assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    namespace.link("up");
    while seen.messages == 0 {
        iface.progress(&mut seen, 16);
        assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    }
    assert_eq!(role.hear(), "connected");
}
