//! Quotients, published figures and shares of announced messages, of figures and reports that are made up.

use super::*;

fn ran(run: Run, ns: f64) -> Ran {
    let figure = |size: u64| format!(r#"{{"size":{size},"median_ns":{ns},"test":"x"}}"#);
    let figures = format!("[{}]", run.sizes().map(figure).join(","));
    let report = match run.manner {
        Some(Manner::ReceiverInitiated) => reported(95),
        _ => reported(0),
    };
    Ran { run, figures, report }
}

/// The report of a job that has announced so many of 100 messages.
fn reported(announced: u32) -> String {
    let eager = 99 - announced;
    format!(
        "rank 0 sent eager/short 1\nrank 1 sent eager/bcopy {eager}\nrank 1 sent rndv/rtr {announced}\n"
    )
}

/// Rounds in which each run takes as long.
fn rounds(count: usize) -> Said {
    vec![RUNS.map(|run| ran(run, 100.0)).to_vec(); count]
}

#[test]
fn the_round_with_the_fewest_announced_messages_counts() {
    let mut said = rounds(3);
    let windows = Run { manner: Some(Manner::ReceiverInitiated), windows: true };
    let at = RUNS.iter().position(|run| *run == windows).unwrap();
    said[1][at].report = reported(89);
    let rows = rows(Network::Shm, &said).unwrap();
    for row in &rows {
        assert_eq!(row.announced_share, if row.windows { 0.89 } else { 0.95 });
        assert_eq!(row.verdict(), if row.windows { "  [not announced]" } else { "" });
    }
    let missed = Row { receiver_initiated_by_put: 2.0 * GOAL, ..rows[0].clone() };
    assert_eq!(missed.verdict(), "  [missed]");
    let others = Row { announced_share: 0.5, ..missed };
    assert_eq!(others.verdict(), "  [not announced]");
}

#[test]
fn eager_messages_that_were_announced_and_reports_that_lack_are_refused() {
    for (manner, report) in [
        (Manner::Eager, reported(1)),
        (Manner::Eager, String::new()),
        (Manner::ReceiverInitiated, String::new()),
    ] {
        for windows in [false, true] {
            let mut said = rounds(2);
            let wanted = Run { manner: Some(manner), windows };
            let found = said[1].iter_mut().find(|ran| ran.run == wanted).unwrap();
            found.report.clone_from(&report);
            let error = format!("{:#}", rows(Network::Shm, &said).unwrap_err());
            assert!(error.contains(wanted.test()), "{error}");
        }
    }
    // Puts send what they like.
    let mut said = rounds(1);
    said[0][0].report.clear();
    rows(Network::Shm, &said).unwrap();
}

/// The published rates are those of the published times, but for rounding.
#[test]
fn published_figures_agree_with_each_other() {
    assert_eq!(PUBLISHED.map(|published| published.bytes), SIZES);
    for Published { bytes, mpin_us, lam_us, mpin_mb_per_s, lam_mb_per_s, .. } in PUBLISHED {
        for (us, mb_per_s) in [(mpin_us, mpin_mb_per_s), (lam_us, lam_mb_per_s)] {
            let most = bytes as f64 / us;
            assert!((most - mb_per_s).abs() < most * 0.2, "{bytes} bytes: {most}, {mb_per_s}");
        }
    }
}

#[test]
fn quotients_are_taken_within_a_round() {
    // In the second round everything takes ten times as long.
    let round = |times: f64| -> Vec<_> {
        let ns = |run: Run| match run.manner {
            None => 100.0 * times,
            Some(Manner::Eager) => 150.0 * times,
            Some(Manner::ReceiverInitiated | Manner::Flags) => 225.0 * times,
        };
        RUNS.into_iter().map(|run| ran(run, ns(run))).collect()
    };
    let rows = rows(Network::Shm, &vec![round(1.0), round(10.0), round(1.0)]).unwrap();
    assert_eq!(rows.len(), 2 * SIZES.len());
    for row in &rows {
        assert_eq!((row.eager_by_put, row.receiver_initiated_by_put), (1.5, 2.25));
        assert_eq!((row.put_ns, row.eager_ns), (100.0, 150.0));
    }
    let published = rows[0].published_by_put.unwrap();
    assert!((published - 2.25).abs() < 0.01, "{published}");
    assert_eq!(rows[SIZES.len()].published_by_put, None, "that is of one message");
}

#[test]
fn a_put_has_at_least_a_word_and_other_sizes_are_refused() {
    let put = RUNS[0];
    assert_eq!(put.sizes()[..2], [8, 64]);
    assert_eq!(RUNS[1].sizes(), SIZES);
    assert!(times(put, &ran(RUNS[1], 1.0).figures).is_err());
    assert!(times(put, "nothing").is_err());
}
