//! The choice against machines whose prices are known.

use proptest::prelude::{Just, Strategy};

use super::prevailing::Prevailing;
use super::*;

/// Nobody knows anything before.
const NO_GUESS: Guess = [0; MEANS];

/// Plays messages of `bytes` and returns what they took together, and how many came by each means.
fn play(
    choice: &mut Choice,
    messages: usize,
    bytes: u64,
    prices: &[u64],
    mut jitter: impl FnMut(usize) -> u64,
) -> (u64, Vec<usize>) {
    let able = (1u8 << prices.len()) - 1;
    let (mut total, mut counts) = (0, vec![0; prices.len()]);
    for message in 0..messages {
        let means = choice.wanted().unwrap_or(0);
        let time = prices[usize::from(means)] * bytes / 1000 + jitter(message);
        choice.note(means, able, bytes, time, (false, &NO_GUESS, None));
        total += time;
        counts[usize::from(means)] += 1;
    }
    (total, counts)
}

#[test]
fn classes_are_powers_of_two() {
    for (bytes, expected) in [
        (0, None),
        (16383, None),
        (16384, Some(0)),
        (32767, Some(0)),
        (32768, Some(1)),
        (4 << 20, Some(8)),
        (u64::MAX, Some(CLASSES - 1)),
    ] {
        assert_eq!(class(bytes), expected, "{bytes}");
    }
}

#[test]
fn the_cheapest_means_is_found_and_kept() {
    for prices in [[100, 60, 300], [60, 100, 300], [300, 100, 60]] {
        let mut choice = Choice::NEW;
        play(&mut choice, 3000, 65536, &prices, |_| 0);
        let cheapest = (0..3).min_by_key(|&means| prices[means]).unwrap();
        assert_eq!(usize::from(choice.best), cheapest, "{prices:?}");
        let (_, counts) = play(&mut choice, 10_000, 65536, &prices, |_| 0);
        assert!(counts[cheapest] > 9_500, "{prices:?}: {counts:?}");
    }
}

#[test]
fn a_change_is_followed_within_some_hundred_messages() {
    let mut choice = Choice::NEW;
    play(&mut choice, 5000, 65536, &[70, 180], |_| 0);
    assert_eq!(choice.best, 0);
    // The processors were moved apart.
    play(&mut choice, 500, 65536, &[240, 150], |_| 0);
    assert_eq!(choice.best, 1);
    play(&mut choice, 1000, 65536, &[70, 180], |_| 0);
    assert_eq!(choice.best, 0);
}

#[test]
fn static_costs_choose_until_something_was_compared() {
    let mut choice = Choice::NEW;
    choice.note(1, 0b11, 131_072, 15_000, (false, &NO_GUESS, None));
    // Its sender had no credit for the first one.
    choice.note(EAGER, 0b11, 131_072, 9_000, (false, &NO_GUESS, None));
    assert_eq!((choice.wanted(), choice.settled()), (None, Some(EAGER)));
    play(&mut choice, 2000, 131_072, &[70, 120], |_| 0);
    assert_eq!(choice.settled(), Some(EAGER));
    assert!(choice.estimates[1].count > 4, "the other was tried");
}

/// Pieces through a cache that both processors share take some 20 picoseconds for a byte.
#[test]
fn small_prices_move() {
    let mut choice = Choice::NEW;
    let took = |messages, nanoseconds, choice: &mut Choice| {
        for _ in 0..messages {
            choice.note(0, 0b1, 65536, nanoseconds, (false, &NO_GUESS, None));
        }
        taken_at(choice.estimates[0].price, 65536)
    };
    assert!(took(50, 1700, &mut choice).abs_diff(1700) <= 1);
    assert!(took(50, 1350, &mut choice).abs_diff(1350) <= 5);
}

#[test]
fn a_dear_means_that_becomes_cheap_is_found() {
    let mut choice = Choice::NEW;
    play(&mut choice, 5000, 65536, &[70, 700], |_| 0);
    let (_, counts) = play(&mut choice, 5000, 65536, &[70, 700], |_| 0);
    assert!((2..=14).contains(&counts[1]), "tried by one message or two: {counts:?}");
    play(&mut choice, 1000, 65536, &[70, 35], |_| 0);
    assert_eq!(choice.best, 1);
}

