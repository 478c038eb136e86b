//! Tables of transports that do not exist, with figures chosen for the purpose.

use bowline_model::transport::{CostOrigin, Figure};
use bowline_uct::{AtomicOps, OpLimits};
use proptest::prelude::*;

use super::*;
use crate::proto::coop::SHARING;
use crate::proto::{ALL, coop, fragments, get};
use crate::protocol::eager;

/// The capabilities and limits of an interface of this provider: copies by the processor, like shared memory.
fn lane(provider: &'static str) -> IfaceAttr {
    let am = OpLimits { max_short: 40, max_bcopy: 8192, ..OpLimits::default() };
    let get = OpLimits { max_zcopy: usize::MAX, ..OpLimits::default() };
    IfaceAttr {
        provider,
        device: "none".to_owned(),
        caps: SHARING | Caps::AM_SHORT | Caps::AM_BCOPY,
        limits: Limits { am, put: get, get },
        atomics: AtomicOps::empty(),
        max_endpoints: 1,
        receive_bytes: 0,
    }
}

/// The same, and sends messages from where they lie.
fn lending(mut attr: IfaceAttr) -> IfaceAttr {
    attr.caps |= Caps::AM_ZCOPY;
    attr.limits.am = OpLimits { max_zcopy: 1 << 40, max_iov: 4, ..attr.limits.am };
    attr
}

fn figures(list: &[(&str, f64)], origin: CostOrigin) -> TransportCosts {
    let mut costs = TransportCosts::assumed("test", false);
    for (name, value) in list {
        costs.figure_mut(name).unwrap().learn(*value, origin);
    }
    costs
}

/// Round figures: a message 100 + 100 ns, a byte 0.1 ns on its way and in each copy, reading 1000.5 ns
/// and 0.1 ns a byte.
const ROUND: [(&str, f64); 10] = [
    ("message.pipelining", 100.0),
    ("message.required", 100.0),
    ("message.per_byte", 0.1),
    ("copy", 0.1),
    ("get.pipelining", 0.0),
    ("get.required", 1000.5),
    ("get.per_byte", 0.1),
    ("put.pipelining", 0.0),
    ("put.required", 1000.0),
    ("put.per_byte", 0.1),
];

fn text(table: &Table) -> Vec<String> {
    let line = |range: &ProtocolRange| format!("{} {}..={}", range.protocol, range.from, range.to);
    table.ranges().iter().map(line).collect()
}

#[test]
fn the_table_of_round_figures() {
    let costs = figures(&ROUND, CostOrigin::Calibrated);
    let table = Table::among(ALL, Op::TagSend, &lane("test"), &costs, Conditions::default());
    // Eager 240 + 0.3 n and read 1200.5 + 0.1 n meet at 4802.5.
    let expected = [
        "eager/short 0..=40",
        "eager/bcopy 41..=4802",
        "rndv/get 4803..=131071",
        "rndv/shared 131072..=18446744073709551615",
    ];
    assert_eq!(text(&table), expected);
    assert!(table.ranges().iter().all(|range| range.origin == CostOrigin::Calibrated));
    assert_eq!(table.pick(40), Some(&eager::SHORT));
    assert_eq!(table.pick(41), Some(&eager::BCOPY));
    assert_eq!(table.pick(u64::MAX), Some(&coop::COOP));
    assert!((table.ranges()[2].cost(10_000) - 2200.5).abs() < 1e-6);
}

#[test]
fn what_lies_with_its_sender_saves_a_copy() {
    let mut costs = figures(&ROUND, CostOrigin::Calibrated);
    costs.get.required.value = 100_000.0;
    let attr = lending(lane("test"));
    let table = Table::among(ALL, Op::TagSend, &attr, &costs, Conditions::default());
    // Packed 240 + 0.3 n, lent 500 + 0.2 n: they meet at 2600, yet short messages are buffered.
    assert_eq!(text(&table)[1..3], ["eager/bcopy 41..=4096", "eager/zcopy 4097..=8192"]);
    costs.copy = Figure::assumed(0.05);
    // 240 + 0.2 n and 500 + 0.15 n.
    let table = Table::among(ALL, Op::TagSend, &attr, &costs, Conditions::default());
    assert_eq!(text(&table)[1..3], ["eager/bcopy 41..=5200", "eager/zcopy 5201..=8192"]);
    let set = |zcopy| Conditions { zcopy: Some(zcopy), ..Conditions::default() };
    let table = Table::among(ALL, Op::AmSend, &attr, &costs, set(20));
    assert_eq!(text(&table)[..2], ["eager/short 0..=19", "eager/zcopy 20..=8192"]);
    let table = Table::among(ALL, Op::TagSend, &attr, &costs, set(1 << 50));
    assert_eq!(text(&table)[1], "eager/bcopy 41..=8192");
    assert_eq!(table.first(&eager::ZCOPY), None);
    // A threshold of the user's takes nothing away where the transport cannot.
    let plain = lane("test");
    let without = Table::among(ALL, Op::TagSend, &plain, &costs, Conditions::default());
    assert_eq!(Table::among(ALL, Op::TagSend, &plain, &costs, set(20)), without);
}

