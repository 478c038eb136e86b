//! The bound on what trials take where messages come in windows, in virtual time: when each message is whole, beside a pair that
//! goes by known costs; and that their choice follows what costs become. Not the rules themselves, which `src/select/tests.rs` has.

use super::*;

/// How many messages are sent before the first one is waited for, and whether their receives are posted when a short
/// message behind them has come.
#[derive(Clone, Copy)]
struct Window {
    messages: usize,
    late: bool,
}

impl Pair {
    /// A window of messages of 64 KB, which rank 1 answers. Adds to `ends` when one of them was whole, two, and so on. `copied`: what has
    /// waited is copied, which takes time.
    fn window(&self, kind: MessageKind, window: Window, copied: bool, ends: &mut Vec<u64>) {
        let [sender, receiver] = &self.workers;
        let behind = window.late.then(|| {
            let short = MatchSpec { tag: 1, tag_mask: u64::MAX, ..ANY };
            receiver.recv(short, RecvBuf::owned(vec![0])).expect("posted")
        });
        let all = || self.received.lock().expect("one thread").clone();
        let receive = |_: &usize| {
            if copied {
                let request = self.receive_copied();
                self.received.lock().expect("one thread").push(request);
                return false;
            }
            self.receive(kind, LEN)
        };
        let post = || (0..window.messages).filter(receive).count();
        let mut at_once = if window.late { 0 } else { post() };
        let mut sent = Vec::new();
        for &memory in &self.memory[..window.messages] {
            // SAFETY: as in `transfer`.
            let buffer = unsafe { SendBuf::borrowed(memory, LEN) };
            sent.extend(self.send(0, kind, buffer));
        }
        if let Some(behind) = behind {
            let envelope = Envelope { space: 0, source: 0, tag: 1 };
            let buffer = SendBuf::owned(vec![1]);
            let last = sender.send(self.eps[0], envelope, buffer, SendMode::Standard);
            if let Sent::Pending(id) = last.expect("sent") {
                sent.push(id);
            }
            self.until(|| receiver.is_complete(behind));
            assert_eq!(receiver.wait(behind).length, 1);
            at_once = post();
        }
        for whole in 1..=window.messages {
            let complete = || all().iter().filter(|&&id| receiver.is_complete(id)).count();
            self.until(|| at_once + complete() >= whole);
            ends.push(self.network.now());
        }
        self.until(|| sent.iter().all(|&id| sender.is_complete(id)));
        sent.into_iter().for_each(|id| assert_eq!(sender.wait(id).outcome, Ok(())));
        for id in std::mem::take(&mut *self.received.lock().expect("one thread")) {
            let status = receiver.wait(id);
            assert_eq!((status.outcome, status.length), (Ok(()), LEN as u64));
        }
        self.answer();
    }
}

/// Rule 1 as a user sees it, at the end of each message: beside known costs, which are right here, trials cost a fiftieth of the time and one message, and those
/// more that its sender had sent already, which are the others of the window. `kinds`: early and late receives have trials of their own.
#[track_caller]
fn bounded(kind: MessageKind, (costs, copied): ((u64, u64), bool), windows: &[Window], kinds: u64) {
    let (measured, known) = (Pair::new(costs, "measured"), Pair::new(costs, "static"));
    let messages = windows[0].messages as u64;
    let copy = if copied { COPY } else { 0 };
    let ahead = kinds * messages * ((costs.0 + copy) * LEN as u64 / 1000 + 500);
    let mut number = 0;
    for &window in windows {
        let (mut took, mut least) = (Vec::new(), Vec::new());
        measured.window(kind, window, copied, &mut took);
        known.window(kind, window, copied, &mut least);
        for (took, least) in took.into_iter().zip(least) {
            number += 1;
            assert!(
                took <= least + took / 50 + ahead,
                "{kind:?}, {costs:?}, windows of {messages}: message {number} at {took} ns in place of {least}"
            );
        }
    }
    let all = measured.workers[1].estimates(measured.eps[1]).expect("an endpoint");
    let tried = all.iter().filter(|e| e.window == (messages > 1) && !e.used && e.count > 0);
    assert!(tried.count() > 0, "{kind:?}, {costs:?}, windows of {messages}: nothing was tried");
}

/// Picoseconds for a byte by copies, where reads take 50, and how many messages there are.
const DEARER: [(u64, usize); 3] = [(75, 1000), (500, 500), (4000, 500)];

#[test]
fn trials_in_windows_cost_a_fiftieth_of_the_traffic() {
    for ((byte, count), messages) in DEARER.into_iter().flat_map(|of| [4, 16].map(|n| (of, n))) {
        let windows = vec![Window { messages, late: false }; count / messages];
        for kind in KINDS {
            bounded(kind, ((byte, 50), false), &windows, 1);
        }
    }
}

/// Always late, and every window or every third one.
#[test]
fn trials_in_windows_cost_a_fiftieth_of_the_traffic_where_receives_are_late() {
    for ((byte, count), messages) in DEARER.into_iter().flat_map(|of| [4, 16].map(|n| (of, n))) {
        for (copied, turn) in [false, true].into_iter().flat_map(|of| [0, 1, 3].map(|n| (of, n))) {
            let late = |nth: usize| turn == 0 || (nth / turn).is_multiple_of(2);
            let windows = (0..count / messages).map(|nth| Window { messages, late: late(nth) });
            let windows: Vec<Window> = windows.collect();
            let kinds = if turn == 0 { 1 } else { 2 };
            bounded(MessageKind::Tagged, ((byte, 50), copied), &windows, kinds);
        }
    }
}

/// Sends of streams that come in pieces before their receive, or behind what is being read, are copied once more, which is not timed (rule 7).
#[test]
fn trials_cost_a_fiftieth_of_a_stream_whose_receives_are_late() {
    for ((byte, count), messages) in DEARER.into_iter().flat_map(|of| [1, 4].map(|n| (of, n))) {
        for turn in [0, 1, 3] {
            let late = |nth: usize| turn == 0 || (nth / turn).is_multiple_of(2);
            let windows = (0..count / messages).map(|nth| Window { messages, late: late(nth) });
            let windows: Vec<Window> = windows.collect();
            bounded(MessageKind::Stream, ((byte, 50), false), &windows, 1);
        }
    }
}

/// The processors are moved apart, together and apart again: some hundred messages later those of windows travel as is best there.
#[test]
fn the_choice_of_windows_follows_the_costs() {
    for kind in KINDS {
        let pair = Pair::new(NEAR, "measured");
        // Of four memories in turn none is fresh.
        let windows = |count| {
            for _ in 0..count {
                pair.window(kind, Window { messages: 4, late: false }, false, &mut Vec::new());
            }
        };
        windows(150);
        for costs in [NEAR, FAR, NEAR, FAR] {
            pair.set(costs);
            windows(125);
            assert_eq!(pair.copies(kind, true, false), costs == NEAR, "{kind:?}, {costs:?}");
            let before = pair.estimates(kind, true, false);
            windows(50);
            for (after, before) in pair.estimates(kind, true, false).iter().zip(&before) {
                let came = after.count - before.count;
                assert!(
                    if after.used { came >= 135 } else { came <= 15 },
                    "{after:?}: {came} of 150"
                );
            }
        }
    }
}
