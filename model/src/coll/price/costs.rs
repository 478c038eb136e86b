//! The costs that prices are made of: assumed ones, and how they are written.

use std::fmt;
use std::str::FromStr;

/// What a rank is charged, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the parameters of a model")]
pub struct Costs {
    /// The part of a message's way that overlaps others, alpha_p.
    pub pipelining: f64,
    /// What a message keeps its sender busy, alpha_r.
    pub required: f64,
    /// What a message keeps its receiver busy.
    pub receive: f64,
    /// What a byte of a message keeps its sender busy, beta.
    pub byte: f64,
    /// What a byte of a copy takes.
    pub copy: f64,
    /// What a byte of a reduction takes, gamma.
    pub reduce: f64,
    /// What it takes to give a processor to another rank.
    pub switch: f64,
}

/// Words that are no costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostsError(String);

impl fmt::Display for CostsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:?} is no cost of messages: shm and tcp are, each with changes behind it, as in \
             tcp,pipelining=100000,required=3000; there are {}, all in nanoseconds and not negative",
            self.0,
            Costs::NAMES.join(", ")
        )
    }
}

impl std::error::Error for CostsError {}

impl Costs {
    /// Of shared memory: assumed, as the [table](crate::coll::choice) of limits does.
    pub const SHARED_MEMORY: Self = Self {
        pipelining: 100.0,
        required: 100.0,
        receive: 150.0,
        byte: 0.1,
        copy: 0.1,
        reduce: 0.15,
        switch: 2000.0,
    };

    /// Of tcp between hosts: assumed.
    pub const TCP: Self = Self {
        pipelining: 20_000.0,
        required: 3000.0,
        receive: 3000.0,
        byte: 0.3,
        copy: 0.1,
        reduce: 0.15,
        switch: 2000.0,
    };

    /// The names of the parameters, in order.
    pub const NAMES: [&str; 7] =
        ["pipelining", "required", "receive", "byte", "copy", "reduce", "switch"];

    const fn fields(&mut self) -> [&mut f64; 7] {
        let Self { pipelining, required, receive, byte, copy, reduce, switch } = self;
        [pipelining, required, receive, byte, copy, reduce, switch]
    }

    /// How long a message of `bytes` keeps its sender busy.
    pub(super) fn send(&self, bytes: f64) -> f64 {
        self.required + bytes * self.byte
    }

    /// The ratio that schedules of recursive multiplying are made for, with messages of `bytes`: the latency of one, in
    /// what one more in a stage adds.
    pub fn ratio(&self, bytes: usize) -> f64 {
        let bytes = bytes as f64;
        self.pipelining / (self.send(bytes) + self.receive + bytes * self.reduce)
    }
}

/// `shm` or `tcp`, and what differs from it: `tcp,pipelining=100000`.
impl FromStr for Costs {
    type Err = CostsError;

    fn from_str(text: &str) -> Result<Self, CostsError> {
        let wrong = || CostsError(text.to_owned());
        let mut words = text.split(',').map(str::trim);
        let mut costs = match words.next() {
            Some("shm") => Self::SHARED_MEMORY,
            Some("tcp") => Self::TCP,
            _ => return Err(wrong()),
        };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            let at = Self::NAMES.iter().position(|known| *known == name).ok_or_else(wrong)?;
            let value: f64 = value.parse().map_err(|_| wrong())?;
            if !(value.is_finite() && value >= 0.0) {
                return Err(wrong());
            }
            *costs.fields()[at] = value;
        }
        Ok(costs)
    }
}

/// As [`FromStr`] reads it, to the last bit.
impl fmt::Display for Costs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut costs = *self;
        write!(out, "tcp")?;
        for (name, value) in Self::NAMES.into_iter().zip(costs.fields()) {
            write!(out, ",{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_costs() {
        assert_eq!("shm".parse(), Ok(Costs::SHARED_MEMORY));
        let far: Costs = "tcp, pipelining=100000,byte=0.5".parse().unwrap();
        assert_eq!(far, Costs { pipelining: 100_000.0, byte: 0.5, ..Costs::TCP });
        for costs in [far, Costs { copy: 0.1 + 0.2, ..Costs::SHARED_MEMORY }] {
            assert_eq!(costs.to_string().parse(), Ok(costs));
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
