//! What a rank's worker did, shown at its end: which protocol carried how many messages, and how often matching has
//! grown an index. Nothing is counted for it that is not counted anyway.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};

use bowline_base::config::{Config, Setting};
use bowline_ucp::{Counters, MeansEstimate, MeansReason, Worker};

use crate::error::StackError;

bowline_base::settings! {
    /// Settings of reports.
    pub const SETTINGS = [
        /// Where each rank says at its end which protocol carried how many of its messages and one-sided operations, and how often matching has grown an index: stderr, or a file to append to. Empty: nowhere.
        pub REPORT: String = Setting::<String>::text("BOWLINE_REPORT", "")
            .cost("a few lines of each rank, at its end")
            .change("to see whether what `bowline explain` predicts is what a program uses");
    ];
}

/// Finds out whether reports can be written where they are to go, before anything is done for them.
pub(crate) fn check(config: &Config) -> Result<(), StackError> {
    let path = config.get(REPORT).trim().to_owned();
    if path.is_empty() || path == "stderr" {
        return Ok(());
    }
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    opened.map(drop).map_err(|source| StackError::Report { path, source })
}

/// Has a worker report at its end, if that is wanted.
pub(crate) fn attend(worker: &Worker, rank: u32, config: &Config) {
    let to = config.get(REPORT);
    if to.trim().is_empty() {
        return;
    }
    worker.at_end(Box::new(move |counters, estimates| {
        let text = text(rank, counters) + &measured(rank, estimates);
        if let Err(error) = write(to.trim(), &text) {
            tracing::warn!(
                %error,
                "cannot write to {to:?}; BOWLINE_REPORT names stderr, or a file that can be appended to"
            );
        }
    }));
}

/// A line for each protocol that carried something: the rank, the side that counts, the protocol, how
/// many; and one for the indexes that matching has grown, where it has.
fn text(rank: u32, counters: &Counters) -> String {
    let used = counters.protocols().into_iter().map(|line| (line.side, line.protocol, line.count));
    let grown = Some(("matching", "index", counters.index_grown)).filter(|grown| grown.2 > 0);
    let mut text = String::new();
    for (side, what, count) in used.chain(grown) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "rank {rank:<6} {side:<10} {what:<14} {count}");
    }
    if text.is_empty() {
        return format!("rank {rank:<6} nothing\n");
    }
    text
}

/// A line for each means by which long messages could come, of each class of which there were some: from which rank, the kind of message,
/// single ones or windows, of memory that was used before or fresh, the shortest messages of the class, how many came by it, what 1024 bytes took,
/// how many of the class came by others since, and why the next one comes by it or does not.
fn measured(rank: u32, estimates: &[(u32, MeansEstimate)]) -> String {
    let mut text = String::new();
    for (from, estimate) in estimates {
        let MeansEstimate { protocol, nanoseconds, count, age, .. } = *estimate;
        let window = if estimate.window { "window" } else { "single" };
        let fresh = if estimate.fresh { ", fresh" } else { "" };
        let class =
            format!("{}, {window}{fresh}, {} KB", estimate.kind.name(), estimate.from >> 10);
        let price = match count {
            0 => "not tried".to_owned(),
            _ => format!("{nanoseconds:.1} ns for 1024 bytes, {age} messages ago"),
        };
        let why = match estimate.reason {
            MeansReason::Predicted => "in use: predicted".to_owned(),
            MeansReason::Cheapest => "in use: cheapest".to_owned(),
            MeansReason::OnTrial => "on trial".to_owned(),
            MeansReason::TriedIn(messages) => format!("tried in some {messages} messages"),
            MeansReason::Later => "tried later".to_owned(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "rank {rank:<6} measured   {protocol:<14} {count:<8} from rank {from}, {class}: {price}; {why}"
        );
    }
    text
}

/// In one write, so that ranks that end at the same time do not mix their lines.
fn write(to: &str, text: &str) -> io::Result<()> {
    if to == "stderr" {
        return io::stderr().lock().write_all(text.as_bytes());
    }
    OpenOptions::new().append(true).create(true).open(to)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_ucp::MessageKind;

    #[test]
    fn what_was_used_is_named() {
        let counters = Counters {
            sent_short: 3,
            am_short: 2,
            sent_rndv: 4,
            fetched: 7,
            mapped: 2,
            shared: 1,
            atomics: 9,
            index_grown: 5,
            ..Counters::default()
        };
        let expected = "rank 3      sent       eager/short    5\n\
                        rank 3      sent       rndv           4\n\
                        rank 3      received   rndv/get       4\n\
                        rank 3      received   rndv/shared    1\n\
                        rank 3      received   rndv/mapped    2\n\
                        rank 3      one-sided  atomic/native  9\n\
                        rank 3      matching   index          5\n";
        assert_eq!(text(3, &counters), expected);
        assert_eq!(text(0, &Counters::default()), "rank 0      nothing\n");
    }

    #[test]
    fn what_was_measured_is_shown() {
        let estimate = MeansEstimate {
            kind: MessageKind::Active,
            from: 65536,
            window: true,
            fresh: true,
            protocol: "rndv/get",
            nanoseconds: 130.04,
            count: 12,
            age: 3,
            used: true,
            reason: MeansReason::Cheapest,
        };
        let other = MeansEstimate {
            kind: MessageKind::Tagged,
            window: false,
            fresh: false,
            protocol: "eager/multi",
            count: 0,
            used: false,
            reason: MeansReason::TriedIn(40),
            ..estimate
        };
        let expected = "\
rank 1      measured   rndv/get       12       from rank 0, active, window, fresh, 64 KB: 130.0 ns for 1024 bytes, 3 messages ago; in use: cheapest
rank 1      measured   eager/multi    0        from rank 2, tagged, single, 64 KB: not tried; tried in some 40 messages
";
        assert_eq!(measured(1, &[(0, estimate), (2, other)]), expected);
    }

    #[test]
    fn reports_are_appended_and_a_bad_place_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("report");
        let path = file.to_str().unwrap();
        write(path, "one\n").unwrap();
        write(path, "two\n").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
        assert!(write(directory.path().to_str().unwrap(), "three\n").is_err());
        let below = directory.path().join("missing/report");
        for wrong in [directory.path(), &below] {
            let mut config = Config::defaults(crate::stack::SETTINGS);
            config.set_text("BOWLINE_REPORT", wrong.to_str().unwrap()).unwrap();
            let error = crate::stack::check(&config).unwrap_err().to_string();
            assert!(error.contains("BOWLINE_REPORT") && error.contains("cannot"), "{error}");
        }
        let mut config = Config::defaults(crate::stack::SETTINGS);
        config.set_text("BOWLINE_REPORT", path).unwrap();
        check(&config).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
    }
}
