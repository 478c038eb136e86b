//! What all queue pairs of an interface are made from: the device, its port, the shared queues.

use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bowline_uct::OpenError;

use crate::addr::{Address, is_ipv4};
use crate::options::VerbsOptions;
use crate::sys::{Context, Cq, PairSizes, Pd, Qp, Route, Srq, device_names, ffi};

/// An open device with what its queue pairs share.
#[derive(Debug)]
pub(crate) struct DeviceContext {
    pub(crate) pd: Arc<Pd>,
    /// The device's name.
    pub(crate) device: String,
    pub(crate) port: u8,
    pub(crate) gid: ffi::Gid,
    pub(crate) gid_index: u8,
    pub(crate) lid: u16,
    pub(crate) ethernet: bool,
    /// Largest packet, as the verbs number it.
    pub(crate) mtu: u8,
    /// Key of datagrams to this interface.
    pub(crate) qkey: u32,
    /// Exponent of the retransmission time.
    pub(crate) timeout: u8,
    /// Reads and atomics under way on a connection.
    pub(crate) reads: u8,
    pub(crate) attributes: ffi::DeviceAttr,
    /// Longest message that the port carries.
    pub(crate) max_message: usize,
    /// Queues that reliable pairs share; made by [`DeviceContext::share`].
    shared: Option<(Arc<Cq>, Arc<Srq>, PairSizes)>,
}

fn system(act: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::System { act, source }
}

/// The largest exponent with which the seven tries of a packet fit into `time`.
pub(crate) fn timeout_exponent(time: Duration) -> u8 {
    let units = time.as_nanos() / 7 / 4096;
    (units.max(2).ilog2() as u8).min(31)
}

impl DeviceContext {
    /// Opens the device that the options name, or the first with an active port.
    pub(crate) fn open(options: &VerbsOptions) -> Result<Self, OpenError> {
        let names = device_names().map_err(system("search for RDMA devices"))?;
        let mut reasons = Vec::new();
        for name in &names {
            if !options.device.is_empty() && *name != options.device {
                continue;
            }
            match Self::open_device(name, options) {
                Ok(context) => return Ok(context),
                Err(error) => reasons.push(format!("{name}: {error}")),
            }
        }
        let reason = if names.is_empty() {
            "this machine has no RDMA device".to_owned()
        } else if reasons.is_empty() {
            format!("there is no device {}; there are {}", options.device, names.join(", "))
        } else {
            reasons.join("; ")
        };
        let source = io::Error::new(io::ErrorKind::NotFound, reason);
        Err(OpenError::System { act: "open an RDMA device", source })
    }

    fn open_device(name: &str, options: &VerbsOptions) -> io::Result<Self> {
        let context = Context::open(name)?;
        let attributes = context.attributes()?;
        let (port, found) = (1..=attributes.phys_port_cnt.max(1))
            .find_map(|port| {
                let found = context.port(port).ok()?;
                (found.state == ffi::PORT_ACTIVE).then_some((port, found))
            })
            .ok_or_else(|| io::Error::other("no port of it is active"))?;
        let ethernet = found.link_layer == ffi::LINK_LAYER_ETHERNET;
        let (gid_index, gid) = choose_gid(&context, port, found.gid_tbl_len, ethernet)?;
        let reads = attributes.max_qp_rd_atom.min(attributes.max_qp_init_rd_atom).clamp(0, 16);
        let random = random_word();
        Ok(Self {
            pd: Pd::new(&context)?,
            device: name.to_owned(),
            port,
            gid,
            gid_index,
            lid: found.lid,
            ethernet,
            mtu: found.active_mtu.clamp(1, 5) as u8,
            // The highest bit is kept for the system's own keys.
            qkey: random as u32 & 0x7fff_ffff,
            timeout: timeout_exponent(options.peer_timeout),
            reads: reads as u8,
            attributes,
            max_message: found.max_msg_sz as usize,
            shared: None,
        })
    }

    /// Makes the queues that reliable pairs share.
    pub(crate) fn share(
        &mut self,
        completions: u32,
        receives: u32,
        sizes: PairSizes,
    ) -> Result<(Arc<Cq>, Arc<Srq>), OpenError> {
        let cq =
            Cq::new(self.pd.context(), completions).map_err(system("make a completion queue"))?;
        let srq = Srq::new(&self.pd, receives).map_err(system("make a shared receive queue"))?;
        self.shared = Some((Arc::clone(&cq), Arc::clone(&srq), sizes));
        Ok((cq, srq))
    }

    /// A reliable pair that is ready to be connected.
    pub(crate) fn make_pair(&self) -> io::Result<Qp> {
        let (cq, srq, sizes) =
            self.shared.as_ref().expect("only interfaces with shared queues make such pairs");
        let pair = Qp::reliable(&self.pd, cq, srq, *sizes)?;
        pair.prepare(self.port)?;
        Ok(pair)
    }

    /// Where packets to `peer` go.
    pub(crate) fn route_to(&self, peer: &Address) -> Route {
        Route {
            lid: peer.lid,
            gid: peer.gid,
            sgid_index: self.gid_index,
            port: self.port,
            global: self.ethernet,
        }
    }

    /// A first packet number that stragglers of earlier connections do not have.
    pub(crate) fn random_psn(&self) -> u32 {
        random_word() as u32 & 0x00ff_ffff
    }
}

/// A word that no other interface has, in all likelihood.
pub(crate) fn random_word() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // The standard hasher is keyed at random and moves on with each use.
        _ => std::hash::RandomState::new().build_hasher().finish(),
    }
}

/// Ethernet packets carry a global address: the one of IPv4 in RoCE v2, which routers know; else
/// any of RoCE v2. InfiniBand has one, the first.
fn choose_gid(
    context: &Context,
    port: u8,
    entries: i32,
    ethernet: bool,
) -> io::Result<(u8, ffi::Gid)> {
    let mut second = None;
    for index in 0..u32::try_from(entries).unwrap_or(0).min(256) {
        let Ok(entry) = context.gid(port, index) else { continue };
        if entry.gid == [0; 16] {
            continue;
        }
        if !ethernet {
            return Ok((index as u8, entry.gid));
        }
        if entry.gid_type != ffi::GID_TYPE_ROCE_V2 {
            continue;
        }
        if is_ipv4(&entry.gid) {
            return Ok((index as u8, entry.gid));
        }
        second = second.or(Some((index as u8, entry.gid)));
    }
    second.ok_or_else(|| io::Error::other("its port has no global address; give it an IP address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_tries_fit_into_the_time() {
        for millis in [50, 400, 1000, 10_000, 600_000] {
            let time = Duration::from_millis(millis);
            let exponent = timeout_exponent(time);
            let all = Duration::from_nanos(7 * (4096 << exponent));
            assert!(all <= time && all * 2 > time, "{millis} ms: {all:?}");
        }
    }
}