#[test]
fn one_sided_operations_are_priced() {
    let costs = figures(&ROUND, CostOrigin::Calibrated);
    let mut attr = lending(lane("test"));
    attr.caps |= Caps::PUT_SHORT;
    attr.limits.put.max_short = 8192;
    let of =
        |op, attr: &IfaceAttr| text(&Table::among(ALL, op, attr, &costs, Conditions::default()));
    // Mapped memory: 40 + 0.1 n, which nothing beats as far as it goes.
    let all = "18446744073709551615";
    assert_eq!(of(Op::Put, &attr), ["put/short 0..=8192", &format!("put/zcopy 8193..={all}")]);
    assert_eq!(of(Op::Get, &attr), [format!("get/zcopy 0..={all}")]);
    assert_eq!(of(Op::Atomic, &attr), ["atomic/native 4..=8"]);
    // A network's: 1040 + 0.2 n and 1300 + 0.1 n meet at 2600.
    attr.caps.remove(Caps::RKEY_PTR);
    assert_eq!(of(Op::Put, &attr), ["put/short 0..=2600", &format!("put/zcopy 2601..={all}")]);
    let choices = Choices::new(ALL, &attr, costs, Conditions::default());
    assert_eq!(choices.put_short_to, Some(2600));
    attr.caps.remove(Caps::PUT_SHORT | Caps::GET_ZCOPY | Caps::ATOMIC_CPU);
    assert_eq!(Choices::new(ALL, &attr, costs, Conditions::default()).put_short_to, None);
    assert!(of(Op::Get, &attr).is_empty() && of(Op::Atomic, &attr).is_empty());
    // A stream is copied: its sends are not lent.
    assert!(
        Table::among(ALL, Op::StreamSend, &attr, &costs, Conditions::default())
            .first(&eager::ZCOPY)
            .is_none()
    );
    for op in Op::ALL {
        let table = Table::among(
            ALL,
            op,
            &attr,
            &costs,
            Conditions { zcopy: Some(1), ..Conditions::default() },
        );
        let theirs =
            |name: &str| table.ranges().iter().all(|r| r.protocol.name().starts_with(name));
        match op {
            Op::Put => assert!(theirs("put/")),
            Op::Get | Op::Atomic => assert!(table.ranges().is_empty()),
            Op::Fetch => assert!(theirs("rndv/")),
            Op::TagSend | Op::AmSend | Op::StreamSend => assert!(table.pick(8).is_some()),
        }
    }
}

#[test]
fn slow_reads_move_the_threshold() {
    let mut costs = figures(&ROUND, CostOrigin::Calibrated);
    costs.get.required.value = 100_000.0;
    let table = Table::among(ALL, Op::TagSend, &lane("test"), &costs, Conditions::default());
    // Pieces of a message go until the receiver's space for unexpected ones would be used up, though
    // they would be cheaper for longer.
    assert_eq!(text(&table)[2], "eager/multi 8193..=131072");
    assert_eq!(table.first(&get::GET), None, "sharing halves the bytes");
}

#[test]
fn thresholds_of_the_user_stand() {
    let costs = figures(&ROUND, CostOrigin::Probed);
    let conditions =
        Conditions { rndv_threshold: Some(100), cooperate: Some(1 << 50), ..Conditions::default() };
    let table = Table::among(ALL, Op::TagSend, &lane("test"), &costs, conditions);
    assert_eq!(text(&table)[..2], ["eager/short 0..=40", "eager/bcopy 41..=100"]);
    assert_eq!(table.pick(101), Some(&get::GET));
    assert_eq!(table.first(&coop::COOP), Some(1 << 50));
    let conditions = Conditions { rndv_threshold: Some(1 << 30), ..Conditions::default() };
    let table = Table::among(ALL, Op::TagSend, &lane("test"), &costs, conditions);
    assert_eq!(table.pick(1 << 30), Some(&eager::MULTI));
    assert_eq!(table.pick((1 << 30) + 1), Some(&coop::COOP));
}

#[test]
fn where_ranks_share_processors_nothing_goes_in_pieces_that_can_be_read() {
    let mut costs = figures(&ROUND, CostOrigin::Probed);
    costs.get.required.value = 100_000.0;
    let conditions = Conditions { oversubscribed: true, ..Conditions::default() };
    let mut attr = lane("test");
    attr.caps.insert(Caps::RKEY_PTR);
    let of = |op, attr: &IfaceAttr, conditions| Table::among(ALL, op, attr, &costs, conditions);
    for op in [Op::TagSend, Op::AmSend] {
        assert_eq!(of(op, &attr, Conditions::default()).pick(20_000), Some(&eager::MULTI));
        let shared = of(op, &attr, conditions);
        assert_eq!(shared.pick(8192), Some(&eager::BCOPY));
        assert_eq!(shared.pick(8193), Some(&get::GET));
    }
    assert_eq!(of(Op::StreamSend, &attr, conditions).pick(20_000), Some(&eager::MULTI));
    let set = Conditions { rndv_threshold: Some(1 << 20), ..conditions };
    assert_eq!(of(Op::TagSend, &attr, set).pick(1 << 20), Some(&eager::MULTI));
    // A receiver on another host, or one that cannot read, is sent pieces as ever.
    for missing in [Caps::RKEY_PTR, Caps::GET_ZCOPY] {
        let mut attr = attr.clone();
        attr.caps.remove(missing);
        assert_eq!(of(Op::TagSend, &attr, conditions).pick(20_000), Some(&eager::MULTI));
    }
}

