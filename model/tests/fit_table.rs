//! The file that keeps fits: what is written is read, and what is no table is refused with the reason.

use bowline_model::cost::Pipelining;
use bowline_model::fit::table::{Entry, FitTable, ParameterOrigin, Row, TableError};
use bowline_model::fit::{Multicast, Samples, Statistic, fit};
use proptest::prelude::*;

fn empty(site: &str, transport: &str) -> Entry {
    let (site, transport) = (site.to_owned(), transport.to_owned());
    let (sizes, rejected) = (Vec::new(), Vec::new());
    let operations = [("reduce".to_owned(), 0.05)].into();
    Entry { site, transport, ranks: 5, threads: false, shared: true, sizes, rejected, operations }
}

/// What a measurement gives whose model fails at the second size.
fn measured(transport: &str) -> Entry {
    let of = |(size, p, r): (u64, f64, f64)| {
        (1..=4).map(move |width| {
            let complete = vec![p + r * f64::from(width)];
            Multicast { size, width, complete, issued: Vec::new() }
        })
    };
    let all = [(8, 100.0, 10.0), (4096, -50.0, 300.0)].into_iter().flat_map(of);
    let samples = Samples { multicasts: all.collect(), ping_pongs: Vec::new() };
    empty("here", transport).fitted(&fit(&samples, Statistic::Minimum).unwrap())
}

#[test]
fn fits_are_kept_by_site_and_transport_and_read_again() {
    let mut table = FitTable::default();
    assert!(table.learn(measured("shm")));
    assert!(table.learn(Entry::published("there", "aries")));
    let table = FitTable::parse(table.text().unwrap().as_bytes()).unwrap();
    assert_eq!(table.entries().len(), 2);
    let found = table.find("here", "shm").unwrap();
    assert_eq!((found, found.origin()), (&measured("shm"), ParameterOrigin::Measured));
    let by_size = found.by_size().unwrap();
    let cost = by_size.at(8).unwrap();
    assert!((cost.pipelining - 100.0).abs() < 1e-9 && (cost.required - 10.0).abs() < 1e-9);
    assert_eq!(by_size.at(4096), None, "the model was rejected there");
    assert!(by_size.at(4095).is_some());
    assert!(table.find("here", "tcp").is_none() && table.find("elsewhere", "shm").is_none());
}

#[test]
fn what_was_published_is_marked_as_assumed_and_gives_way() {
    let assumed = Entry::published("here", "shm");
    assert_eq!(assumed.origin(), ParameterOrigin::Assumed);
    let short = assumed.by_size().unwrap().at(8).unwrap();
    let archer = Pipelining::ARCHER;
    assert_eq!(
        (short.pipelining, short.required),
        (archer.pipelining * 1e3, archer.required * 1e3)
    );
    assert_eq!(assumed.by_size().unwrap().at(1 << 20), None);
    let mut table = FitTable::default();
    assert!(table.learn(assumed.clone()) && table.learn(measured("shm")));
    assert!(!table.learn(assumed), "what was measured stays");
    assert_eq!(table.entries(), [measured("shm")]);
    assert!(table.learn(measured("shm")), "and is measured again");
    assert_eq!((table.forget("there"), table.forget("here"), table.entries().len()), (0, 1, 0));
}

#[test]
fn what_is_no_table_is_refused_with_the_reason() {
    let mut table = FitTable::default();
    table.learn(measured("shm"));
    let good = table.text().unwrap();
    let refused = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}: {good}");
        FitTable::parse(good.replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    assert_eq!(FitTable::parse(b"{}"), Err(TableError::Foreign));
    assert_eq!(refused("bowline model", "bowline costs"), TableError::Foreign);
    let version = refused("\"version\": 1", "\"version\": 2");
    assert_eq!(version, TableError::Version { found: 2 });
    assert!(version.to_string().contains("measure again"), "{version}");
    for (from, to, why) in [
        ("\"version\": 1,", "", "no version"),
        ("\"ranks\"", "\"ranges\"", "ranges"),
        ("\"measured\"", "\"guessed\"", "guessed"),
        ("10.0", "\"ten\"", "line"),
        ("}", "", "line"),
    ] {
        let error = refused(from, to);
        assert!(matches!(&error, TableError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let error = refused("\"alpha_p_ns\": 1", "\"alpha_p_ns\": -1");
    assert!(matches!(&error, TableError::Impossible { transport, .. } if transport == "shm"));
    assert!(error.to_string().contains("describe no network"), "{error}");
    assert!(refused("4096", "8").to_string().contains("8 bytes stand there twice"));
    assert!(FitTable::parse(b"").is_err() && FitTable::parse(b"[1").is_err());
}

#[test]
fn nothing_is_written_that_would_be_refused() {
    let mut table = FitTable::default();
    table.learn(empty("here", "shm"));
    assert!(table.text().unwrap_err().to_string().contains("no size"));
    let mut bad = measured("shm");
    bad.sizes.push(Row {
        size: 9,
        pipelining: f64::NAN,
        required: 1.0,
        origin: ParameterOrigin::Measured,
    });
    table.learn(bad);
    assert!(table.text().is_err());
}

proptest! {
    /// Any bytes are read or refused, and what is read is written and read again the same.
    #[test]
    fn bytes_do_no_harm(at in 0..2000_usize, byte in any::<u8>(), p in 0.0..1e9_f64, r in 0.0..1e9_f64) {
        let mut table = FitTable::default();
        let mut entry = empty("a \"site\"; 3", "tcp");
        entry.sizes.push(Row { size: 8, pipelining: p, required: r, origin: ParameterOrigin::Measured });
        table.learn(entry);
        let mut text = table.text().unwrap().into_bytes();
        prop_assert_eq!(&FitTable::parse(&text).unwrap(), &table);
        let at = at % text.len();
        text[at] = byte;
        if let Ok(other) = FitTable::parse(&text) {
            prop_assert_eq!(FitTable::parse(other.text().unwrap().as_bytes()).unwrap(), other);
        }
    }
}