#[test]
fn short_messages_are_timed_in_runs_and_trials_always() {
    let mut choice = Choice::NEW;
    let (bytes, clock_cost) = (16384, 50);
    let (mut timed, mut longest, mut run, mut total) = (0, 0, 0, 0);
    let of = |means: u8| [2000, 3000][usize::from(means)];
    for _ in 0..20_000 {
        let means = choice.wanted().unwrap_or(0);
        let at_trial = choice.is_at_trial();
        total += of(means);
        if choice.is_timed() {
            choice.note(means, 0b11, bytes, of(means), (false, &NO_GUESS, None));
            choice.set_sampling(clock_cost, of(means));
            (timed, run) = (timed + 1, run + u64::from(!at_trial));
            longest = longest.max(run);
        } else {
            assert!(!at_trial, "a trial is timed");
            choice.pass(means, bytes);
            run = 0;
        }
    }
    // A two-hundredth, rounded up to whole messages, and the trials.
    assert!(timed * clock_cost < total / 150, "{timed} of 20000 are timed");
    assert!(longest >= u64::from(RUN), "runs of {longest}");
    let counts: u32 = choice.estimates.iter().map(|estimate| estimate.count).sum();
    assert_eq!(counts, 20_000, "those that are not timed count");
    let trials = u64::from(choice.estimates[1].count);
    assert!(trials * 1000 <= total / SHARE + 1000, "{trials} trials");
    assert!(trials > 100, "{trials} trials: the others pay, too");
    // What takes long is timed each time.
    choice.set_sampling(clock_cost, 10_000);
    assert!((0..100).all(|_| choice.is_timed()));
}

#[test]
fn what_is_predicted_to_cost_the_same_is_tried_soon_and_nothing_later_than_twice_as_dear() {
    for (predicted, soonest) in
        [(90, 50), (100, 50), (150, 100), (200, 200), (100_000, 200), (0, 200)]
    {
        let mut guess = NO_GUESS;
        (guess[0], guess[1]) = (100, predicted);
        let mut choice = Choice::NEW;
        let mut messages = 0_u32;
        while !choice.is_at_trial() {
            // Another machine than that of the predictions: only how they compare counts.
            choice.note(0, 0b11, 65536, 70 * 65536 / 1000, (false, &guess, None));
            messages += 1;
        }
        assert!(messages.abs_diff(soonest) < 5, "{predicted}: after {messages}");
        if predicted > 0 {
            assert!(tried_after(100, predicted).abs_diff(messages) < 5, "as it is explained");
        }
    }
}

#[test]
fn it_says_why() {
    let mut choice = Choice::NEW;
    let why = |choice: &Choice, means| choice.reason(means, 0b111, 65536, &NO_GUESS);
    assert_eq!(why(&choice, 0), MeansReason::Later, "no message has come");
    play(&mut choice, 10, 65536, &[70, 180, 300], |_| 0);
    assert_eq!(why(&choice, 0), MeansReason::Predicted);
    let MeansReason::TriedIn(left) = why(&choice, 1) else { panic!("{:?}", why(&choice, 1)) };
    assert_eq!(why(&choice, 2), MeansReason::Later);
    play(&mut choice, left as usize - 3, 65536, &[70, 180, 300], |_| 0);
    assert!(matches!(why(&choice, 1), MeansReason::TriedIn(1..8)), "{:?}", why(&choice, 1));
    while !choice.is_at_trial() {
        play(&mut choice, 1, 65536, &[70, 180, 300], |_| 0);
    }
    assert_eq!((why(&choice, 0), why(&choice, 1)), (MeansReason::Cheapest, MeansReason::OnTrial));
    assert_eq!(why(&choice, 2), MeansReason::Later);
}

#[test]
fn what_another_peer_has_found_is_tried_at_once_and_used_if_it_is_true() {
    for (truth, used) in [([100, 60], 1), ([100, 200], 0)] {
        let mut choice = Choice::NEW;
        let mut judged = Vec::new();
        for _ in 0..30 {
            let means = choice.wanted().unwrap_or(0);
            let time = truth[usize::from(means)] * 65536 / 1000;
            let better = choice.settled_price().filter(|&(means, _)| means == 0).map(|_| 1);
            // One that shows the contrary takes the result away.
            let better = better.filter(|_| judged.is_empty());
            judged.extend(choice.note(means, 0b11, 65536, time, (false, &NO_GUESS, better)));
        }
        let won = used == 1;
        assert_eq!(judged.len(), 1);
        assert_eq!((judged[0].of, judged[0].tried, judged[0].won), (0, 1, won));
        assert_eq!(choice.settled(), Some(used), "{truth:?} after 30 messages");
    }
}