#[test]
fn what_the_kernel_would_read_comes_in_fragments_where_both_ranks_wait() {
    let mut costs = figures(&ROUND, CostOrigin::Probed);
    costs.get.per_byte.value = 1.0;
    let picked = |caps: Caps, conditions| {
        let mut attr = lane("test");
        attr.caps |= caps;
        Table::among(ALL, Op::Fetch, &attr, &costs, conditions).pick(1 << 20)
    };
    let both_wait = Conditions::default();
    assert_eq!(picked(Caps::empty(), both_wait), Some(&fragments::FRAGMENTS));
    // Though reads cost as much there.
    let shared = Conditions { oversubscribed: true, ..both_wait };
    let asynchronous = Conditions { asynchronous: true, ..both_wait };
    for conditions in [shared, asynchronous] {
        assert_eq!(picked(Caps::empty(), conditions), Some(&coop::COOP), "{conditions:?}");
    }
    assert_eq!(picked(Caps::LENT_ONLY, both_wait), Some(&coop::COOP));
    assert_eq!(picked(Caps::LOOPBACK, both_wait), Some(&get::GET));
}

#[test]
fn what_a_lane_cannot_do_is_not_in_its_table() {
    let mut attr = lane("test");
    attr.caps.remove(Caps::GET_ZCOPY);
    let costs = figures(&ROUND, CostOrigin::Calibrated);
    let table = Table::among(ALL, Op::TagSend, &attr, &costs, Conditions::default());
    assert_eq!(table.pick(1 << 20), Some(&fragments::FRAGMENTS));
    assert_eq!(table.pick(131_072), Some(&eager::MULTI));
    attr.limits.am = OpLimits::default();
    let table = Table::among(ALL, Op::TagSend, &attr, &costs, Conditions::default());
    assert!(table.ranges().is_empty());
    assert_eq!(table.pick(0), None);
}

#[test]
fn the_least_sure_figure_names_the_prediction() {
    let mut costs = figures(&ROUND, CostOrigin::Calibrated);
    costs.copy = Figure::assumed(0.1);
    let table = Table::among(ALL, Op::TagSend, &lane("test"), &costs, Conditions::default());
    let origins: Vec<CostOrigin> = table.ranges().iter().map(|range| range.origin).collect();
    use CostOrigin::{Assumed, Calibrated};
    assert_eq!(origins, [Assumed, Assumed, Calibrated, Calibrated]);
}

proptest! {
    /// For every size the table has the cheapest of all offers, and no hole that an offer
    /// would fill.
    #[test]
    fn the_envelope_is_the_minimum(
        values in proptest::collection::vec(0.0f64..2000.0, 10),
        slopes in proptest::collection::vec(0.0f64..1.0, 4),
        threshold in proptest::option::of(0u64..200_000),
        zcopy in proptest::option::of(1u64..200_000),
        sizes in proptest::collection::vec(0u64..1_000_000, 50),
        reads: bool,
        lends: bool,
    ) {
        let mut list: Vec<(&str, f64)> = ROUND.iter().map(|(name, _)| *name).zip(values).collect();
        for (at, slope) in [2, 3, 6, 9].into_iter().zip(slopes) {
            list[at].1 = slope;
        }
        let costs = figures(&list, CostOrigin::Calibrated);
        let mut attr = lane("test");
        if !reads {
            attr.caps.remove(Caps::GET_ZCOPY);
        }
        if lends {
            attr = lending(attr);
        }
        let conditions = Conditions { rndv_threshold: threshold, zcopy, ..Conditions::default() };
        let table = Table::among(ALL, Op::TagSend, &attr, &costs, conditions);
        let context = SelectionContext { caps: attr.caps, limits: attr.limits, costs: &costs, conditions };
        let able = candidates(ALL, Op::TagSend, &context);
        for size in sizes {
            let these = able.iter().filter(|o| o.from <= size && size <= o.to);
            let cheapest = these.map(|o| o.line.at(size)).reduce(f64::min);
            let picked = table.pick(size).map(|protocol| {
                able.iter().find(|o| o.protocol == protocol).unwrap().line.at(size)
            });
            match (picked, cheapest) {
                (Some(picked), Some(cheapest)) => {
                    prop_assert!(picked <= cheapest + 1e-6 * cheapest.abs() + 1e-6);
                }
                (picked, cheapest) => prop_assert_eq!(picked.is_some(), cheapest.is_some()),
            }
        }
        for pair in table.ranges().windows(2) {
            prop_assert!(pair[0].to < pair[1].from);
        }
    }
}
