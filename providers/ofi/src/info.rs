//! What libfabric offers on this machine, and which of it an interface uses.
//!
//! Offers are asked for with the interface of version 1.17, which libraries of 1.17 and 2.x both
//! speak. A provider that wants more of us than we say (buffered receives, contexts in our
//! memory, raw keys) is not offered to us by libfabric.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use bowline_uct::OpenError;
use libfabric_sys as sys;

use crate::options::{Atomics, OfiOptions, Registration};
use crate::shortage::{is_shortage, shortage};

/// The version of the interface that we ask for.
pub(crate) const VERSION: u32 = sys::fi_version_of(1, 17);

/// Longest address of an endpoint, in bytes.
pub(crate) const MAX_NAME: usize = 512;

/// Providers that are never chosen unless named: they stay on the host, or are for tests.
const NOT_CHOSEN: &[&str] = &["shm", "sm2", "udp", "sockets", "lnx"];

/// Layers that reach peers of the host through memory.
pub(crate) const MEMORY: &[&str] = &["shm", "sm2", "lnx"];

/// A libfabric provider on this machine, for a list of what could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfiOffer {
    /// Name of the provider, with its layers, for instance `tcp;ofi_rxm`.
    pub provider: String,
    /// Name of the domain, for instance `eth0`.
    pub domain: String,
    /// Kind of the endpoint, for instance `FI_EP_RDM`.
    pub endpoint: &'static str,
    /// Why this transport cannot use it; `None` where it can.
    pub unusable: Option<String>,
}

/// Every provider and domain that libfabric knows here, each once.
///
/// Asking takes milliseconds, since libfabric searches for devices.
///
/// # Errors
/// When libfabric has nothing at all to offer.
pub fn list() -> Result<Vec<OfiOffer>, OpenError> {
    let usable: Vec<(String, String)> = match Offers::ask(&OfiOptions::default(), None) {
        Ok(offers) => offers.iter().map(|offer| (offer.provider, offer.domain)).collect(),
        Err(_) => Vec::new(),
    };
    let mut out: Vec<OfiOffer> = Vec::new();
    for offer in Offers::all()?.iter() {
        let known = (offer.provider.clone(), offer.domain.clone());
        let rdm = offer.kind == sys::FI_EP_RDM;
        let unusable = if usable.contains(&known) && rdm {
            None
        } else if rdm {
            Some("lacks messages and remote access in the form that this transport needs".into())
        } else {
            Some("has no reliable datagram endpoint of its own (FI_EP_RDM)".into())
        };
        let endpoint = kind_name(offer.kind);
        let new = OfiOffer { provider: offer.provider, domain: offer.domain, endpoint, unusable };
        if !out.contains(&new) {
            out.push(new);
        }
    }
    Ok(out)
}

const fn kind_name(kind: sys::fi_ep_type) -> &'static str {
    match kind {
        sys::FI_EP_MSG => "FI_EP_MSG",
        sys::FI_EP_DGRAM => "FI_EP_DGRAM",
        sys::FI_EP_RDM => "FI_EP_RDM",
        _ => "another",
    }
}

/// A list of `fi_info`, freed on drop.
#[derive(Debug)]
pub(crate) struct Offers(*mut sys::fi_info);

/// One offer, in words.
struct Offer {
    provider: String,
    domain: String,
    kind: sys::fi_ep_type,
}

/// What an interface needs to know of the offer that it opened.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    pub(crate) provider: String,
    pub(crate) domain: String,
    pub(crate) address_format: u32,
    pub(crate) inject: usize,
    pub(crate) iov: usize,
    pub(crate) longest: usize,
    pub(crate) tx_size: usize,
    pub(crate) ordered: bool,
    /// Endpoints of one process reach each other by pointers.
    pub(crate) shares_memory: bool,
    pub(crate) virtual_addresses: bool,
    pub(crate) register_local: bool,
    pub(crate) bind_memory: bool,
    /// Bits of a key of memory that the user of libfabric may choose.
    pub(crate) key_bits: u32,
    pub(crate) atomics: bool,
}

