//! Queue pairs and what is posted to them.

use std::ffi::c_uint;
use std::io;
use std::ptr;
use std::sync::Arc;

use super::device::{Pd, check};
use super::ffi;
use super::load::loaded;
use super::object::LibraryObject;
use super::queue::{Chain, Cq, Srq};

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairSizes {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    pub(crate) send_pieces: u32,
    pub(crate) inline_bytes: u32,
}

/// Where a peer's port is: local id and global address, with the entry of our own table that
/// packets come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) lid: u16,
    pub(crate) gid: ffi::Gid,
    pub(crate) sgid_index: u8,
    pub(crate) port: u8,
    /// Whether packets carry the global address; always so on Ethernet.
    pub(crate) global: bool,
}

impl Route {
    fn attributes(&self) -> ffi::AhAttr {
        ffi::AhAttr {
            grh: ffi::GlobalRoute {
                dgid: ffi::AlignedGid(self.gid),
                sgid_index: self.sgid_index,
                hop_limit: 64,
                ..ffi::GlobalRoute::default()
            },
            dlid: self.lid,
            is_global: u8::from(self.global),
            port_num: self.port,
            ..ffi::AhAttr::default()
        }
    }
}

/// How a reliable connection is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) route: Route,
    pub(crate) pair: u32,
    pub(crate) their_psn: u32,
    pub(crate) our_psn: u32,
    pub(crate) mtu: c_uint,
    /// Exponent of the time after which a packet is sent again: 4.096 us times 2 to its power.
    pub(crate) timeout: u8,
    /// Reads and atomics that each side may have under way at the other.
    pub(crate) reads: u8,
}

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work<'a> {
    Send,
    Datagram { to: &'a Ah, pair: u32, key: u32 },
    Write { address: u64, key: u32 },
    Read { address: u64, key: u32 },
    FetchAdd { address: u64, key: u32, by: u64 },
    CompareSwap { address: u64, key: u32, compare: u64, new: u64 },
}

/// Where the bytes of a request lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes<'a> {
    /// In registered memory, read or written until the completion.
    Registered(&'a [ffi::Sge]),
    /// Here, copied in the call.
    Inline(&'a [u8], &'a [u8]),
}

/// A request to be posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    pub(crate) work: Work<'a>,
    pub(crate) bytes: Bytes<'a>,
    /// Whether its completion is wanted.
    pub(crate) signalled: bool,
    /// Whether it waits for earlier reads and atomics.
    pub(crate) fenced: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    raw: LibraryObject<ffi::Qp>,
    inline_bytes: u32,
    _pd: Arc<Pd>,
    _cq: Arc<Cq>,
    _srq: Option<Arc<Srq>>,
}

impl Qp {
    /// A pair for a reliable connection, receiving from `srq`.
    pub(crate) fn reliable(
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
        srq: &Arc<Srq>,
        sizes: PairSizes,
    ) -> Result<Self, io::Error> {
        Self::new(pd, cq, Some(srq), ffi::QPT_RC, sizes)
    }

    pub(crate) fn datagrams(
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
        sizes: PairSizes,
    ) -> Result<Self, io::Error> {
        Self::new(pd, cq, None, ffi::QPT_UD, sizes)
    }