/// Rule 7: a send of a stream that comes in pieces before its receive.
#[test]
fn what_is_not_measured_whole_ends_its_trial_and_is_paid_for() {
    for dear in [60, 500, 4000] {
        let mut choice = Choice::NEW;
        let (mut total, mut regret, mut most, mut trials) = (0, 0, 0, 0_u32);
        for _ in 0..20_000 {
            let means = choice.wanted().unwrap_or(1);
            let time = if means == EAGER { dear } else { 50 } * 65536 / 1000;
            total += time;
            if means == EAGER {
                choice.note_partly(means, 65536, time);
                assert!(!choice.is_at_trial(), "one message ends it");
                trials += 1;
                let excess = (dear - 50) * 65536 / 1000;
                (regret, most) = (regret + excess, excess);
            } else {
                choice.note(means, 0b11, 65536, time, (false, &NO_GUESS, None));
            }
            // A price is rounded.
            assert!(
                regret <= total / SHARE + most + u64::from(trials),
                "{dear}: {regret} of {total}"
            );
        }
        assert!(trials > 1, "{dear}: {trials} trials");
        assert_eq!(choice.settled(), Some(1), "{dear}: it shows nothing");
    }
}

#[test]
fn equals_do_not_take_turns() {
    let mut choice = Choice::NEW;
    play(&mut choice, 100, 32768, &[100, 95], |_| 0);
    let best = choice.best;
    for _ in 0..100 {
        play(&mut choice, 100, 32768, &[100, 95], |message| (message as u64 * 37) % 100);
        assert_eq!(choice.best, best);
    }
}

#[test]
fn a_means_by_which_nothing_comes_is_left() {
    let mut choice = Choice::NEW;
    let mut trials = 0;
    for _ in 0..20_000 {
        // Whatever is wanted, the message comes by the first means: its sender has no credit for another.
        trials += usize::from(choice.wanted() == Some(1));
        choice.note(0, 0b11, 16384, 2000, (false, &NO_GUESS, None));
    }
    assert_eq!(choice.best, 0);
    assert!(trials > 0, "the other means is asked for");
    assert_eq!(choice.estimates[1].count, 0);
}

/// The same of a means that was cheaper for another peer: a third one has its trial nevertheless.
#[test]
fn a_means_that_cannot_come_keeps_no_other_from_its_trial() {
    let prices = [100, 50, 60];
    let mut choice = Choice::NEW;
    for _ in 0..3000 {
        let means = choice.wanted().filter(|&means| means != 1).unwrap_or(0);
        let time = prices[usize::from(means)] * 65536 / 1000;
        choice.note(means, 0b111, 65536, time, (false, &NO_GUESS, Some(1)));
    }
    assert_eq!(choice.settled(), Some(2));
    assert_eq!(choice.estimates[1].count, 0);
}

