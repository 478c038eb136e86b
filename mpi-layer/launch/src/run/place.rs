//! Hosts by name, and which ranks go where: consecutive ranks in blocks, hosts in the order given.

use std::str::FromStr;

/// A host and how many ranks it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// Its name, as the agent command understands it.
    pub name: String,
    /// Most ranks that it takes. Where no host of a job says it, the ranks are spread evenly;
    /// where others do, a host that does not takes one.
    pub slots: Option<u32>,
}

/// What is wrong with a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A name that is none.
    #[error(
        "cannot use {0:?} as a host: a name has letters, digits and the characters . _ - @ % only, \
         does not begin with -, and may be followed by a colon and the number of its slots"
    )]
    Name(String),
    /// A host twice.
    #[error("host {0} is named twice; name it once, with slots for all its ranks ({0}:2)")]
    Twice(String),
    /// More ranks than slots.
    #[error("the hosts have {slots} slots for {ranks} ranks; name more hosts or give them slots")]
    Slots {
        /// Slots of all hosts.
        slots: u64,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A line of a host file.
    #[error("line {line} of the host file: {source}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        source: Box<HostError>,
    },
    /// An agent command without words.
    #[error("the command that starts an agent is empty; without one, `env` runs it on this host")]
    Command,
}

impl FromStr for Host {
    type Err = HostError;

    /// Reads `name` or `name:slots`.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let error = || HostError::Name(text.into());
        let (name, slots) = match text.split_once(':') {
            Some((name, slots)) => {
                let slots = slots.parse().ok().filter(|slots| *slots > 0).ok_or_else(error)?;
                (name, Some(slots))
            }
            None => (text, None),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@%".contains(c);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(allowed) {
            return Err(error());
        }
        Ok(Self { name: name.into(), slots })
    }
}

impl Host {
    /// Reads a list of hosts between commas.
    ///
    /// # Errors
    /// When a name is none.
    pub fn list(text: &str) -> Result<Vec<Self>, HostError> {
        text.split(',').map(|host| host.trim().parse()).collect()
    }

    /// Reads a host file: one host per line, as `name`, `name:slots` or `name slots=N`; what
    /// follows `#` is a comment.
    ///
    /// # Errors
    /// When a line is something else.
    pub fn file(text: &str) -> Result<Vec<Self>, HostError> {
        let mut hosts = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let host = match words[..] {
                [host] => host.parse(),
                [name, slots] => match slots.strip_prefix("slots=") {
                    Some(slots) => format!("{name}:{slots}").parse(),
                    None => Err(HostError::Name(line.into())),
                },
                _ => Err(HostError::Name(line.into())),
            };
            let failed = |source| HostError::Line { line: number, source: Box::new(source) };
            hosts.push(host.map_err(failed)?);
        }
        Ok(hosts)
    }
}

/// How many of `ranks` each host gets, in order; some may get none.
pub(super) fn place(hosts: &[Host], ranks: u32) -> Result<Vec<u32>, HostError> {
    for (at, host) in hosts.iter().enumerate() {
        if hosts[..at].iter().any(|other| other.name == host.name) {
            return Err(HostError::Twice(host.name.clone()));
        }
    }
    if hosts.iter().all(|host| host.slots.is_none()) {
        let count = hosts.len() as u32;
        let more = ranks % count;
        return Ok((0..count).map(|host| ranks / count + u32::from(host < more)).collect());
    }
    let mut left = ranks;
    let mut placed = Vec::with_capacity(hosts.len());
    for host in hosts {
        let here = host.slots.unwrap_or(1).min(left);
        placed.push(here);
        left -= here;
    }
    if left > 0 {
        let slots = hosts.iter().map(|host| u64::from(host.slots.unwrap_or(1))).sum();
        return Err(HostError::Slots { slots, ranks });
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_slots() {
        let hosts = Host::list("a, user@b-1.example:3").unwrap();
        assert_eq!(hosts[0], Host { name: "a".into(), slots: None });
        assert_eq!(hosts[1], Host { name: "user@b-1.example".into(), slots: Some(3) });
        for bad in ["", "a,,b", "-oProxyCommand=x", "a:0", "a:x", "a b", "a;b", "a:1:2", "$(a)"] {
            assert!(Host::list(bad).is_err(), "{bad:?} was accepted");
        }
        let file = "# ours\na\n\nb:2 # two\nc slots=4\n";
        assert_eq!(Host::file(file).unwrap(), Host::list("a,b:2,c:4").unwrap());
        let error = Host::file("a\nb max=2\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2"), "{error}");
    }

    #[test]
    fn ranks_go_in_blocks() {
        let placed = |hosts: &str, ranks| place(&Host::list(hosts).unwrap(), ranks);
        assert_eq!(placed("a,b", 4), Ok(vec![2, 2]));
        assert_eq!(placed("a,b,c", 4), Ok(vec![2, 1, 1]));
        assert_eq!(placed("a,b,c", 2), Ok(vec![1, 1, 0]));
        assert_eq!(placed("a:3,b,c:2", 5), Ok(vec![3, 1, 1]));
        assert_eq!(placed("a:3,b:3", 2), Ok(vec![2, 0]));
        assert_eq!(placed("a:1,b", 3), Err(HostError::Slots { slots: 2, ranks: 3 }));
        assert_eq!(placed("a:1,a:1", 2), Err(HostError::Twice("a".into())));
    }
}