    fn new(
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
        srq: Option<&Arc<Srq>>,
        kind: c_uint,
        sizes: PairSizes,
    ) -> Result<Self, io::Error> {
        let mut attributes = ffi::QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: cq.raw(),
            recv_cq: cq.raw(),
            srq: srq.map_or(ptr::null_mut(), |srq| srq.raw()),
            cap: ffi::QpCap {
                max_send_wr: sizes.sends,
                max_recv_wr: sizes.receives,
                max_send_sge: sizes.send_pieces,
                max_recv_sge: 1,
                max_inline_data: sizes.inline_bytes,
            },
            qp_type: kind,
            sq_sig_all: 0,
        };
        // SAFETY: domain and queues are alive and kept so; the library copies the attributes and
        // writes the sizes that it granted. Nothing else names the pair; the device has let go of it when it
        // is destroyed.
        let raw = unsafe {
            let raw = (loaded().create_qp)(pd.raw(), &raw mut attributes);
            LibraryObject::new(raw, loaded().destroy_qp)?
        };
        let inline_bytes = attributes.cap.max_inline_data;
        let (pd, cq) = (Arc::clone(pd), Arc::clone(cq));
        Ok(Self { raw, inline_bytes, _pd: pd, _cq: cq, _srq: srq.cloned() })
    }

    /// Its number on the device.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the pair is alive; the field does not change.
        unsafe { (*self.raw.raw()).number }
    }

    /// Bytes that a request may carry inline.
    pub(crate) const fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }

    fn modify(&self, attributes: &ffi::QpAttr, mask: i32) -> Result<(), io::Error> {
        let mut attributes = *attributes;
        // SAFETY: the pair is alive; the library reads the attributes of the mask.
        check(unsafe { (loaded().modify_qp)(self.raw.raw(), &raw mut attributes, mask) })
    }

    /// Prepares a reliable pair, to which peers may then do what registrations permit.
    pub(crate) fn prepare(&self, port: u8) -> Result<(), io::Error> {
        let access = ffi::ACCESS_REMOTE_WRITE | ffi::ACCESS_REMOTE_READ | ffi::ACCESS_REMOTE_ATOMIC;
        let attributes = ffi::QpAttr {
            qp_state: ffi::QPS_INIT,
            port_num: port,
            qp_access_flags: access as c_uint,
            ..ffi::QpAttr::default()
        };
        let mask = ffi::QP_STATE | ffi::QP_PKEY_INDEX | ffi::QP_PORT | ffi::QP_ACCESS_FLAGS;
        self.modify(&attributes, mask)
    }

    /// Connects a prepared pair: it sends and receives from here on.
    pub(crate) fn connect(&self, connection: &Connection) -> Result<(), io::Error> {
        let attributes = ffi::QpAttr {
            qp_state: ffi::QPS_RTR,
            path_mtu: connection.mtu,
            dest_qp_num: connection.pair,
            rq_psn: connection.their_psn,
            max_dest_rd_atomic: connection.reads,
            // 0.16 ms: the pause of a peer that found no receive buffer here.
            min_rnr_timer: 8,
            ah_attr: connection.route.attributes(),
            ..ffi::QpAttr::default()
        };
        let mask = ffi::QP_STATE
            | ffi::QP_AV
            | ffi::QP_PATH_MTU
            | ffi::QP_DEST_QPN
            | ffi::QP_RQ_PSN
            | ffi::QP_MAX_DEST_RD_ATOMIC
            | ffi::QP_MIN_RNR_TIMER;
        self.modify(&attributes, mask)?;
        let attributes = ffi::QpAttr {
            qp_state: ffi::QPS_RTS,
            sq_psn: connection.our_psn,
            timeout: connection.timeout,
            // Seven tries in all. Of the largest count, 7, soft-RoCE makes "without end".
            retry_cnt: 6,
            // Without end: a receiver that computes has no buffers for a while and yet lives.
            rnr_retry: 7,
            max_rd_atomic: connection.reads,
            ..ffi::QpAttr::default()
        };
        let mask = ffi::QP_STATE
            | ffi::QP_SQ_PSN
            | ffi::QP_TIMEOUT
            | ffi::QP_RETRY_CNT
            | ffi::QP_RNR_RETRY
            | ffi::QP_MAX_QP_RD_ATOMIC;
        self.modify(&attributes, mask)
    }

    /// Makes a datagram pair send and receive.
    pub(crate) fn start_datagrams(&self, port: u8, key: u32) -> Result<(), io::Error> {
        let mut attributes = ffi::QpAttr {
            qp_state: ffi::QPS_INIT,
            port_num: port,
            qkey: key,
            ..ffi::QpAttr::default()
        };
        let mask = ffi::QP_STATE | ffi::QP_PKEY_INDEX | ffi::QP_PORT | ffi::QP_QKEY;
        self.modify(&attributes, mask)?;
        attributes.qp_state = ffi::QPS_RTR;
        self.modify(&attributes, ffi::QP_STATE)?;
        attributes.qp_state = ffi::QPS_RTS;
        self.modify(&attributes, ffi::QP_STATE | ffi::QP_SQ_PSN)
    }

    /// Ends everything under way: after this the device touches no memory for the pair.
    pub(crate) fn stop(&self) -> Result<(), io::Error> {
        let attributes = ffi::QpAttr { qp_state: ffi::QPS_ERR, ..ffi::QpAttr::default() };
        self.modify(&attributes, ffi::QP_STATE)
    }

    /// Posts one request: one call, one ringing of the device.
    #[inline(always)]
    pub(crate) fn post(&self, request: &Request<'_>) -> Result<(), io::Error> {
        let mut pieces = [ffi::Sge::default(); 2];
        let mut raw = translate(request, &mut pieces);
        self.post_raw(&mut raw)
    }

    /// Posts two requests that follow each other: one call, one ringing of the device.
    pub(crate) fn post_two(
        &self,
        first: &Request<'_>,
        next: &Request<'_>,
    ) -> Result<(), io::Error> {
        let mut pieces = [[ffi::Sge::default(); 2]; 2];
        let [first_pieces, next_pieces] = &mut pieces;
        let mut next = translate(next, next_pieces);
        let mut first = translate(first, first_pieces);
        first.next = &raw mut next;
        self.post_raw(&mut first)
    }

    #[inline]
    fn post_raw(&self, request: &mut ffi::SendWr) -> Result<(), io::Error> {
        let mut bad = ptr::null_mut();
        // SAFETY: the pair is alive. The requests, their pieces and what is inline live until the
        // call returns, when the library has copied them. Registered bytes are protected by the
        // pieces' keys: those who registered them keep them until the completion.
        check(unsafe {
            let post = (*(*self.raw.raw()).context).ops.post_send;
            post(self.raw.raw(), request, &raw mut bad)
        })
    }

    /// Posts buffers to a pair with a receive queue of its own, in one call; at most 16.
    pub(crate) fn post_receives(&self, buffers: &[(u64, ffi::Sge)]) -> Result<(), io::Error> {
        let mut chain = Chain::new(buffers);
        let mut bad = ptr::null_mut();
        // SAFETY: as for `Srq::post`.
        check(unsafe {
            let post = (*(*self.raw.raw()).context).ops.post_recv;
            post(self.raw.raw(), chain.first(), &raw mut bad)
        })
    }
}

