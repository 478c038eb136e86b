//! What a user sees of a program whose `main` is the README's: errors as text, and a log.
//!
//! This program is its own user program: started with a role it is that, otherwise it starts itself in
//! each role. Its standard error stream is a socket of datagrams then, so that every write is seen as
//! one piece. It has no test harness, since the subscriber of events belongs to a whole process.

use std::error::Error;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

const ROLE: &str = "USER_PROGRAM_ROLE";

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    match std::env::var(ROLE).as_deref() {
        Ok(role) => user(role),
        Err(_) => {
            for (name, test) in TESTS {
                test();
                println!("test {name} ... ok");
            }
            Ok(())
        }
    }
}

/// The user's program.
fn user(role: &str) -> Outcome {
    match role {
        "plain" => {}
        "own_log" => {
            let own = tracing::Dispatch::new(Own);
            tracing::dispatcher::set_global_default(own)?;
        }
        "no_log" => assert!(bowline::log::disable()),
        "late" => {
            let config = bowline::config_from_env()?;
            bowline::log::start(&config)?;
            assert!(!bowline::log::disable(), "it is installed");
        }
        other => return Err(format!("no role {other}").into()),
    }
    let world = bowline::init()?;
    let mut sum = [0];
    world.allreduce(&[1], &mut sum, bowline::mpi::Sum)?;
    println!("{} of {} ranks", sum[0], world.size());
    tracing::warn!(target: "user", "a word of the program's own");
    world.send(&[1], 7, 0)?;
    Ok(())
}

/// A program's own subscriber.
struct Own;

impl tracing::Subscriber for Own {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        // In one piece: the end of a line alone is taken for the end of the program.
        let line = format!("own:{}\n", event.metadata().target());
        std::io::stderr().write_all(line.as_bytes()).expect("the socket takes it");
    }
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

/// What a program wrote to its standard error stream, write by write.
fn writes(role: &str, settings: &[(&str, &str)]) -> Vec<String> {
    let (ours, theirs) = UnixDatagram::pair().expect("a pair of sockets");
    ours.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    let mut command = Command::new(std::env::current_exe().expect("an own file"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["BOWLINE_", "PMI", "RUST_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    command.env(ROLE, role).envs(settings.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(OwnedFd::from(theirs));
    let mut child = command.spawn().expect("it can be started");
    // The command holds a copy of the socket until it is gone.
    drop(command);
    let mut writes = Vec::new();
    let mut piece = [0; 65536];
    loop {
        match ours.recv(&mut piece) {
            Ok(0) => break,
            Ok(len) => writes.push(String::from_utf8_lossy(&piece[..len]).into_owned()),
            // The last holder of the other end has gone.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => {
                let ended = child.try_wait().expect("it is a child");
                if ended.is_some() {
                    break;
                }
                child.kill().expect("it is a child");
                panic!("{role}: nothing was written for a minute: {error}; so far {writes:?}");
            }
        }
        // Every run ends with the line's end behind the error of `main`.
        if writes.last().is_some_and(|last| last == "\n") {
            break;
        }
    }
    let status = child.wait().expect("it is a child");
    assert_eq!(status.code(), Some(1), "{role}: the error of main: {writes:?}");
    writes
}

const TESTS: &[(&str, fn())] = &[
    ("an_error_of_main_is_text_in_one_piece", an_error_of_main_is_text_in_one_piece),
    ("a_misspelt_setting_is_warned_of", a_misspelt_setting_is_warned_of),
    ("a_bad_log_filter_is_an_error", a_bad_log_filter_is_an_error),
    ("the_log_can_be_asked_for_more_and_switched_off", more_and_off),
    ("a_program_may_have_a_log_of_its_own", a_log_of_its_own),
];

fn an_error_of_main_is_text_in_one_piece() {
    let said = writes("plain", &[("BOWLINE_TRANSPORTS", "foo"), ("BOWLINE_LOG", "off")]);
    let text = "BOWLINE_TRANSPORTS names `foo`; this build has self, shm";
    assert!(said.iter().any(|piece| piece.starts_with(text)), "{said:?}");
    assert!(!said.concat().contains("NoSuchTransport"), "{said:?}");

    // An error of MPI, and one that comes from several layers below.
    let said = writes("plain", &[("BOWLINE_LOG", "off")]);
    assert!(said.concat().starts_with("Error: rank 7 "), "{said:?}");
    let missing = ("BOWLINE_TCP_INTERFACES", "nosuch0");
    let said =
        writes("plain", &[("BOWLINE_TRANSPORTS", "self,tcp"), missing, ("BOWLINE_LOG", "off")]);
    let text = said.iter().find(|piece| piece.starts_with("cannot open the transport tcp"));
    assert!(text.is_some_and(|text| text.contains("nosuch0") && !text.contains('{')), "{said:?}");
}

fn a_misspelt_setting_is_warned_of() {
    let said = writes("plain", &[("BOWLINE_TRANSPROT", "tcp")]);
    let warning = " WARN bowline::stack: BOWLINE_TRANSPROT is not a setting and has no effect; the \
                   nearest one is BOWLINE_TRANSPORTS\n";
    assert_eq!(said.iter().filter(|piece| *piece == warning).count(), 1, "{said:?}");
}

fn a_bad_log_filter_is_an_error() {
    let said = writes("plain", &[("BOWLINE_LOG", "loud")]).concat();
    assert!(said.contains("BOWLINE_LOG=\"loud\"") && said.contains("expected off"), "{said}");
}

fn more_and_off() {
    let said = writes("plain", &[("BOWLINE_LOG", "off"), ("BOWLINE_TRANSPROT", "tcp")]).concat();
    assert!(!said.contains("TRANSPROT") && !said.contains("own"), "{said}");
    let said = writes("plain", &[("BOWLINE_LOG", "user=debug")]);
    assert!(
        said.contains(&" WARN rank 0 user: a word of the program's own\n".to_owned()),
        "{said:?}"
    );
    let nowhere = ("XDG_CACHE_HOME", "/proc/nobody");
    for (filter, expected) in [("debug", 1), ("info", 0), ("off,bowline::costs=debug", 1)] {
        let said = writes("plain", &[("BOWLINE_LOG", filter), nowhere]).concat();
        let events = said.matches("DEBUG rank 0 bowline::costs: costs cannot be remembered");
        assert_eq!(events.count(), expected, "{filter}: {said}");
    }
    let said = writes("no_log", &[("BOWLINE_TRANSPROT", "tcp")]).concat();
    assert!(!said.contains("TRANSPROT") && !said.contains("own"), "{said}");
    writes("late", &[]);
}

fn a_log_of_its_own() {
    let said = writes("own_log", &[("BOWLINE_TRANSPROT", "tcp")]).concat();
    assert!(said.contains("own:bowline::stack") && said.contains("own:user"), "{said}");
    assert!(!said.contains("WARN"), "{said}");
}
