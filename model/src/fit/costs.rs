//! The costs that collectives are priced with, of what was fitted.

use super::sizes::BySize;
use crate::coll::price::{Costs, OfSize, OfSizes};

/// What a byte takes, with few digits.
fn short_rate(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl Costs {
    /// These with what was fitted of messages by size, as many sizes as there can be; what a fit does not say stays.
    /// Where its ranks shared processors, what receivers do is in it.
    #[must_use]
    pub fn fitted(mut self, fit: &BySize, shared: bool) -> Self {
        let Some((_, first)) = fit.points().first() else { return self };
        // Digits that say nothing are left out, since users see these numbers.
        let short = |value: f64| (value * 10.0).round() / 10.0;
        (self.pipelining, self.required) = (short(first.pipelining), short(first.required));
        let byte = fit.required.as_ref().map_or(0.0, |line| line.slope.max(0.0));
        self.byte = short_rate(byte);
        if shared {
            (self.receive, self.receive_byte) = (0.0, 0.0);
        }
        self.by_size = OfSizes::NONE;
        for &(size, cost) in fit.points() {
            let (pipelining, required) = (short(cost.pipelining), short(cost.required));
            let row = OfSize { bytes: size as f64, pipelining, required };
            if !self.by_size.push(row) {
                break;
            }
        }
        self
    }

    /// These, but no message cheaper than `least` has it.
    fn at_least(mut self, least: &Self) -> Self {
        self.pipelining = self.pipelining.max(least.pipelining);
        self.required = self.required.max(least.required);
        self.byte = self.byte.max(least.byte);
        let rows = self.by_size;
        self.by_size = OfSizes::NONE;
        for &OfSize { bytes, pipelining, required } in rows.iter() {
            let (least_pipelining, least_required) = least.message(bytes);
            let pipelining = pipelining.max(least_pipelining);
            // There were no more before.
            let row = OfSize { bytes, pipelining, required: required.max(least_required) };
            let _ = self.by_size.push(row);
        }
        self
    }

    /// What was fitted of a transport, as [`FromStr`](std::str::FromStr) reads it: the word for what is assumed of it, and the fitted parameters,
    /// so that those that are not named are assumed. As for [`fitted`](Self::fitted).
    /// `operations` are those of [`OPERATIONS`](Self::OPERATIONS) that were measured, with what a byte takes.
    ///
    /// Over shared memory the puts of a fit are stores of the sender, in which its receivers have no part: a message, which is
    /// matched and copied by both, takes no less than is assumed, and its receiver what is assumed.
    pub fn text_of_fit<'a>(
        transport: &str,
        (fit, shared): (&BySize, bool),
        operations: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> String {
        let word = Self::word(transport);
        let base = Self::BASES.into_iter().find_map(|(of, costs)| (of == word).then_some(costs));
        let base = base.unwrap_or(Self::RDMA);
        let (stores, shared) = (word == "shm", shared && word != "shm");
        let mut costs = base.fitted(fit, shared);
        if stores {
            costs = costs.at_least(&base);
        }
        let mut names = vec!["pipelining", "required", "byte"];
        if shared {
            names.extend(["receive", "receive_byte"]);
        }
        for (name, value) in operations {
            if let Some(at) = Self::NAMES.iter().position(|known| *known == name) {
                *costs.fields()[at] = short_rate(value);
                names.push(name);
            }
        }
        costs.text(word, &names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_take_the_place_of_what_is_assumed() {
        let cost = |pipelining, required| crate::cost::Pipelining { pipelining, required };
        let points = vec![(8, cost(900.0, 100.0)), (1008, cost(1000.0, 600.0))];
        let fit = BySize::through(points).unwrap();
        let costs = Costs::TCP.fitted(&fit, false);
        assert_eq!((costs.message(8.0), costs.message(508.0)), ((900.0, 100.0), (950.0, 350.0)));
        assert!((costs.byte - 0.5).abs() < 1e-9);
        assert_eq!((costs.receive, costs.copy), (Costs::TCP.receive, Costs::TCP.copy));
        let Costs { receive, receive_byte, .. } = Costs::TCP;
        let shared = Costs::TCP.fitted(&fit, true);
        assert_eq!((shared.receive, shared.receive_byte), (0.0, 0.0));
        assert_eq!(Costs { receive, receive_byte, ..shared }, costs);
        assert_eq!(costs.to_string().parse(), Ok(costs));
        let many = (0..40).map(|size| (size, cost(1.0, 1.0))).collect();
        assert_eq!(Costs::TCP.fitted(&BySize::through(many).unwrap(), true).by_size.len(), 16);
        // What a text does not name is assumed of the transport.
        for (transport, base) in [("tcp", Costs::TCP), ("verbs", Costs::RDMA)] {
            for shared in [false, true] {
                let text = Costs::text_of_fit(transport, (&fit, shared), [("pairs", 0.25)]);
                let wanted = Costs { pairs: 0.25, ..base.fitted(&fit, shared) };
                assert_eq!(text.parse(), Ok(wanted));
                assert_eq!(text.contains("receive"), shared, "{text}");
                assert!(!text.contains("reduce"), "{text}");
            }
        }
    }

    #[test]
    fn stores_make_no_message_cheaper_than_assumed() {
        let cost = |pipelining, required| crate::cost::Pipelining { pipelining, required };
        // Sizes of which one parameter is above what is assumed, and of which none is.
        let points =
            vec![(8, cost(50.0, 5.0)), (1000, cost(500.0, 30.0)), (2000, cost(60.0, 900.0))];
        let fit = BySize::through(points).unwrap();
        let base = Costs::SHARED_MEMORY;
        for shared in [false, true] {
            let text = Costs::text_of_fit("shm", (&fit, shared), [("copy", 0.01)]);
            let costs: Costs = text.parse().unwrap();
            assert_eq!((costs.receive, costs.receive_byte), (base.receive, base.receive_byte));
            assert_eq!(costs.message(8.0), base.message(8.0), "{text}");
            assert_eq!(costs.message(1000.0), (500.0, base.message(1000.0).1), "{text}");
            assert_eq!(costs.message(2000.0), (base.message(2000.0).0, 900.0), "{text}");
            assert_eq!(costs.copy, 0.01);
        }
    }
}
