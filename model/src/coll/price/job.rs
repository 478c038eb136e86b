//! The costs of messages in a job, within nodes and between them, and how settings state them.

use std::fmt;
use std::str::FromStr;

use super::{Costs, CostsError};

/// What messages cost in a job: within nodes and between them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "two parts")]
pub struct JobCosts {
    /// Between ranks of one node.
    pub near: Costs,
    /// Between ranks of different nodes.
    pub far: Costs,
}

impl JobCosts {
    /// Assumed: shared memory within nodes and tcp between them.
    pub const ASSUMED: Self = Self { near: Costs::SHARED_MEMORY, far: Costs::TCP };

    /// What text says of messages within nodes, and of those between them where it is something else.
    pub fn halves(text: &str) -> (&str, Option<&str>) {
        // Costs by size have such a slash too, behind a number.
        let far = ["/shm", "/tcp", "/rdma"].into_iter().find_map(|word| text.find(word));
        far.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
    }
}

/// Costs of all messages, or those within nodes and those between them: `shm/tcp,pipelining=100000`.
impl FromStr for JobCosts {
    type Err = CostsError;

    fn from_str(text: &str) -> Result<Self, CostsError> {
        match Self::halves(text) {
            (near, Some(far)) => Ok(Self { near: near.parse()?, far: far.parse()? }),
            (text, None) => {
                let costs: Costs = text.parse()?;
                Ok(Self { near: costs, far: costs })
            }
        }
    }
}

impl fmt::Display for JobCosts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.near == self.far {
            true => write!(out, "{}", self.far),
            false => write!(out, "{}/{}", self.near, self.far),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_all_messages_or_of_two_kinds() {
        let two: JobCosts = "shm,at8=1/2/tcp,at8=3/4,at16=5/6".parse().unwrap();
        assert_eq!((two.near.by_size.len(), two.far.by_size.len()), (1, 2));
        assert_eq!(two.to_string().parse(), Ok(two));
        let one: JobCosts = "tcp,at8=3/4".parse().unwrap();
        assert_eq!(one.near, one.far);
        assert_eq!(one.to_string().parse(), Ok(one));
        assert_eq!("shm/tcp".parse(), Ok(JobCosts::ASSUMED));
        let devices: JobCosts = "shm,at8=1/2/rdma,byte=1".parse().unwrap();
        assert_eq!(devices.far, Costs { byte: 1.0, ..Costs::RDMA });
        "shm/".parse::<JobCosts>().unwrap_err();
        "shm/tcp,x=1".parse::<JobCosts>().unwrap_err();
    }
}
