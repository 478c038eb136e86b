//! What a job's report (`BOWLINE_REPORT`) says of its messages, and whether figures of announced messages are such.
//! How jobs are run is not known here.

use anyhow::{Context, Result, bail, ensure};

/// The protocols of messages that are written to receives of which their senders knew: announced ones, and ones from any source
/// that are lent.
const ANNOUNCED: [&str; 2] = ["rndv/rtr", "rndv/any"];

/// Share of announced messages below which figures are not theirs. A window of 64 has an answer without bytes, which is
/// never announced, and the first messages of a job are not.
const LEAST: f64 = 0.9;

/// How many messages the ranks of a job have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    announced: u64,
    all: u64,
}

impl Sent {
    /// Adds up what both ranks of a pair have sent.
    ///
    /// # Errors
    /// When something is not a line of a report, or one of the ranks has sent nothing.
    pub(super) fn of(report: &str) -> Result<Self> {
        let by_rank = by_rank(report, 2)?;
        if let Some(silent) = by_rank.iter().position(|sent| sent.all == 0) {
            bail!("rank {silent} has reported no message that it sent");
        }
        Ok(Self::sum(by_rank))
    }

    /// Adds up what all ranks of a job have sent, of which some may only receive.
    ///
    /// # Errors
    /// When something is not a line of a report, or nobody has sent anything.
    pub(super) fn of_job(report: &str, ranks: u32) -> Result<Self> {
        let sent = Self::sum(by_rank(report, ranks)?);
        ensure!(sent.all > 0, "no rank has reported a message that it sent");
        Ok(sent)
    }

    fn sum(by_rank: Vec<Self>) -> Self {
        by_rank.into_iter().fold(Self::NONE, |sum, one| Self {
            announced: sum.announced + one.announced,
            all: sum.all + one.all,
        })
    }

    const NONE: Self = Self { announced: 0, all: 0 };

    pub(super) const fn announced_share(self) -> f64 {
        self.announced as f64 / self.all as f64
    }
}

/// What each of `ranks` ranks has sent.
fn by_rank(report: &str, ranks: u32) -> Result<Vec<Sent>> {
    let mut by_rank = vec![Sent::NONE; ranks as usize];
    for line in report.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (rank, protocol, count) = match words[..] {
            ["rank", rank, "sent", protocol, count] => (rank, protocol, count),
            ["rank", _, "received" | "one-sided" | "matching" | "measured" | "nothing", ..] => {
                continue;
            }
            _ => bail!("{line:?} is no line of a report"),
        };
        let damaged = || format!("{line:?} is no line of the report of {ranks} ranks");
        let rank: usize = rank.parse().with_context(damaged)?;
        let count: u64 = count.parse().with_context(damaged)?;
        let sent = by_rank.get_mut(rank).with_context(damaged)?;
        sent.all += count;
        if ANNOUNCED.contains(&protocol) {
            sent.announced += count;
        }
    }
    Ok(by_rank)
}

/// Refuses eager figures of which messages were announced.
///
/// # Errors
/// When one was.
pub(super) fn check_eager(sent: Sent) -> Result<()> {
    let Sent { announced, all } = sent;
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
    fn ranks_of_a_job_may_only_receive() {
        let report = "rank 0 received rndv/any 7\nrank 1 sent rndv/any 6\nrank 1 sent eager/short 2\n\
                      rank 2 sent rndv/rtr 3\nrank 2 sent eager/short 1\n";
        assert_eq!(Sent::of_job(report, 3).unwrap(), Sent { announced: 9, all: 12 });
        assert!(
            Sent::of_job(report, 2).unwrap_err().to_string().contains("rank 2 sent rndv/rtr 3")
        );
        assert!(Sent::of_job("rank 0 received rndv/any 7\n", 2).is_err());
        assert!(Sent::of_job("", 2).is_err());
    }

    #[test]
    fn eager_messages_are_not_announced() {
        let of = |report: &str| check_eager(Sent::of(report).unwrap());
        of("rank 0 sent eager/short 3\nrank 1 sent eager/bcopy 4\n").unwrap();
        let error = of(REPORT).unwrap_err().to_string();
        assert!(error.contains("864 of 900"), "{error}");
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
