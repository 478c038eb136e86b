//! The fits against the published parameters, against noise, and against what other models say.

use bowline_model::cost::Pipelining;
use bowline_model::fit::line::line;
use bowline_model::fit::others::{FittedHockney, FittedLogGp, LogfP, dip, quality};
use bowline_model::fit::sizes::BySize;
use bowline_model::fit::{FitError, Multicast, PingPong, Samples, SizeFit, Statistic, fit};
use proptest::prelude::*;

/// Size, alpha_p and alpha_r in microseconds, and their ratio as printed. (Thesis, table 4.1.)
const PUBLISHED: &[(u64, f64, f64, f64)] = &[
    (8, 0.88, 0.38, 2.3),
    (64, 0.89, 0.38, 2.4),
    (128, 0.91, 0.38, 2.4),
    (512, 0.96, 0.46, 2.1),
    (2048, 0.96, 0.79, 1.2),
    (8192, 0.86, 2.17, 0.4),
    (32768, 0.68, 7.75, 0.088),
    (131_072, -0.12, 30.1, -0.004),
    (524_288, -1.7, 119.3, -0.014),
];

/// Multicasts to 1 to `most` processes whose shortest times are those of the parameters.
fn multicasts(size: u64, pipelining: f64, required: f64, most: u32) -> Vec<Multicast> {
    let of_width = |width| {
        let time = pipelining + f64::from(width) * required;
        let complete = vec![time + 0.5, time, time + 0.1, time + 7.0];
        let issued = vec![f64::from(width) * required; 4];
        Multicast { size, width, complete, issued }
    };
    (1..=most).map(of_width).collect()
}

fn published() -> Samples {
    let all = PUBLISHED.iter().flat_map(|&(n, p, r, _)| multicasts(n, p, r, 16));
    Samples { multicasts: all.collect(), ping_pongs: Vec::new() }
}

fn fits() -> Vec<SizeFit> {
    fit(&published(), Statistic::Minimum).unwrap()
}

#[test]
fn the_published_parameters_are_found_again() {
    for (found, &(size, pipelining, required, ratio)) in fits().iter().zip(PUBLISHED) {
        assert_eq!(found.size, size);
        assert!((found.line.intercept - pipelining).abs() < 1e-9, "{size}: {found:?}");
        assert!((found.line.slope - required).abs() < 1e-9, "{size}: {found:?}");
        assert!(found.line.r_squared > 1.0 - 1e-12, "{size}: {found:?}");
        assert!(found.residuals().all(|(_, residual)| residual.abs() < 1e-9));
        let last_digit = if ratio.abs() < 0.1 { 0.0006 } else { 0.06 };
        assert!((found.line.intercept / found.line.slope - ratio).abs() < last_digit, "{size}");
    }
}

#[test]
fn sizes_at_which_the_model_does_not_hold_are_rejected_in_its_words() {
    for found in fits() {
        assert_eq!(found.cost.is_err(), found.size >= 131_072, "{found:?}");
        assert_eq!(found.widths().is_none(), found.size >= 131_072);
        if let Err(error) = found.cost {
            assert!(error.to_string().contains("describe no network"), "{error}");
        }
    }
}

#[test]
fn the_blocking_multicast_is_unphysical() {
    // Slope 1.5, intercept -0.72: the published fit of puts that wait for one another.
    let samples = Samples { multicasts: multicasts(8, -0.72, 1.5, 8), ping_pongs: Vec::new() };
    let found = &fit(&samples, Statistic::Minimum).unwrap()[0];
    assert!((found.line.slope - 1.5).abs() < 1e-9);
    assert!(found.cost.unwrap_err().to_string().starts_with("alpha_p = -0.7"));
}