/// Prices of so many means, and the same in another order, as they are after a change of the machine.
fn changing_prices(
    of: std::ops::Range<u64>,
    means: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    let prices = proptest::collection::vec(of, means);
    prices.prop_flat_map(|prices| (Just(prices.clone()), Just(prices).prop_shuffle()))
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    /// Rule 1, at every message and from the first one on: what trials took longer than the best means that was known would
    /// have is a fiftieth of all time and one message more, whatever the means cost, whatever disturbs them, whatever other
    /// peers are said to have found, and at whichever message all prices change.
    #[test]
    fn trials_take_a_fiftieth_of_the_time_and_one_message(
        (first, then) in changing_prices(20..4000, 2..=MEANS),
        messages in 1usize..4_000,
        change in 0u64..4_000,
        class in 0u32..CLASSES as u32,
        disturbed in 0u64..100,
        seed in 0u64..1000,
        better in proptest::option::of(0u8..MEANS as u8),
    ) {
        let bytes = 1u64 << (FIRST + class);
        let able = (1u8 << first.len()) - 1;
        let mut choice = Choice::NEW;
        let (mut total, mut regret, mut most) = (0, 0, 0);
        for message in 0..messages as u64 {
            let prices = if message < change { &first } else { &then };
            let means = choice.wanted().unwrap_or(0);
            let jitter = message.wrapping_mul(seed).wrapping_mul(0x9e37_79b9) % (bytes * disturbed / 100 + 1);
            let time = prices[usize::from(means)] * bytes / 1000 + jitter;
            if let Some(best) = choice.settled().filter(|&best| best != means) {
                let usual = taken_at(choice.estimates[usize::from(best)].price, bytes);
                let excess = time.saturating_sub(usual);
                (regret, most) = (regret + excess, most.max(excess));
            }
            choice.note(means, able, bytes, time, (false, &NO_GUESS, better));
            total += time;
            proptest::prop_assert!(regret <= total / SHARE + most, "{first:?}, {then:?} from {change} on, message {message}: {regret} of {total}");
        }
    }

    /// Rule 1, against prices that never change: by then the means in use is the best, but for a tenth (rule 3).
    #[test]
    fn every_means_has_a_trial_soon(
        prices in proptest::collection::vec(20u64..4000, 2..=MEANS),
        class in 0u32..CLASSES as u32,
    ) {
        let bytes = 1u64 << (FIRST + class);
        let mut choice = Choice::NEW;
        let best = *prices.iter().min().unwrap();
        let longer = |price: u64| 50 * (price / best);
        let learning: u64 = prices[1..].iter().map(|&price| 200 + u64::from(TRIAL) + longer(price)).sum();
        play(&mut choice, learning as usize, bytes, &prices, |_| 0);
        let used = prices[usize::from(choice.settled().unwrap())];
        proptest::prop_assert!(used * 9 <= best * 10, "{used} of {prices:?} after {learning} messages");
        for tried in 1..prices.len() {
            proptest::prop_assert!(choice.estimates[tried].count > 0, "{tried} of {prices:?}");
        }
    }

    /// In the long run against prices that never change: a fiftieth for trials, a tenth for means that are nearly the best
    /// (rule 3), and what was learnt on the way.
    #[test]
    fn regret_is_bounded(
        prices in proptest::collection::vec(20u64..2000, 2..=MEANS),
        messages in 1usize..8_000,
        class in 0u32..CLASSES as u32,
    ) {
        let bytes = 1u64 << (FIRST + class);
        let mut choice = Choice::NEW;
        let (total, counts) = play(&mut choice, messages, bytes, &prices, |_| 0);
        let of = |means: usize| prices[means] * bytes / 1000;
        let (first, worst) = (of(0), (0..prices.len()).map(of).max().unwrap());
        let best = (0..prices.len()).map(of).min().unwrap();
        // Until the others were tried, the means that was used first, which pays for their trials.
        let longer = (1..prices.len()).map(|means| 250 * first + 50 * of(means).saturating_sub(first)).sum::<u64>();
        let learning = longer.min(messages as u64 * first);
        let allowed = messages as u64 * best * 112 / 100 + total / SHARE + worst + learning;
        proptest::prop_assert!(total <= allowed, "{counts:?} of {prices:?}: {total} > {allowed}");
    }

    /// Whatever comes, in whatever time: there is always a means that was named, and the budget never pays ahead.
    #[test]
    fn any_times_are_taken(notes in proptest::collection::vec((0u8..MEANS as u8, 0u8..64, 0u64..u64::MAX / 8000, 0u64..u64::MAX / 2000), 0..200)) {
        let mut choice = Choice::NEW;
        for (means, able, bytes, time) in notes {
            choice.note(means, able, bytes, time, (false, &NO_GUESS, None));
            proptest::prop_assert!(choice.wanted().is_none_or(|means| usize::from(means) < MEANS));
            proptest::prop_assert!(choice.settled().is_some());
        }
    }
}