/// The request as the library takes it. It points to the pieces, which the caller keeps.
#[inline(always)]
fn translate(request: &Request<'_>, inline: &mut [ffi::Sge; 2]) -> ffi::SendWr {
    let (opcode, remote) = match request.work {
        Work::Send => (ffi::WR_SEND, [0; 4]),
        Work::Datagram { to, pair, key } => {
            (ffi::WR_SEND, [to.raw.raw() as u64, two_words(pair, key), 0, 0])
        }
        Work::Write { address, key } => (ffi::WR_RDMA_WRITE, [address, two_words(key, 0), 0, 0]),
        Work::Read { address, key } => (ffi::WR_RDMA_READ, [address, two_words(key, 0), 0, 0]),
        Work::FetchAdd { address, key, by } => {
            (ffi::WR_ATOMIC_FETCH_AND_ADD, [address, by, 0, two_words(key, 0)])
        }
        Work::CompareSwap { address, key, compare, new } => {
            (ffi::WR_ATOMIC_CMP_AND_SWP, [address, compare, new, two_words(key, 0)])
        }
    };
    let mut flags = 0;
    if request.signalled {
        flags |= ffi::SEND_SIGNALED;
    }
    if request.fenced {
        flags |= ffi::SEND_FENCE;
    }
    let pieces: &[ffi::Sge] = match request.bytes {
        Bytes::Registered(pieces) => pieces,
        Bytes::Inline(head, tail) => {
            if !(head.is_empty() && tail.is_empty()) {
                flags |= ffi::SEND_INLINE;
            }
            let piece = |bytes: &[u8]| ffi::Sge {
                addr: bytes.as_ptr() as u64,
                length: bytes.len() as u32,
                lkey: 0,
            };
            *inline = [piece(head), piece(tail)];
            // A piece without bytes would cost the device a read.
            let count = if !tail.is_empty() { 2 } else { usize::from(!head.is_empty()) };
            &inline[..count]
        }
    };
    ffi::SendWr {
        wr_id: request.id,
        next: ptr::null_mut(),
        sg_list: pieces.as_ptr(),
        num_sge: pieces.len() as i32,
        opcode,
        send_flags: flags,
        imm_data: 0,
        remote,
        qp_type: 0,
        bind_or_tso: [0; 6],
    }
}

/// Two 32-bit fields that follow each other in memory, as one word.
#[inline]
const fn two_words(first: u32, second: u32) -> u64 {
    let (a, b) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}

/// The address handle of a peer's datagram pair.
#[derive(Debug)]
pub(crate) struct Ah {
    raw: LibraryObject<ffi::Ah>,
    _pd: Arc<Pd>,
}

impl Ah {
    /// The address handle for `route`.
    pub(crate) fn new(pd: &Arc<Pd>, route: &Route) -> Result<Self, io::Error> {
        let mut attributes = route.attributes();
        // SAFETY: the domain is alive; the library copies the attributes. When the handle goes nothing names
        // it, and the kernel keeps what packets under way need.
        let raw = unsafe {
            let raw = (loaded().create_ah)(pd.raw(), &raw mut attributes);
            LibraryObject::new(raw, loaded().destroy_ah)?
        };
        Ok(Self { raw, _pd: Arc::clone(pd) })
    }
}
