//! The costs that prices are made of: assumed ones, and how they are written.

use std::fmt;
use std::str::FromStr;

use super::OpClass;

/// What a rank is charged, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of a model")]
pub struct Costs {
    /// The part of a message's way that overlaps others, alpha_p.
    pub pipelining: f64,
    /// What the handshake of a message of more than [`Costs::EAGER_MOST`] bytes takes in addition, which overlaps others.
    pub rendezvous: f64,
    /// What a message keeps its sender busy, alpha_r.
    pub required: f64,
    /// What a message keeps its receiver busy.
    pub receive: f64,
    /// What a byte of a message keeps its sender busy, beta.
    pub byte: f64,
    /// What it keeps its receiver busy. A receiver with a processor of its own takes bytes while they are sent; where ranks
    /// share processors, these have this to do too.
    pub receive_byte: f64,
    /// What a byte of a copy takes.
    pub copy: f64,
    /// What a byte of a reduction takes, gamma, of the class [`OpClass::Vector`].
    pub reduce: f64,
    /// What it takes of [`OpClass::Pairs`].
    pub pairs: f64,
    /// What it takes of [`OpClass::Scalar`].
    pub scalar: f64,
    /// What it takes of [`OpClass::Function`].
    pub function: f64,
    /// What it takes to give a processor to another rank.
    pub switch: f64,
    /// Where ranks share processors, how much of the shorter of two times does not overlap the longer: of what the busiest
    /// rank does, and of what all ranks of its processor do. Between 0, if they overlap wholly, and 1.
    pub interference: f64,
    /// What a mark in memory that ranks share takes, where it is written or waited for; 0 where they share none.
    pub mark: f64,
    /// What a byte takes on its way into such memory or out of it.
    pub slot: f64,
    /// What it takes in addition where a collective moves more than caches hold.
    pub spill: f64,
    /// How late a rank is for a stage in the mean, beside what it does for the collective.
    pub skew: f64,
    /// Where they were measured by size, the first two as they were found, in ascending order of sizes. A message's
    /// bytes are in them, and the byte counts only for those beyond the last size.
    pub by_size: OfSizes,
}

/// What messages of one size cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a row of a table")]
pub struct OfSize {
    /// Bytes of a message.
    pub bytes: f64,
    /// alpha_p.
    pub pipelining: f64,
    /// alpha_r, bytes included.
    pub required: f64,
}

/// What messages cost by size, for few sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfSizes {
    rows: [OfSize; Self::MOST],
    len: usize,
}

impl OfSizes {
    /// Sizes that there can be.
    const MOST: usize = 16;
    /// None.
    pub const NONE: Self = {
        let none = OfSize { bytes: 0.0, pipelining: 0.0, required: 0.0 };
        Self { rows: [none; Self::MOST], len: 0 }
    };

    /// Takes in a size that is greater than those before, while there is capacity.
    #[must_use]
    pub(crate) fn push(&mut self, row: OfSize) -> bool {
        let fits = self.len < Self::MOST && self.last().is_none_or(|last| last.bytes < row.bytes);
        if fits {
            self.rows[self.len] = row;
            self.len += 1;
        }
        fits
    }
}

impl std::ops::Deref for OfSizes {
    type Target = [OfSize];

    fn deref(&self) -> &[OfSize] {
        &self.rows[..self.len]
    }
}

/// Words that are no costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostsError(String);

impl fmt::Display for CostsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:?} is no cost of messages: shm, tcp and rdma are, each with changes behind it, as in \
             tcp,pipelining=100000,required=3000; there are {}, none of them negative, and all in nanoseconds but \
             for interference, a part from 0 to 1",
            self.0,
            Costs::NAMES.join(", ")
        )
    }
}

impl std::error::Error for CostsError {}

impl Costs {
    /// Of shared memory: assumed, after what few ranks on two processors took.
    pub const SHARED_MEMORY: Self = Self {
        pipelining: 100.0,
        rendezvous: 0.0,
        required: 100.0,
        receive: 150.0,
        byte: 0.1,
        receive_byte: 0.0,
        copy: 0.1,
        reduce: 0.12,
        pairs: 0.35,
        scalar: 0.75,
        function: 0.4,
        switch: 1600.0,
        interference: 0.0,
        mark: 60.0,
        slot: 0.03,
        spill: 0.115,
        skew: 0.0,
        by_size: OfSizes::NONE,
    };

    /// Of tcp between hosts: assumed. An offer and the answer take as long as two messages more.
    pub const TCP: Self = Self {
        pipelining: 20_000.0,
        rendezvous: 40_000.0,
        required: 4500.0,
        receive: 4500.0,
        byte: 0.3,
        receive_byte: 0.1,
        copy: 0.1,
        reduce: 0.15,
        pairs: 0.3,
        scalar: 0.7,
        function: 0.35,
        switch: 8000.0,
        interference: 0.6,
        mark: 0.0,
        slot: 0.0,
        spill: 0.0,
        skew: 0.0,
        by_size: OfSizes::NONE,
    };