/// Where receiver and sender copy whole messages of a window, two end at once: the one took twice as long as a share of the
/// throughput, the other nothing.
#[test]
fn messages_of_windows_that_end_together_are_not_taken_for_cheap() {
    for (each, wanted) in [(130, EAGER), (80, 1)] {
        let mut choice = Choice::NEW;
        let mut second = false;
        for _ in 0..3000 {
            let means = choice.wanted().unwrap_or(EAGER);
            let price = if means == EAGER { 100 } else { 2 * each * u64::from(!second) };
            second = means != EAGER && !second;
            choice.note(means, 0b11, 65536, price * 65536 / 1000, (true, &NO_GUESS, None));
        }
        assert_eq!(choice.best, wanted, "{each}");
        assert!(
            choice.estimates[..2].iter().all(|estimate| estimate.count >= 4),
            "both were tried"
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    /// Rule 6: however early and late receives mix, and at whichever message all prices change, what trials made messages of both kinds take longer than by the means that was best for them is a fiftieth
    /// of all time and one message of each trial that was cut short.
    #[test]
    fn trials_are_paid_for_by_messages_of_both_kinds(
        (first, then) in changing_prices(20..4000, 2..=3),
        change in 0u64..4_000,
        dearer in proptest::collection::vec(0u64..4000, 3),
        late in 0u64..=10,
        messages in 1usize..4_000,
        seed in 1u64..1000,
    ) {
        let (bytes, able) = (65536, (1u8 << first.len()) - 1);
        let mut prevailing = Prevailing::default();
        let mut choices = [Choice::NEW; 2];
        let (mut obeyed, mut total, mut regret, mut most, mut changes) = (0, 0, 0, 0, 0);
        for message in 0..messages as u64 {
            let early = if message < change { &first } else { &then };
            let unexpected = message.wrapping_mul(seed).wrapping_mul(0x9e37_79b9) >> 7 & 0xff < late * 26;
            let own = usize::from(unexpected);
            let means = choices[obeyed].wanted().unwrap_or(0);
            let at = usize::from(means);
            let time = (early[at] + if unexpected { dearer[at] } else { 0 }) * bytes / 1000;
            total += time;
            if choices[obeyed].is_at_trial() && choices[obeyed].settled() != Some(means) {
                let best = choices[own].settled().filter(|&best| best != means);
                let usual = best.map(|best| choices[own].estimates[usize::from(best)].price);
                let excess = usual.map_or(0, |price| time.saturating_sub(taken_at(price, bytes)));
                (regret, most) = (regret + excess, most.max(excess));
            }
            let kind = if unexpected { MessageKind::Unexpected } else { MessageKind::Tagged };
            let (kind, changed) = prevailing.note(Traffic { kind, ..Traffic::NONE }, bytes);
            obeyed = usize::from(kind == MessageKind::Unexpected);
            if obeyed == own {
                choices[own].note(means, able, bytes, time, (false, &NO_GUESS, None));
            } else {
                let usual = choices[obeyed].settled() == Some(means);
                let price = choices[own].note_aside(means, bytes, Some(time), usual);
                choices[obeyed].charge_aside(means, price, false);
            }
            if changed {
                choices[1 - obeyed].leave_trial();
                changes += 1;
            }
            proptest::prop_assert!(
                regret <= total / SHARE + most * (changes + 2),
                "{first:?}, {then:?} from {change} on, and {dearer:?}, message {message}, {changes} changes: {regret} of {total}"
            );
        }
    }
}

/// Rule 2 where times have a spread: the cheaper half of a trial lies under the mean of its means, and is set against the mean of the one in use.
/// Also, that estimate is above what it costs half of the time. A dearer means is not taken for a cheaper one by either, so that all messages that come by
/// it take a fiftieth of the time together.
#[test]
fn a_spread_of_times_has_no_dearer_means_win() {
    const BYTES: u64 = 65536;
    for (dearer, spread) in [(120, 40), (110, 60), (120, 60), (140, 60), (120, 80), (200, 80)] {
        let prices = [100, dearer, dearer];
        for window in [false, true] {
            let (mut total, mut regret, mut state) = (0, 0, 1_u64);
            for _ in 0..100 {
                let mut choice = Choice::NEW;
                for _ in 0..5000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let means = choice.wanted().unwrap_or(0);
                    let usual = prices[usize::from(means)] * BYTES / 1000;
                    // Spread evenly around what the means takes.
                    let least = usual * (100 - spread) / 100;
                    let time = least + (state >> 33) % (usual * 2 * spread / 100);
                    choice.note(means, 0b111, BYTES, time, (window, &NO_GUESS, None));
                    (total, regret) = (total + usual, regret + usual - prices[0] * BYTES / 1000);
                }
            }
            assert!(
                regret <= total / SHARE,
                "{dearer} in place of 100, spread {spread}, window {window}: {regret} of {total}"
            );
        }
    }
}
