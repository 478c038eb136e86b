//! The algorithm of allreduces that a user asks for, in place of the one that the table chooses.

use std::fmt;
use std::str::FromStr;

use super::forms::Allreduce;
use crate::choice::{Order, choose};
use crate::cost::Pipelining;
use crate::schedule::{Schedule, Token};

/// What a user asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum WantedAllreduce {
    /// What the table chooses.
    #[default]
    Auto,
    /// One of the forms.
    Form(Allreduce),
    /// Recursive multiplying, by the schedule that the published heuristic finds for this ratio of the model's
    /// parameters.
    Multiplying {
        /// alpha_p / alpha_r.
        ratio: f64,
    },
    /// A schedule, for as many ranks as it is one for.
    Schedule(Vec<Token>),
}

/// Words that ask for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedError(String);

impl fmt::Display for WantedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:?} is no algorithm of allreduce: auto, doubling, halving, flat, reduce-bcast, multiplying, \
             multiplying:RATIO and schedules such as a4,a2 are",
            self.0
        )
    }
}

impl std::error::Error for WantedError {}

impl FromStr for WantedAllreduce {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let wrong = || WantedError(text.to_owned());
        Ok(match text {
            "auto" => Self::Auto,
            "doubling" => Self::Form(Allreduce::Doubling),
            "halving" => Self::Form(Allreduce::Halving),
            "flat" => Self::Form(Allreduce::Flat),
            "reduce-bcast" => Self::Form(Allreduce::ReduceBcast),
            "multiplying" => Self::Multiplying { ratio: Pipelining::ARCHER.ratio() },
            _ => match text.strip_prefix("multiplying:") {
                Some(ratio) => {
                    let ratio: f64 = ratio.parse().map_err(|_| wrong())?;
                    if !(ratio.is_finite() && ratio >= 0.0) {
                        return Err(wrong());
                    }
                    Self::Multiplying { ratio }
                }
                None => {
                    let tokens = text.split(',').map(|word| word.trim().parse());
                    Self::Schedule(tokens.collect::<Result<_, _>>().map_err(|_| wrong())?)
                }
            },
        })
    }
}

impl WantedAllreduce {
    /// Whether nothing is asked for.
    #[inline]
    pub fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }

    /// The schedule for so many ranks, if one is wanted and there is one. Operations that are not commutative need
    /// one that [keeps the order of ranks](Schedule::keeps_order).
    pub fn schedule(&self, ranks: u32) -> Option<Schedule> {
        match self {
            Self::Auto | Self::Form(_) => None,
            Self::Multiplying { ratio } => Some(choose(ranks, *ratio, Order::ByCost)),
            Self::Schedule(tokens) => Schedule::new(ranks, tokens.clone()).ok(),
        }
    }

    /// The form, if one is wanted.
    #[inline]
    pub fn form(&self) -> Option<Allreduce> {
        match self {
            Self::Form(form) => Some(*form),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_algorithms() {
        let wanted = |text: &str| text.parse::<WantedAllreduce>();
        assert_eq!(wanted("auto"), Ok(WantedAllreduce::Auto));
        assert_eq!(wanted("halving").unwrap().form(), Some(Allreduce::Halving));
        assert_eq!(wanted("multiplying:2.911").unwrap().schedule(10).unwrap().to_string(), "a5,a2");
        let fixed = wanted("m1g2a3, n1g3a2").unwrap();
        assert_eq!(fixed.schedule(7).unwrap().to_string(), "m1g2a3,n1g3a2");
        assert_eq!((fixed.schedule(8), fixed.form()), (None, None));
        for wrong in
            ["", "fast", "a", "multiplying:-1", "multiplying:inf", "multiplying:x", "a4,,a2"]
        {
            let error = wanted(wrong).unwrap_err().to_string();
            assert!(error.contains("doubling") && error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