    /// Of messages that network devices move by themselves: assumed, and no fit. The first two and the byte follow the puts
    /// of a Cray XC30 (thesis, table 4.1), whose alpha_r they meet within 9 % at each size. A receiver is charged as
    /// much as a sender, and arithmetic as over tcp.
    pub const RDMA: Self = Self {
        pipelining: 880.0,
        rendezvous: 0.0,
        required: 380.0,
        receive: 380.0,
        byte: 0.23,
        receive_byte: 0.0,
        switch: 5000.0,
        interference: 0.0,
        ..Self::TCP
    };

    /// The assumed costs by their words.
    pub(crate) const BASES: [(&str, Self); 3] =
        [("shm", Self::SHARED_MEMORY), ("tcp", Self::TCP), ("rdma", Self::RDMA)];

    /// The word for the costs that are assumed of a transport, by its name: of those that are neither shared memory nor tcp,
    /// `rdma`.
    pub fn word(transport: &str) -> &'static str {
        match transport {
            "shm" => "shm",
            "tcp" => "tcp",
            _ => "rdma",
        }
    }

    /// The longest message that is sent without asking its receiver, where no setting has another length.
    pub const EAGER_MOST: f64 = 1_048_576.0;

    /// The names of the parameters, in order.
    pub const NAMES: [&str; 17] = [
        "pipelining",
        "rendezvous",
        "required",
        "receive",
        "byte",
        "receive_byte",
        "copy",
        "reduce",
        "pairs",
        "scalar",
        "function",
        "switch",
        "interference",
        "mark",
        "slot",
        "spill",
        "skew",
    ];

    /// Those of operations on vectors, which `fit::operations` finds.
    pub const OPERATIONS: [&str; 5] = ["copy", "reduce", "pairs", "scalar", "function"];

    pub(crate) const fn fields(&mut self) -> [&mut f64; 17] {
        let Self { pipelining, rendezvous, required, receive, byte, copy, reduce, switch, .. } =
            self;
        let Self { receive_byte, pairs, scalar, function, .. } = self;
        let Self { interference, mark, slot, spill, skew, .. } = self;
        [
            pipelining,
            rendezvous,
            required,
            receive,
            byte,
            receive_byte,
            copy,
            reduce,
            pairs,
            scalar,
            function,
            switch,
            interference,
            mark,
            slot,
            spill,
            skew,
        ]
    }

    /// These for operations of a class: what a byte of a reduction takes is what it takes of them.
    #[must_use]
    pub const fn combining(self, class: OpClass) -> Self {
        let reduce = match class {
            OpClass::Vector => self.reduce,
            OpClass::Pairs => self.pairs,
            OpClass::Scalar => self.scalar,
            OpClass::Function => self.function,
        };
        Self { reduce, ..self }
    }

    /// A word for costs, and behind it the named parameters and those by size.
    pub(crate) fn text(mut self, word: &str, names: &[&str]) -> String {
        let mut text = word.to_owned();
        for (name, value) in Self::NAMES.into_iter().zip(self.fields()) {
            if names.contains(&name) {
                text += &format!(",{name}={value}");
            }
        }
        for OfSize { bytes, pipelining, required } in self.by_size.iter() {
            text += &format!(",at{bytes}={pipelining}/{required}");
        }
        text
    }

    /// How long a message of `bytes` is under way beside what keeps its sender busy, and how long that is.
    pub(crate) fn message(&self, bytes: f64) -> (f64, f64) {
        let after = self.by_size.partition_point(|row| row.bytes < bytes);
        match (after.checked_sub(1).map(|before| self.by_size[before]), self.by_size.get(after)) {
            (None, None) => {
                (self.pipelining + self.offer(0.0, bytes), self.required + bytes * self.byte)
            }
            (None, Some(first)) => (first.pipelining, first.required),
            (Some(last), None) => {
                let required = last.required + (bytes - last.bytes) * self.byte;
                (last.pipelining + self.offer(last.bytes, bytes), required)
            }
            (Some(one), Some(next)) => {
                let part = (bytes - one.bytes) / (next.bytes - one.bytes);
                let between = |one: f64, next: f64| one + part * (next - one);
                (between(one.pipelining, next.pipelining), between(one.required, next.required))
            }
        }
    }

    /// What a message of `bytes` waits for its receiver's answer in addition to one of `known` bytes.
    fn offer(&self, known: f64, bytes: f64) -> f64 {
        if known <= Self::EAGER_MOST && bytes > Self::EAGER_MOST { self.rendezvous } else { 0.0 }
    }

    /// The ratio that schedules of recursive multiplying are made for, with messages of `bytes`: the latency of one, in
    /// what one more in a stage adds.
    pub fn ratio(&self, bytes: usize) -> f64 {
        self.message(bytes as f64).0 / self.one_more(bytes)
    }

    /// How late ranks are for a stage, in the same unit.
    pub fn skew_ratio(&self, bytes: usize) -> f64 {
        self.skew / self.one_more(bytes)
    }

    /// What one message more in a stage adds.
    fn one_more(&self, bytes: usize) -> f64 {
        let bytes = bytes as f64;
        self.message(bytes).1 + self.receive + bytes * self.reduce
    }
}

