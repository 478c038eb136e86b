//! The part of `bowline explain` about what was measured: what a receiver's worker knows of the means by
//! which long messages came, after some were sent. It measures nothing itself.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use bowline::ucp::{
    Envelope, Ep, MatchSpec, MeansEstimate, MeansReason, MessageKind, SendMode, Sent, Worker,
};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::show_bytes;
use serde::{Deserialize, Serialize};

/// What a receiver measured of one means, for messages of one class.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Estimate {
    operation: String,
    /// The shortest messages of the class, in bytes; the longest are less than twice as long.
    from: u64,
    /// Of windows, else of messages that are waited for one by one.
    window: bool,
    /// Of memory that its sender has not used just before.
    fresh: bool,
    /// They came before their receives.
    unexpected: bool,
    protocol: String,
    /// Nanoseconds for 1024 bytes; none for one that was not tried.
    ns_per_kib: Option<f64>,
    /// Messages that came by it.
    count: u32,
    /// Messages of the class since the last one; none for one that was not tried.
    age: Option<u32>,
    used: bool,
    /// Why the next one comes by it, or does not.
    reason: String,
}

impl Estimate {
    fn of(estimate: &MeansEstimate) -> Self {
        let tried = estimate.count > 0;
        let reason = match estimate.reason {
            MeansReason::Predicted => "predicted to be the cheapest".to_owned(),
            MeansReason::Cheapest => "the cheapest".to_owned(),
            MeansReason::OnTrial => "on trial".to_owned(),
            MeansReason::TriedIn(messages) => format!("tried in some {messages} messages"),
            MeansReason::Later => "tried later".to_owned(),
        };
        Self {
            operation: estimate.kind.op().name().to_owned(),
            from: estimate.from,
            window: estimate.window,
            fresh: estimate.fresh,
            unexpected: estimate.kind == MessageKind::Unexpected,
            protocol: estimate.protocol.to_owned(),
            ns_per_kib: tried.then_some(estimate.nanoseconds),
            count: estimate.count,
            age: tried.then_some(estimate.age),
            used: estimate.used,
            reason,
        }
    }

    /// Whether the other one is of the same class.
    fn is_beside(&self, other: &Self) -> bool {
        let key = |e: &Self| (e.operation.clone(), e.from, e.window, e.fresh, e.unexpected);
        key(self) == key(other)
    }
}

/// Estimates as a person reads them; `peer` is the receiver.
pub(super) fn text(estimates: &[Estimate], peer: u32, out: &mut String) -> std::fmt::Result {
    if estimates.is_empty() {
        return writeln!(
            out,
            "  rank {peer} measured nothing: messages shorter than 64 KB are not, nor are any where ranks share \
             processors, where a threshold of eager messages, a scheme or BOWLINE_SELECT=static is set, and on networks"
        );
    }
    writeln!(out, "  what rank {peer} measured, as BOWLINE_REPORT shows it of a program")?;
    let mut before: Option<&Estimate> = None;
    for estimate in estimates {
        if before.is_none_or(|before| !estimate.is_beside(before)) {
            let window = if estimate.window { "in windows" } else { "one by one" };
            let fresh = if estimate.fresh { ", of fresh memory" } else { "" };
            let unexpected = if estimate.unexpected { ", before their receives" } else { "" };
            let Estimate { operation, from, .. } = estimate;
            let from = show_bytes(*from);
            writeln!(out, "    {operation} from {from}, {window}{fresh}{unexpected}")?;
        }
        before = Some(estimate);
        let Estimate { protocol, count, reason, .. } = estimate;
        let mark = if estimate.used { '+' } else { '-' };
        let price = match (estimate.ns_per_kib, estimate.age) {
            (Some(ns), Some(0)) => format!("{ns:.1} ns for 1 KB, the last one"),
            (Some(ns), Some(age)) => format!("{ns:.1} ns for 1 KB, {age} messages ago"),
            _ => "not tried".to_owned(),
        };
        writeln!(out, "      {mark} {protocol:<12} {count:>8} messages, {price}; {reason}")?;
    }
    Ok(())
}

/// Where they go.
const TAG: u64 = 4;