/// The text of an error of libfabric as that of the system.
pub(crate) fn failure(act: &'static str, error: i32) -> OpenError {
    let error = error.wrapping_abs();
    // Its numbers below 256 are those of the system.
    let mut source = if error < 256 {
        std::io::Error::from_raw_os_error(error)
    } else {
        std::io::Error::other(sys::error_text(error))
    };
    if !is_shortage(&source)
        && let Some(shortage) = shortage()
    {
        source = shortage;
    }
    OpenError::System { act, source }
}

fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a string of libfabric that ends with a zero.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// Whether registering memory fails where atomic operations were asked for. `ofi_rxm` then keeps
/// all registrations in a table by their keys and refuses a second one with the same key; the
/// cache of `verbs` gives the same key to pieces of memory that it has registered together. Nothing is
/// lost without: `ofi_rxm` makes its atomic operations of messages, as we do.
fn loses_registrations(provider: &str) -> bool {
    let has = |layer| provider.split(';').any(|part| part == layer);
    has("verbs") && has("ofi_rxm")
}

impl Offers {
    /// Everything, whatever its kind.
    fn all() -> Result<Self, OpenError> {
        crate::signals::restore_signals();
        let mut list = ptr::null_mut();
        // SAFETY: no node, no service, no hints; the result is ours to free.
        let error = unsafe {
            sys::fi_getinfo(VERSION, ptr::null(), ptr::null(), 0, ptr::null(), &raw mut list)
        };
        if error != 0 {
            return Err(failure("ask libfabric for its providers", error));
        }
        Ok(Self(list))
    }

    /// What fits `options`, and has the capabilities of `extra` beside: atomics, or none.
    fn ask(options: &OfiOptions, extra: Option<u64>) -> Result<Self, OpenError> {
        crate::signals::restore_signals();
        let name = |name: &Option<String>, what| {
            let Some(name) = name else { return Ok(None) };
            CString::new(name.as_str()).map(Some).map_err(|_| {
                OpenError::Limit(format!("the name of a libfabric {what} holds a zero byte"))
            })
        };
        let provider = name(&options.provider, "provider")?;
        let domain = name(&options.domain, "domain")?;
        // SAFETY: takes nothing.
        let hints = unsafe { sys::fi_allocinfo() };
        if hints.is_null() {
            return Err(failure("ask libfabric for its providers", libc::ENOMEM));
        }
        let hints = Self(hints);
        let modes = match options.registration {
            Registration::Auto => {
                sys::FI_MR_VIRT_ADDR
                    | sys::FI_MR_ALLOCATED
                    | sys::FI_MR_PROV_KEY
                    | sys::FI_MR_LOCAL
                    | sys::FI_MR_ENDPOINT
            }
            Registration::Scalable => 0,
        };
        // SAFETY: a fresh `fi_info` has all of its attributes, which are ours; the two names are
        // freed by `fi_freeinfo`, so they are given as copies of its allocator.
        unsafe {
            let info = &mut *hints.0;
            info.caps = sys::FI_MSG | sys::FI_RMA | extra.unwrap_or(0);
            info.mode = 0;
            (*info.ep_attr).type_ = sys::FI_EP_RDM;
            (*info.tx_attr).msg_order = sys::FI_ORDER_SAS;
            (*info.rx_attr).msg_order = sys::FI_ORDER_SAS;
            let attr = &mut *info.domain_attr;
            attr.threading = sys::FI_THREAD_DOMAIN;
            attr.data_progress = sys::FI_PROGRESS_MANUAL;
            attr.control_progress = sys::FI_PROGRESS_UNSPEC;
            attr.resource_mgmt = sys::FI_RM_ENABLED;
            attr.mr_mode = modes as i32;
            if let Some(domain) = &domain {
                attr.name = libc::strdup(domain.as_ptr());
            }
            if let Some(provider) = &provider {
                (*info.fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            }
        }
        let mut list = ptr::null_mut();
        // SAFETY: `hints` is whole; the result is ours to free.
        let error = unsafe {
            sys::fi_getinfo(VERSION, ptr::null(), ptr::null(), 0, hints.0, &raw mut list)
        };
        if error != 0 {
            return Err(failure("find a libfabric provider as wanted (see `fi_info`)", error));
        }
        Ok(Self(list))
    }

    fn nodes(&self) -> impl Iterator<Item = *mut sys::fi_info> + '_ {
        let mut next = self.0;
        std::iter::from_fn(move || {
            let node = next;
            // SAFETY: a node of the list that `self` keeps, or null.
            next = unsafe { node.as_ref() }?.next;
            Some(node)
        })
    }

