//! What a rank's worker did, told at its end: which protocol carried how many messages. Nothing is counted
//! for it that is not counted anyway.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};

use bowline_base::config::{Config, Setting};
use bowline_ucp::{Counters, Worker};

use crate::stack::StackError;

bowline_base::settings! {
    /// Settings of reports.
    pub const SETTINGS = [
        /// Where each rank says at its end which protocol carried how many of its messages and one-sided operations: stderr, or a file to append to. Empty: nowhere.
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
    worker.at_end(Box::new(move |counters| {
        if let Err(error) = write(to.trim(), &text(rank, counters)) {
            tracing::warn!(
                %error,
                "cannot write to {to:?}; BOWLINE_REPORT names stderr, or a file that can be appended to"
            );
        }
    }));
}

/// A line for each protocol that carried something: the rank, the side that counts, the protocol, how
/// many.
fn text(rank: u32, counters: &Counters) -> String {
    let used = counters.protocols();
    if used.is_empty() {
        return format!("rank {rank:<6} nothing\n");
    }
    let mut text = String::new();
    for line in used {
        let (side, protocol, count) = (line.side, line.protocol, line.count);
        // Writing to a string does not fail.
        let _ = writeln!(text, "rank {rank:<6} {side:<10} {protocol:<14} {count}");
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
            ..Counters::default()
        };
        let expected = "rank 3      sent       eager/short    5\n\
                        rank 3      sent       rndv           4\n\
                        rank 3      received   rndv/get       4\n\
                        rank 3      received   rndv/shared    1\n\
                        rank 3      received   rndv/mapped    2\n\
                        rank 3      one-sided  atomic/native  9\n";
        assert_eq!(text(3, &counters), expected);
        assert_eq!(text(0, &Counters::default()), "rank 0      nothing\n");
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