/// Bytes of all estimates of a peer, at most: six means of each of 36 choices for each of four kinds of messages.
const LONGEST: usize = 1 << 18;

/// The receiver's part: reports to the sender what was measured of its messages.
///
/// # Errors
/// When the sender has gone.
pub(super) fn report(worker: &Worker, ep: Ep, own: u32) -> Result<()> {
    let all: Vec<Estimate> = worker.estimates(ep)?.iter().map(Estimate::of).collect();
    let text = serde_json::to_vec(&all)?;
    ensure!(text.len() <= LONGEST, "{} bytes of estimates are too many", text.len());
    let envelope = Envelope { space: 0, source: own, tag: TAG };
    let sent = worker.send(ep, envelope, SendBuf::owned(text), SendMode::Standard)?;
    if let Sent::Pending(id) = sent {
        worker.wait(id).outcome?;
    }
    Ok(())
}

/// The sender's part.
///
/// # Errors
/// When the peer has gone, or what it sent is damaged.
pub(super) fn receive(worker: &Worker, peer: u32) -> Result<Vec<Estimate>> {
    let spec = MatchSpec { space: 0, source: Some(peer), tag: TAG, tag_mask: u64::MAX };
    let id = worker.recv(spec, RecvBuf::owned(vec![0; LONGEST]))?;
    worker.wait_until(|| worker.is_complete(id));
    let (status, bytes) = worker.take_with_buffer(id).context("the request is gone")?;
    status.outcome?;
    let bytes = bytes.context("a request that owned its buffer came back without it")?;
    serde_json::from_slice(&bytes[..status.length as usize]).context("a peer's answer is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_headings_and_means_are_lines() {
        let used = MeansEstimate {
            kind: MessageKind::Tagged,
            from: 65536,
            window: false,
            fresh: false,
            protocol: "eager/multi",
            nanoseconds: 60.04,
            count: 812,
            age: 0,
            used: true,
            reason: MeansReason::Cheapest,
        };
        let other = MeansEstimate {
            protocol: "rndv/get",
            count: 0,
            used: false,
            reason: MeansReason::TriedIn(40),
            ..used
        };
        let window = MeansEstimate { window: true, fresh: true, age: 3, ..used };
        let late = MeansEstimate { kind: MessageKind::Unexpected, ..used };
        let all: Vec<Estimate> = [used, other, window, late].iter().map(Estimate::of).collect();
        let mut out = String::new();
        text(&all, 1, &mut out).unwrap();
        let expected = "\
\x20 what rank 1 measured, as BOWLINE_REPORT shows it of a program
    tag_send from 64k, one by one
      + eager/multi       812 messages, 60.0 ns for 1 KB, the last one; the cheapest
      - rndv/get            0 messages, not tried; tried in some 40 messages
    tag_send from 64k, in windows, of fresh memory
      + eager/multi       812 messages, 60.0 ns for 1 KB, 3 messages ago; the cheapest
    tag_send from 64k, one by one, before their receives
      + eager/multi       812 messages, 60.0 ns for 1 KB, the last one; the cheapest
";
        assert_eq!(out, expected);
        let json = serde_json::to_value(&all[1]).unwrap();
        assert!(json["ns_per_kib"].is_null() && json["age"].is_null(), "{json}");
    }

    #[test]
    fn all_estimates_of_a_peer_fit_into_a_message() {
        let longest = MeansEstimate {
            kind: MessageKind::Stream,
            from: 4 << 20,
            window: false,
            fresh: false,
            protocol: "eager/multi",
            nanoseconds: f64::from(u32::MAX) * 1.024e-3,
            count: u32::MAX,
            age: u32::MAX,
            used: false,
            reason: MeansReason::TriedIn(u32::MAX),
        };
        let text = serde_json::to_vec(&Estimate::of(&longest)).unwrap();
        assert!((text.len() + 1) * 6 * 36 * 4 < LONGEST, "{} bytes each", text.len());
    }

    #[test]
    fn why_nothing_was_measured_is_said() {
        let mut out = String::new();
        text(&[], 1, &mut out).unwrap();
        assert!(out.contains("measured nothing") && out.contains("BOWLINE_SELECT"), "{out}");
    }
}