#[test]
fn widths_follow_from_the_fit() {
    let found = fits();
    // c = 2.316: b_opt 2.83, b_upper 8.4, cap 9.
    let short = found[0].widths().unwrap();
    assert!((short.ratio - 2.316).abs() < 0.001 && (short.best - 2.83).abs() < 0.01);
    assert!((short.break_even - 8.41).abs() < 0.01 && short.cap == 9 && !short.doubling());
    // At 32 KB nothing overlaps any more: recursive doubling.
    let long = found[6].widths().unwrap();
    assert!(long.doubling() && long.cap == 2 && long.break_even == 1.0, "{long:?}");
    // Messages that cost their sender nothing leave the factor open, also where rounding makes it nearly nothing.
    let widths = |p, r| {
        let samples = Samples { multicasts: multicasts(8, p, r, 4), ping_pongs: Vec::new() };
        fit(&samples, Statistic::Minimum).unwrap()[0].widths()
    };
    assert_eq!([(0.0, 0.0), (1000.0, 0.0), (0.3, 1e-12)].map(|(p, r)| widths(p, r)), [None; 3]);
    assert!(widths(1.0, 0.25).unwrap().ratio > 3.99);
}

#[test]
fn medians_are_fitted_in_the_same_way() {
    // Of time + {0, 0.1, 0.5, 7} the median is 0.3 above the shortest.
    let found = fit(&published(), Statistic::Median).unwrap();
    for (found, &(size, pipelining, required, _)) in found.iter().zip(PUBLISHED) {
        assert!((found.line.intercept - pipelining - 0.3).abs() < 1e-9, "{size}");
        assert!((found.line.slope - required).abs() < 1e-9, "{size}");
    }
    assert_eq!(Statistic::Median.of(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(Statistic::Median.of(&[]), None);
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let one = Samples { multicasts: multicasts(8, 1.0, 1.0, 1), ping_pongs: Vec::new() };
    let error = fit(&one, Statistic::Minimum).unwrap_err();
    assert_eq!(error.to_string(), "multicasts of 8 bytes: 1 different point, and the fit wants 2");
    let mut bad = published();
    bad.multicasts[3].complete[1] = f64::NAN;
    assert!(matches!(fit(&bad, Statistic::Minimum), Err(FitError::BadTime { width: 4, .. })));
    let mut bad = published();
    bad.ping_pongs.push(PingPong { size: 8, one_way: vec![-1.0] });
    assert!(matches!(fit(&bad, Statistic::Minimum), Err(FitError::BadTime { width: 0, .. })));
}

#[test]
fn the_required_part_grows_with_the_size_and_the_overlapping_one_does_not() {
    let functions = BySize::of(&fits()).unwrap();
    let (required, pipelining) = (functions.required.unwrap(), functions.pipelining.unwrap());
    // 0.225 ns per byte: 4.4 GB/s.
    assert!((required.slope * 1e3 - 0.225).abs() < 0.005, "{required:?}");
    assert!(required.r_squared > 0.999, "{required:?}");
    assert!(pipelining.slope.abs() * 1e3 < 0.01, "{pipelining:?}");
    // Interpolated where it was not measured, and nothing from where the model ends.
    let between = functions.at(1280).unwrap();
    assert!((between.required - 0.625).abs() < 1e-9 && (between.pipelining - 0.96).abs() < 1e-9);
    assert!(functions.at(65536).unwrap().required > 7.75);
    assert_eq!(functions.at(131_072), None);
    assert_eq!(functions.rejected.len(), 2);
    // Why pieces: the line serves the long messages and is 8 % off at the short ones that count.
    assert!((required.at(8.0) / 0.38 - 1.0).abs() > 0.05, "{required:?}");
    assert_eq!(functions.at(8).unwrap().required, fits()[0].line.slope);
}

#[test]
fn a_model_without_overlap_does_not_fit_and_one_with_does() {
    let found: Vec<SizeFit> = fits().into_iter().filter(|fit| fit.cost.is_ok()).collect();
    let ours = BySize::of(&found).unwrap();
    let own = quality(&found, |n, b| ours.at(n).unwrap().multicast(b));
    assert!(own.error < 1e-9 && own.r_squared > 0.999_999, "{own:?}");
    let hockney = FittedHockney::of_multicasts(&found).unwrap();
    let theirs = quality(&found, |n, b| hockney.multicast(n, b));
    assert!(theirs.error > 0.1, "{hockney:?} {theirs:?}");
    let loggp = FittedLogGp::of_multicasts(&published(), &found, Statistic::Minimum).unwrap();
    let between = quality(&found, |n, b| loggp.multicast(n, b));
    assert!(between.error < theirs.error, "{loggp:?} {between:?}");
}

#[test]
fn the_other_models_find_their_own_parameters_again() {
    let hockney = FittedHockney { latency: 2.0, per_byte: 0.01 };
    let loggp = FittedLogGp { latency: 0.5, overhead: 0.1, gap: 0.3, per_byte: 0.002 };
    let make = |time: &dyn Fn(u64, u32) -> f64, issue: f64| -> Samples {
        let of = |size| {
            (1..=6).map(move |width| {
                let issued = vec![issue * f64::from(width)];
                Multicast { size, width, complete: vec![time(size, width)], issued }
            })
        };
        let multicasts = [8, 64, 1024].into_iter().flat_map(of).collect();
        Samples { multicasts, ping_pongs: Vec::new() }
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let samples = make(&|n, b| hockney.multicast(n, b), 1.0);
    let found = FittedHockney::of_multicasts(&fit(&samples, Statistic::Minimum).unwrap()).unwrap();
    assert!(near(found.latency, 2.0) && near(found.per_byte, 0.01), "{found:?}");
    let mut samples = make(&|n, b| loggp.multicast(n, b), 0.1);
    // Messages to and fro, whose latency is another one.
    let slower = FittedLogGp { latency: 0.7, ..loggp };
    samples.ping_pongs =
        [8, 64].map(|size| PingPong { size, one_way: vec![slower.message(size)] }).into();
    let fits = fit(&samples, Statistic::Minimum).unwrap();
    let of_multicasts = FittedLogGp::of_multicasts(&samples, &fits, Statistic::Minimum).unwrap();
    let of_ping_pongs = FittedLogGp::of_ping_pongs(&samples, &fits, Statistic::Minimum).unwrap();
    for (found, latency) in [(of_multicasts, 0.5), (of_ping_pongs, 0.7)] {
        assert!(near(found.latency, latency) && near(found.overhead, 0.1), "{found:?}");
        assert!(near(found.gap, 0.3) && near(found.per_byte, 0.002), "{found:?}");
    }
    let one_way = FittedHockney::of_ping_pongs(&samples, Statistic::Minimum).unwrap();
    assert!(near(one_way.per_byte, 0.002), "{one_way:?}");
    assert!(FittedHockney::of_ping_pongs(&published(), Statistic::Minimum).is_err());
}

/// One size whose times are those of `time`.
fn of_times(time: impl Fn(u32) -> f64) -> SizeFit {
    let one = |width| Multicast { size: 8, width, complete: vec![time(width)], issued: Vec::new() };
    let samples = Samples { multicasts: (1..=16).map(one).collect(), ping_pongs: Vec::new() };
    fit(&samples, Statistic::Minimum).unwrap().remove(0)
}

#[test]
fn the_time_per_process_falls_where_the_other_model_has_its_minimum() {
    // What the authors of LogfP saw on InfiniBand: eight messages are free, then each takes a gap.
    let theirs = LogfP { start: 4.0, overhead: 0.4, gap: 0.9, free: 8 };
    let bent = of_times(|width| theirs.multicast(width));
    let found = LogfP::of(&bent).unwrap();
    assert_eq!((found.free, found.minimum()), (8, Some(8)), "{found:?}");
    assert!((found.gap - 0.9).abs() < 1e-9 && (found.start - 4.0).abs() < 1e-9);
    let seen = dip(&bent.per_process()).unwrap();
    assert!(seen.width == 8 && seen.rise > 0.1, "{seen:?}");
    // What was seen on the XC30 and what the pipelining model says: no minimum before the end.
    let archer = of_times(|width| Pipelining::ARCHER.multicast(width));
    let curve = archer.per_process();
    assert!(curve.windows(2).all(|pair| pair[1].1 < pair[0].1));
    assert_eq!(dip(&curve), None);
    // No bend is found in it.
    let found = LogfP::of(&archer).unwrap();
    assert_eq!((found.gap, found.minimum()), (0.0, None), "{found:?}");
    // Nor is there a dip where each message waits for the one before.
    assert_eq!(dip(&of_times(|width| f64::from(width) * 1.26).per_process()), None);
    // Gaps that cost less than the start give no minimum.
    assert_eq!(LogfP { gap: 0.4, ..theirs }.minimum(), None);
    let mut few = bent;
    few.points.truncate(4);
    assert!(matches!(LogfP::of(&few), Err(FitError::TooFew { .. })));
}

proptest! {
    /// Noise only lengthens times. One repetition in many that is undisturbed is enough for the shortest ones.
    #[test]
    fn the_shortest_times_give_the_parameters_through_noise(
        pipelining in 0.01..5.0_f64,
        required in 0.01..5.0_f64,
        noise in prop::collection::vec(prop::collection::vec(0.0..20.0_f64, 9), 12),
        quiet in 0..9_usize,
    ) {
        let of_width = |(noise, width): (&Vec<f64>, u32)| {
            let time = pipelining + f64::from(width) * required;
            let disturbed = noise.iter().enumerate();
            let complete = disturbed.map(|(at, more)| time + if at == quiet { 0.0 } else { *more });
            Multicast { size: 8, width, complete: complete.collect(), issued: Vec::new() }
        };
        let multicasts = noise.iter().zip(1..).map(of_width).collect();
        let samples = Samples { multicasts, ping_pongs: Vec::new() };
        let found = fit(&samples, Statistic::Minimum).unwrap();
        let cost = found[0].cost.unwrap();
        prop_assert!((cost.pipelining - pipelining).abs() < 1e-8, "{:?}", cost);
        prop_assert!((cost.required - required).abs() < 1e-8, "{:?}", cost);
    }

    /// Errors of the points move the line by no more than least squares allow: the slope by the errors' mean leverage,
    /// the intercept by the mean error and the slope's.
    #[test]
    fn errors_move_the_line_within_their_bounds(
        intercept in -5.0..5.0_f64,
        slope in -5.0..5.0_f64,
        errors in prop::collection::vec(-1.0..1.0_f64, 3..20),
    ) {
        let points: Vec<(f64, f64)> = errors
            .iter()
            .enumerate()
            .map(|(at, error)| (at as f64 + 1.0, intercept + slope * (at as f64 + 1.0) + error))
            .collect();
        let found = line(&points, "").unwrap();
        let count = points.len() as f64;
        let mean = points.iter().map(|p| p.0).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|p| (p.0 - mean).powi(2)).sum();
        let lever: f64 = points.iter().map(|p| (p.0 - mean).abs()).sum::<f64>() / spread;
        prop_assert!((found.slope - slope).abs() <= lever + 1e-9);
        prop_assert!((found.intercept - intercept).abs() <= 1.0 + lever * mean + 1e-9);
        // Of all lines this one has the least squares.
        let squares = |a: f64, b: f64| points.iter().map(|p| (p.1 - a - b * p.0).powi(2)).sum::<f64>();
        let least = squares(found.intercept, found.slope);
        for (da, db) in [(0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)] {
            prop_assert!(squares(found.intercept + da, found.slope + db) >= least - 1e-9);
        }
        prop_assert!(found.r_squared <= 1.0 + 1e-12);
    }
}