/// `shm`, `tcp` or `rdma`, and what differs from it: `tcp,pipelining=100000`. What was measured by size is written as
/// `at1024=20000/3500`, the bytes of a message, alpha_p and alpha_r.
impl FromStr for Costs {
    type Err = CostsError;

    fn from_str(text: &str) -> Result<Self, CostsError> {
        let wrong = || CostsError(text.to_owned());
        let mut words = text.split(',').map(str::trim);
        let base = words.next().unwrap_or_default();
        let known = Self::BASES.into_iter().find(|(word, _)| *word == base);
        let (_, mut costs) = known.ok_or_else(wrong)?;
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            let number = |text: &str| match text.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
                _ => Err(wrong()),
            };
            if let Some(bytes) = name.strip_prefix("at") {
                let (pipelining, required) = value.split_once('/').ok_or_else(wrong)?;
                let (pipelining, required) = (number(pipelining)?, number(required)?);
                let row = OfSize { bytes: number(bytes)?, pipelining, required };
                if !costs.by_size.push(row) {
                    return Err(wrong());
                }
                continue;
            }
            let at = Self::NAMES.iter().position(|known| *known == name).ok_or_else(wrong)?;
            let value = number(value)?;
            if name == "interference" && value > 1.0 {
                return Err(wrong());
            }
            *costs.fields()[at] = value;
        }
        Ok(costs)
    }
}

/// As [`FromStr`] reads it, to the last bit: the base from which fewest parameters differ, and all parameters.
impl fmt::Display for Costs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alike = |base: Self| {
            let (mut own, mut base) = (*self, base);
            let pairs = own.fields().into_iter().zip(base.fields());
            pairs.filter(|(own, base)| own == base).count()
        };
        let nearest = Self::BASES.into_iter().rev().max_by_key(|(_, base)| alike(*base));
        out.write_str(&self.text(nearest.map_or("tcp", |(word, _)| word), &Self::NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::PUBLISHED;

    #[test]
    fn costs_by_size_are_between_those_that_were_measured() {
        let costs: Costs = "tcp,byte=2,at8=100/10,at1000=300/110".parse().unwrap();
        assert_eq!(costs.to_string().parse(), Ok(costs));
        assert_eq!((costs.message(0.0), costs.message(8.0)), ((100.0, 10.0), (100.0, 10.0)));
        assert_eq!(costs.message(504.0), (200.0, 60.0));
        assert_eq!(
            (costs.message(1000.0), costs.message(1500.0)),
            ((300.0, 110.0), (300.0, 1110.0))
        );
        assert_eq!(Costs::TCP.message(10_000.0), (20_000.0, 7500.0));
        // Beyond a length a message waits for its receiver's answer.
        assert_eq!(Costs::TCP.message(1_048_576.0).0, 20_000.0);
        assert_eq!(Costs::TCP.message(1_048_577.0).0, 60_000.0);
        assert_eq!(costs.message(2e6).0, 40_300.0);
        let long: Costs = "tcp,at8=100/10,at2000000=300/110".parse().unwrap();
        assert_eq!(long.message(3e6).0, 300.0, "it is in what was measured");
        for wrong in [
            "tcp,at8=1",
            "tcp,at8=1/2,at8=1/2",
            "tcp,at9=1/2,at8=1/2",
            "tcp,atx=1/2",
            "tcp,at8=-1/2",
            "tcp,interference=1.1",
        ] {
            wrong.parse::<Costs>().unwrap_err();
        }
    }

    #[test]
    fn costs_of_devices_follow_the_published_ones() {
        for (bytes, pipelining, required) in PUBLISHED {
            let (after, busy) = Costs::RDMA.message(bytes as f64);
            assert!((busy / required - 1.0).abs() < 0.09, "{bytes} bytes: {busy}");
            assert!((after / pipelining - 1.0).abs() < 0.3, "{bytes} bytes: {after}");
        }
    }

    #[test]
    fn words_are_costs() {
        assert_eq!("shm".parse(), Ok(Costs::SHARED_MEMORY));
        assert_eq!("rdma".parse(), Ok(Costs::RDMA));
        let far: Costs = "tcp, pipelining=100000,byte=0.5".parse().unwrap();
        assert_eq!(far, Costs { pipelining: 100_000.0, byte: 0.5, ..Costs::TCP });
        for costs in [far, Costs { copy: 0.1 + 0.2, ..Costs::SHARED_MEMORY }] {
            assert_eq!(costs.to_string().parse(), Ok(costs));
        }
        for (word, base) in Costs::BASES {
            let changed = Costs { pipelining: 1.5, required: 2.5, ..base };
            let text = changed.to_string();
            assert!(text.starts_with(&format!("{word},pipelining=1.5,")), "{text}");
        }
        for wrong in ["", "fast", "tcp,", "tcp,byte", "tcp,byte=-1", "tcp,byte=inf", "tcp,bite=1"] {
            let error = wrong.parse::<Costs>().unwrap_err().to_string();
            assert!(
                error.contains("pipelining") && error.contains(&format!("{wrong:?}")),
                "{error}"
            );
        }
    }
}
