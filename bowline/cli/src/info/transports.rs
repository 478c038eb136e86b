//! The transports of this build: opened for a world of one rank and asked what they can do.

use std::fmt::Write;

use bowline::uct::{AtomicOps, Caps, Iface, IfaceAttr, MdAttr, OpLimits};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_self::{SelfConfig, SelfIface};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use serde::Serialize;

use crate::numbers::about;

/// A transport, or why it is absent.
#[derive(Debug, Serialize)]
pub(super) struct Transport {
    name: &'static str,
    #[serde(flatten)]
    state: State,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Absent { reason: String },
    Open(Box<Abilities>),
}

#[derive(Debug, Serialize)]
struct Abilities {
    device: String,
    capabilities: Vec<String>,
    active_messages: Limits,
    put: Limits,
    get: Limits,
    atomics: Vec<String>,
    max_endpoints: u32,
    receive_bytes: usize,
    memory: Domain,
}

/// Largest payloads, bytes; 0 where a flavour is missing.
#[derive(Debug, Serialize)]
struct Limits {
    max_short: usize,
    max_bcopy: usize,
    min_zcopy: usize,
    max_zcopy: usize,
    max_iov: usize,
}

#[derive(Debug, Serialize)]
struct Domain {
    allocates: bool,
    registers: bool,
    rkey_bytes: usize,
}

/// Every transport, the preferred first.
pub(super) fn all(config: &Config) -> Vec<Transport> {
    let itself = SelfIface::open(SelfConfig::of(config));
    let itself = itself.map(|iface| abilities(&iface)).map_err(|error| error.to_string());
    let tcp = TcpIface::open(TcpOptions::from_config(config, [0; 32]));
    let tcp = tcp.map(|iface| abilities(&iface)).map_err(|error| error.to_string());
    vec![
        Transport::new("self", itself),
        Transport::new("shm", shm(config)),
        Transport::new("tcp", tcp),
        #[cfg(feature = "ofi")]
        Transport::new("ofi", ofi(config)),
    ]
}

#[cfg(feature = "ofi")]
fn ofi(config: &Config) -> Result<Abilities, String> {
    let iface =
        bowline_ofi::OfiIface::open(bowline_ofi::OfiOptions::from_config(config, false, [0; 32]));
    iface.map(|iface| abilities(&iface)).map_err(|error| error.to_string())
}

fn shm(config: &Config) -> Result<Abilities, String> {
    let options = ShmOptions::from_config(config);
    let area_bytes = options.area_bytes();
    let spec = JobSpec { job_id: 1, ranks: 1, first_rank: 0, area_bytes };
    let job = JobMemory::create_memfd(&spec).map_err(|error| error.to_string())?;
    job.attach(0).map_err(|error| error.to_string())?;
    let iface = ShmIface::open(job, 0, options).map_err(|error| error.to_string())?;
    Ok(abilities(&iface))
}

fn abilities(iface: &dyn Iface) -> Abilities {
    let attr: &IfaceAttr = iface.attr();
    let MdAttr { can_alloc, can_register, rkey_bytes, .. } = iface.md_attr();
    let names = |caps: Caps| caps.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    let ops = |ops: AtomicOps| ops.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    Abilities {
        device: attr.device.clone(),
        capabilities: names(attr.caps),
        active_messages: attr.limits.am.into(),
        put: attr.limits.put.into(),
        get: attr.limits.get.into(),
        atomics: ops(attr.atomics),
        max_endpoints: attr.max_endpoints,
        receive_bytes: attr.receive_bytes,
        memory: Domain { allocates: can_alloc, registers: can_register, rkey_bytes },
    }
}

impl From<OpLimits> for Limits {
    fn from(limits: OpLimits) -> Self {
        Self {
            max_short: limits.max_short,
            max_bcopy: limits.max_bcopy,
            min_zcopy: limits.min_zcopy,
            max_zcopy: limits.max_zcopy,
            max_iov: limits.max_iov,
        }
    }
}

impl Transport {
    fn new(name: &'static str, state: Result<Abilities, String>) -> Self {
        let state = match state {
            Ok(abilities) => State::Open(Box::new(abilities)),
            Err(reason) => State::Absent { reason },
        };
        Self { name, state }
    }

    /// The transport for people; `limits` asks for more than the first lines.
    pub(super) fn text(&self, limits: bool) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        let abilities = match &self.state {
            State::Absent { reason } => {
                writeln!(out, "transport {}: absent: {reason}", self.name)?;
                return Ok(out);
            }
            State::Open(abilities) => abilities,
        };
        writeln!(out, "transport {} on {}", self.name, abilities.device)?;
        let memory = about(abilities.receive_bytes as u64);
        writeln!(out, "    receive memory     {memory} per rank")?;
        writeln!(out, "    can                {}", abilities.capabilities.join(" "))?;
        writeln!(out, "    atomics            {}", abilities.atomics.join(" "))?;
        if !limits {
            return Ok(out);
        }
        writeln!(out, "    endpoints          {} at most", abilities.max_endpoints)?;
        let Domain { allocates, registers, rkey_bytes } = abilities.memory;
        let can = |can| if can { "yes" } else { "no" };
        writeln!(
            out,
            "    memory             allocates: {}, registers: {}, keys of {rkey_bytes} bytes",
            can(allocates),
            can(registers)
        )?;
        for (name, limits) in [
            ("active messages", &abilities.active_messages),
            ("put", &abilities.put),
            ("get", &abilities.get),
        ] {
            writeln!(out, "    {name:<18} {}", limits.text())?;
        }
        Ok(out)
    }
}

impl Limits {
    fn text(&self) -> String {
        let largest = |bytes| match bytes {
            0 => "-".to_owned(),
            usize::MAX => "any".to_owned(),
            bytes => about(bytes as u64),
        };
        format!(
            "short {}, bcopy {}, zcopy {} ({} pieces)",
            largest(self.max_short),
            largest(self.max_bcopy),
            largest(self.max_zcopy),
            self.max_iov
        )
    }
}