    fn iter(&self) -> impl Iterator<Item = Offer> + '_ {
        self.nodes().map(|node| {
            // SAFETY: a node of the list that `self` keeps; libfabric sets all attributes.
            unsafe {
                Offer {
                    provider: text((*(*node).fabric_attr).prov_name),
                    domain: text((*(*node).domain_attr).name),
                    kind: (*(*node).ep_attr).type_,
                }
            }
        })
    }

    /// The offer that `options` leads to, alone in its list.
    pub(crate) fn choose(options: &OfiOptions) -> Result<Self, OpenError> {
        let wishes: &[u64] = match options.atomics {
            Atomics::Auto => &[sys::FI_ATOMIC, 0],
            Atomics::Native => &[sys::FI_ATOMIC],
            Atomics::Emulated => &[0],
        };
        let mut last = None;
        for &extra in wishes {
            match Self::ask(options, Some(extra)) {
                Ok(offers) => match offers.first_fit(options, extra & sys::FI_ATOMIC != 0) {
                    Some(node) => {
                        // SAFETY: a node of the list; the copy is ours and has no successor.
                        let copy = unsafe { sys::fi_dupinfo(node) };
                        if copy.is_null() {
                            return Err(failure("copy an offer of libfabric", libc::ENOMEM));
                        }
                        return Ok(Self(copy));
                    }
                    None => last = None,
                },
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            OpenError::Limit(
                "libfabric has no provider that leads to other hosts; name one with \
                 BOWLINE_OFI_PROVIDER (`fi_info` lists them)"
                    .into(),
            )
        }))
    }

    fn first_fit(&self, options: &OfiOptions, atomics: bool) -> Option<*mut sys::fi_info> {
        let mut all = self.nodes().zip(self.iter());
        let lacks = |offer: &Offer| {
            atomics && options.atomics == Atomics::Auto && loses_registrations(&offer.provider)
        };
        let stays = |provider: &str| provider.split(';').any(|layer| NOT_CHOSEN.contains(&layer));
        let fits = |offer: &Offer| match &options.provider {
            // libfabric also offers what is merely layered over the name.
            Some(name) => !name.contains(';') || *name == offer.provider,
            None => !stays(&offer.provider) && offer.domain != "lo",
        };
        all.find(|(_, offer)| fits(offer) && !lacks(offer)).map(|(node, _)| node)
    }

    /// What libfabric is given to open it; valid while `self` lives.
    pub(crate) const fn as_ptr(&self) -> *mut sys::fi_info {
        self.0
    }

    /// What the first offer is like.
    pub(crate) fn traits(&self) -> Traits {
        // SAFETY: the list has a first node with all attributes, as `choose` found it.
        unsafe {
            let info = &*self.0;
            let (tx, domain) = (&*info.tx_attr, &*info.domain_attr);
            let mode = domain.mr_mode as u64;
            let provider = text((*info.fabric_attr).prov_name);
            Traits {
                shares_memory: provider.split(';').any(|layer| MEMORY.contains(&layer)),
                provider,
                domain: text(domain.name),
                address_format: info.addr_format,
                inject: tx.inject_size,
                iov: tx.iov_limit.max(1),
                longest: (*info.ep_attr).max_msg_size,
                tx_size: tx.size,
                ordered: tx.msg_order & sys::FI_ORDER_SAS != 0,
                virtual_addresses: mode & sys::FI_MR_VIRT_ADDR != 0,
                register_local: mode & sys::FI_MR_LOCAL != 0,
                bind_memory: mode & sys::FI_MR_ENDPOINT != 0,
                key_bits: (domain.mr_key_size as u32).saturating_mul(8).clamp(1, 64),
                atomics: info.caps & sys::FI_ATOMIC != 0,
            }
        }
    }
}

impl Drop for Offers {
    fn drop(&mut self) {
        // SAFETY: the list came from libfabric and is freed once.
        unsafe { sys::fi_freeinfo(self.0) };
    }
}
