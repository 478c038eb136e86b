//! What a job's report (`BOWLINE_REPORT`) says of its messages, and whether figures of announced messages are such.
//! How jobs are run is not known here.

use anyhow::{Context, Result, bail, ensure};

/// The protocol of messages that are written to announced receives.
const ANNOUNCED: &str = "rndv/rtr";

/// Share of announced messages below which figures are not theirs. A window of 64 has an answer without bytes, which is
/// never announced, and the first messages of a job are not.
const LEAST: f64 = 0.9;

/// How many messages the two ranks of a job have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    announced: u64,
    all: u64,
}

impl Sent {
    /// Adds up what both ranks have sent.
    ///
    /// # Errors
    /// When something is not a line of a report, or one of the ranks has sent nothing.
    pub(super) fn of(report: &str) -> Result<Self> {
        let mut announced = 0;
        let mut by_rank = [0_u64; 2];
        for line in report.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (rank, protocol, count) = match words[..] {
                ["rank", rank, "sent", protocol, count] => (rank, protocol, count),
                ["rank", _, "received" | "one-sided" | "matching" | "measured" | "nothing", ..] => {
                    continue;
                }
                _ => bail!("{line:?} is no line of a report"),
            };
            let damaged = || format!("{line:?} is no line of the report of two ranks");
            let rank: usize = rank.parse().with_context(damaged)?;
            let count: u64 = count.parse().with_context(damaged)?;
            *by_rank.get_mut(rank).with_context(damaged)? += count;
            if protocol == ANNOUNCED {
                announced += count;
            }
        }
        if let Some(silent) = by_rank.iter().position(|&count| count == 0) {
            bail!("rank {silent} has reported no message that it sent");
        }
        Ok(Self { announced, all: by_rank.iter().sum() })
    }

    pub(super) const fn announced_share(self) -> f64 {
        self.announced as f64 / self.all as f64
    }
}

/// Refuses eager figures of which messages were announced.
///
/// # Errors
/// When one was, or the report says nothing.
pub(super) fn check_eager(report: &str) -> Result<()> {
    let Sent { announced, all } = Sent::of(report)?;
    ensure!(announced == 0, "{announced} of {all} messages that should be eager were announced");
    Ok(())
}

/// Whether figures with this share of announced messages are of such.
pub(super) const fn is_announced(share: f64) -> bool {
    share >= LEAST
}

/// The lines under a table: the share of announced messages, and that its figures are of others where it is small.
pub(super) fn lines(share: f64, what: &str) -> String {
    // Rounded down, so that no share that is too small looks large enough.
    let percent = |share: f64| (share * 100.0).floor();
    let mut lines = format!("announced: {:.0} % of the messages {what}\n", percent(share));
    if !is_announced(share) {
        lines.push_str(&format!(
            "the figures of rtr {what} are not of announced messages: less than {:.0} % were\n",
            percent(LEAST)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
rank 1      sent       eager/bcopy    6
rank 1      sent       rndv/rtr       444
rank 1      received   rndv/get       7
rank 1      one-sided  by the owner   8
rank 0      sent       eager/short    10
rank 0      sent       rndv           20
rank 0      sent       rndv/rtr       420
rank 0      matching   index          2
rank 0      measured   rndv/get       12       from rank 1, tagged, single, 16 KB: 130.0 ns for 1024 bytes, 3 messages ago; in use: cheapest
";

    #[test]
    fn messages_of_both_ranks_are_added_up() {
        let sent = Sent::of(REPORT).unwrap();
        assert_eq!(sent, Sent { announced: 864, all: 900 });
        assert_eq!(sent.announced_share(), 0.96);
        // Workers of several sizes report one after the other.
        let twice = Sent::of(&REPORT.repeat(2)).unwrap();
        assert_eq!(twice, Sent { announced: 1728, all: 1800 });
    }

    #[test]
    fn what_is_no_report_of_two_ranks_is_an_error() {
        let error = |report: &str| Sent::of(report).unwrap_err().to_string();
        assert!(error("").contains("rank 0 has reported no message"));
        assert!(error("rank 0 sent rndv/rtr 5\nrank 1 nothing\n").contains("rank 1"));
        for damaged in ["rank 2 sent rndv/rtr 5", "rank 0 sent rndv/rtr", "rank x sent rndv/rtr 5"]
        {
            assert!(error(damaged).contains(damaged), "{damaged}");
        }
        assert!(error("rank 0 sent rndv/rtr some").contains("some"));
        assert!(error("bowline: a warning").contains("a warning"));
    }

    #[test]
    fn eager_messages_are_not_announced() {
        check_eager("rank 0 sent eager/short 3\nrank 1 sent eager/bcopy 4\n").unwrap();
        let error = check_eager(REPORT).unwrap_err().to_string();
        assert!(error.contains("864 of 900"), "{error}");
        assert!(check_eager("").is_err());
    }

    #[test]
    fn a_small_share_is_said_plainly() {
        assert_eq!(lines(0.989, "one way"), "announced: 98 % of the messages one way\n");
        let lines = lines(0.8999, "in windows");
        assert!(lines.starts_with("announced: 89 % of the messages in windows\n"), "{lines}");
        assert!(
            lines.contains("in windows are not of announced messages: less than 90 %"),
            "{lines}"
        );
        assert!(is_announced(0.9) && !is_announced(0.8999));
    }
}
