//! The part of libibverbs' binary interface that this provider uses, as `infiniband/verbs.h` of
//! rdma-core lays it out. The interface is frozen: programs of many years run with every later
//! library. A test compares every size and place with the header, where a compiler finds it.
//!
//! Declarations only. What is opaque to us has no fields beyond those that we read.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `union ibv_gid`.
pub(crate) type Gid = [u8; 16];

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Device {
    opaque: [u8; 0],
}

/// The functions that the header calls through the context, in its order. Those that only the
/// library itself calls are kept as plain addresses.
#[repr(C)]
pub(crate) struct ContextOps {
    before_poll: [usize; 11],
    pub(crate) poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    pub(crate) req_notify_cq: unsafe extern "C" fn(*mut Cq, c_int) -> c_int,
    before_srq: [usize; 7],
    pub(crate) post_srq_recv:
        unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    before_send: [usize; 4],
    pub(crate) post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    pub(crate) post_recv: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    after: [usize; 5],
}

#[repr(C)]
pub(crate) struct Context {
    device: *mut Device,
    pub(crate) ops: ContextOps,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
}

#[repr(C)]
pub(crate) struct Pd {
    pub(crate) context: *mut Context,
}

#[repr(C)]
pub(crate) struct Mr {
    context: *mut Context,
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

#[repr(C)]
pub(crate) struct Channel {
    context: *mut Context,
    pub(crate) fd: c_int,
}

#[repr(C)]
pub(crate) struct Cq {
    pub(crate) context: *mut Context,
}

#[repr(C)]
pub(crate) struct Srq {
    pub(crate) context: *mut Context,
}

#[repr(C)]
pub(crate) struct Qp {
    pub(crate) context: *mut Context,
    qp_context: *mut c_void,
    pd: *mut Pd,
    send_cq: *mut Cq,
    recv_cq: *mut Cq,
    srq: *mut Srq,
    handle: u32,
    pub(crate) number: u32,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ah {
    opaque: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceAttr {
    pub(crate) fw_ver: [u8; 64],
    pub(crate) node_guid: u64,
    pub(crate) sys_image_guid: u64,
    pub(crate) max_mr_size: u64,
    pub(crate) page_size_cap: u64,
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) hw_ver: u32,
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    pub(crate) device_cap_flags: c_uint,
    pub(crate) max_sge: c_int,
    pub(crate) max_sge_rd: c_int,
    pub(crate) max_cq: c_int,
    pub(crate) max_cqe: c_int,
    pub(crate) max_mr: c_int,
    pub(crate) max_pd: c_int,
    pub(crate) max_qp_rd_atom: c_int,
    pub(crate) max_ee_rd_atom: c_int,
    pub(crate) max_res_rd_atom: c_int,
    pub(crate) max_qp_init_rd_atom: c_int,
    pub(crate) max_ee_init_rd_atom: c_int,
    pub(crate) atomic_cap: c_uint,
    pub(crate) unused: [c_int; 11],
    pub(crate) max_srq: c_int,
    pub(crate) max_srq_wr: c_int,
    pub(crate) max_srq_sge: c_int,
    pub(crate) max_pkeys: u16,
    pub(crate) local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortAttr {
    pub(crate) state: c_uint,
    pub(crate) max_mtu: c_uint,
    pub(crate) active_mtu: c_uint,
    pub(crate) gid_tbl_len: c_int,
    pub(crate) port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    pub(crate) sm_lid: u16,
    pub(crate) lmc: u8,
    pub(crate) max_vl_num: u8,
    pub(crate) sm_sl: u8,
    pub(crate) subnet_timeout: u8,
    pub(crate) init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    pub(crate) phys_state: u8,
    pub(crate) link_layer: u8,
    pub(crate) flags: u8,
    pub(crate) port_cap_flags2: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GidEntry {
    pub(crate) gid: Gid,
    pub(crate) gid_index: u32,
    pub(crate) port_num: u32,
    pub(crate) gid_type: u32,
    pub(crate) ndev_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GlobalRoute {
    /// Aligned as the union with two 64-bit words that it is in C.
    pub(crate) dgid: AlignedGid,
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlignedGid(pub(crate) Gid);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AhAttr {
    pub(crate) grh: GlobalRoute,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    pub(crate) src_path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

#[repr(C)]
pub(crate) struct QpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut Srq,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: c_uint,
    pub(crate) sq_sig_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QpAttr {
    pub(crate) qp_state: c_uint,
    pub(crate) cur_qp_state: c_uint,
    pub(crate) path_mtu: c_uint,
    pub(crate) path_mig_state: c_uint,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: c_uint,
    pub(crate) cap: QpCap,
    pub(crate) ah_attr: AhAttr,
    pub(crate) alt_ah_attr: AhAttr,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

#[repr(C)]
pub(crate) struct SrqInitAttr {
    pub(crate) srq_context: *mut c_void,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

/// A piece of registered local memory. The device refuses what lies outside of the registration
/// that the key names, so a wrong piece is an error of the operation and no damage.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// The union of what a request says of its remote side, as words: address, operand and operand,
/// key for atomics; address, key for reads and writes; handle, queue pair, key for datagrams.
pub(crate) type RemoteWords = [u64; 4];

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut SendWr,
    pub(crate) sg_list: *const Sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: c_uint,
    pub(crate) send_flags: c_uint,
    pub(crate) imm_data: u32,
    pub(crate) remote: RemoteWords,
    pub(crate) qp_type: u64,
    pub(crate) bind_or_tso: [u64; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut RecvWr,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: c_int,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wc {
    pub(crate) wr_id: u64,
    pub(crate) status: c_uint,
    pub(crate) opcode: c_uint,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: c_uint,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

pub(crate) const PORT_ACTIVE: c_uint = 4;
pub(crate) const LINK_LAYER_ETHERNET: u8 = 2;
pub(crate) const GID_TYPE_ROCE_V2: u32 = 2;
pub(crate) const ATOMIC_NONE: c_uint = 0;
pub(crate) const ATOMIC_GLOB: c_uint = 2;

pub(crate) const ACCESS_LOCAL_WRITE: c_int = 1;
pub(crate) const ACCESS_REMOTE_WRITE: c_int = 2;
pub(crate) const ACCESS_REMOTE_READ: c_int = 4;
pub(crate) const ACCESS_REMOTE_ATOMIC: c_int = 8;

pub(crate) const QPT_RC: c_uint = 2;
pub(crate) const QPT_UD: c_uint = 4;

pub(crate) const QPS_INIT: c_uint = 1;
pub(crate) const QPS_RTR: c_uint = 2;
pub(crate) const QPS_RTS: c_uint = 3;
pub(crate) const QPS_ERR: c_uint = 6;

pub(crate) const QP_STATE: c_int = 1 << 0;
pub(crate) const QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(crate) const QP_PKEY_INDEX: c_int = 1 << 4;
pub(crate) const QP_PORT: c_int = 1 << 5;
pub(crate) const QP_QKEY: c_int = 1 << 6;
pub(crate) const QP_AV: c_int = 1 << 7;
pub(crate) const QP_PATH_MTU: c_int = 1 << 8;
pub(crate) const QP_TIMEOUT: c_int = 1 << 9;
pub(crate) const QP_RETRY_CNT: c_int = 1 << 10;
pub(crate) const QP_RNR_RETRY: c_int = 1 << 11;
pub(crate) const QP_RQ_PSN: c_int = 1 << 12;
pub(crate) const QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(crate) const QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(crate) const QP_SQ_PSN: c_int = 1 << 16;
pub(crate) const QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(crate) const QP_DEST_QPN: c_int = 1 << 20;

pub(crate) const WR_RDMA_WRITE: c_uint = 0;
pub(crate) const WR_SEND: c_uint = 2;
pub(crate) const WR_RDMA_READ: c_uint = 4;
pub(crate) const WR_ATOMIC_CMP_AND_SWP: c_uint = 5;
pub(crate) const WR_ATOMIC_FETCH_AND_ADD: c_uint = 6;

pub(crate) const SEND_FENCE: c_uint = 1;
pub(crate) const SEND_SIGNALED: c_uint = 2;
pub(crate) const SEND_INLINE: c_uint = 8;

pub(crate) const WC_SUCCESS: c_uint = 0;
pub(crate) const WC_REM_ACCESS_ERR: c_uint = 10;

/// The functions of the library itself.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: $type:ty;)*) => {
        /// Addresses of the library's functions, found when it is loaded.
        pub(crate) struct Functions {
            $($(#[$doc])* pub(crate) $name: $type,)*
        }

        impl Functions {
            /// Finds every function by its name with `find`, or says which one is missing.
            ///
            /// # Safety
            /// `find` must return the address of the function of that name in libibverbs, which
            /// must stay loaded for the rest of the process.
            pub(crate) unsafe fn find(
                find: impl Fn(&std::ffi::CStr) -> *mut c_void,
            ) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        let address = find($symbol);
                        if address.is_null() {
                            return Err(stringify!($name));
                        }
                        // SAFETY: by the caller's promise this is the function that the header
                        // declares with this type.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    get_device_list = c"ibv_get_device_list":
        unsafe extern "C" fn(*mut c_int) -> *mut *mut Device;
    free_device_list = c"ibv_free_device_list": unsafe extern "C" fn(*mut *mut Device);
    get_device_name = c"ibv_get_device_name": unsafe extern "C" fn(*mut Device) -> *const c_char;
    open_device = c"ibv_open_device": unsafe extern "C" fn(*mut Device) -> *mut Context;
    close_device = c"ibv_close_device": unsafe extern "C" fn(*mut Context) -> c_int;
    query_device = c"ibv_query_device":
        unsafe extern "C" fn(*mut Context, *mut DeviceAttr) -> c_int;
    query_port = c"ibv_query_port": unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int;
    query_gid_ex = c"_ibv_query_gid_ex":
        unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int;
    alloc_pd = c"ibv_alloc_pd": unsafe extern "C" fn(*mut Context) -> *mut Pd;
    dealloc_pd = c"ibv_dealloc_pd": unsafe extern "C" fn(*mut Pd) -> c_int;
    reg_mr = c"ibv_reg_mr": unsafe extern "C" fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    dereg_mr = c"ibv_dereg_mr": unsafe extern "C" fn(*mut Mr) -> c_int;
    create_channel = c"ibv_create_comp_channel": unsafe extern "C" fn(*mut Context) -> *mut Channel;
    destroy_channel = c"ibv_destroy_comp_channel": unsafe extern "C" fn(*mut Channel) -> c_int;
    create_cq = c"ibv_create_cq":
        unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut Channel, c_int) -> *mut Cq;
    destroy_cq = c"ibv_destroy_cq": unsafe extern "C" fn(*mut Cq) -> c_int;
    get_cq_event = c"ibv_get_cq_event":
        unsafe extern "C" fn(*mut Channel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events": unsafe extern "C" fn(*mut Cq, c_uint);
    create_srq = c"ibv_create_srq": unsafe extern "C" fn(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
    destroy_srq = c"ibv_destroy_srq": unsafe extern "C" fn(*mut Srq) -> c_int;
    create_qp = c"ibv_create_qp": unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    modify_qp = c"ibv_modify_qp": unsafe extern "C" fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    destroy_qp = c"ibv_destroy_qp": unsafe extern "C" fn(*mut Qp) -> c_int;
    create_ah = c"ibv_create_ah": unsafe extern "C" fn(*mut Pd, *mut AhAttr) -> *mut Ah;
    destroy_ah = c"ibv_destroy_ah": unsafe extern "C" fn(*mut Ah) -> c_int;
    wc_status_str = c"ibv_wc_status_str": unsafe extern "C" fn(c_uint) -> *const c_char;
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::mem::offset_of;
    use std::process::{Command, Stdio};

    use super::*;

    /// Compiles assertions on every size and place that is relied on, where there is a header.
    #[test]
    fn layouts_are_those_of_the_header() {
        let mut program = String::from("#include <infiniband/verbs.h>\n#include <stddef.h>\n");
        macro_rules! size {
            ($($c:literal = $rust:ty;)*) => {
                $(program.push_str(&format!(
                    "_Static_assert(sizeof(struct {}) == {}, \"size of {}\");\n",
                    $c, size_of::<$rust>(), $c
                ));)*
            };
        }
        macro_rules! place {
            ($($c:literal, $field:literal = $rust:expr;)*) => {
                $(program.push_str(&format!(
                    "_Static_assert(offsetof(struct {}, {}) == {}, \"place of {}.{}\");\n",
                    $c, $field, $rust, $c, $field
                ));)*
            };
        }
        size! {
            "ibv_device_attr" = DeviceAttr; "ibv_port_attr" = PortAttr; "ibv_qp_attr" = QpAttr;
            "ibv_qp_init_attr" = QpInitAttr; "ibv_send_wr" = SendWr; "ibv_recv_wr" = RecvWr;
            "ibv_wc" = Wc; "ibv_sge" = Sge; "ibv_ah_attr" = AhAttr; "ibv_gid_entry" = GidEntry;
            "ibv_global_route" = GlobalRoute; "ibv_srq_init_attr" = SrqInitAttr; "ibv_mr" = Mr;
            "ibv_context_ops" = ContextOps;
        }
        place! {
            "ibv_device_attr", "max_qp" = offset_of!(DeviceAttr, max_qp);
            "ibv_device_attr", "max_sge" = offset_of!(DeviceAttr, max_sge);
            "ibv_device_attr", "max_cqe" = offset_of!(DeviceAttr, max_cqe);
            "ibv_device_attr", "max_qp_rd_atom" = offset_of!(DeviceAttr, max_qp_rd_atom);
            "ibv_device_attr", "max_qp_init_rd_atom" = offset_of!(DeviceAttr, max_qp_init_rd_atom);
            "ibv_device_attr", "atomic_cap" = offset_of!(DeviceAttr, atomic_cap);
            "ibv_device_attr", "max_srq_wr" = offset_of!(DeviceAttr, max_srq_wr);
            "ibv_device_attr", "phys_port_cnt" = offset_of!(DeviceAttr, phys_port_cnt);
            "ibv_port_attr", "gid_tbl_len" = offset_of!(PortAttr, gid_tbl_len);
            "ibv_port_attr", "max_msg_sz" = offset_of!(PortAttr, max_msg_sz);
            "ibv_port_attr", "lid" = offset_of!(PortAttr, lid);
            "ibv_port_attr", "link_layer" = offset_of!(PortAttr, link_layer);
            "ibv_qp_attr", "cap" = offset_of!(QpAttr, cap);
            "ibv_qp_attr", "ah_attr" = offset_of!(QpAttr, ah_attr);
            "ibv_qp_attr", "pkey_index" = offset_of!(QpAttr, pkey_index);
            "ibv_qp_attr", "rnr_retry" = offset_of!(QpAttr, rnr_retry);
            "ibv_qp_attr", "rate_limit" = offset_of!(QpAttr, rate_limit);
            "ibv_qp_init_attr", "cap" = offset_of!(QpInitAttr, cap);
            "ibv_send_wr", "opcode" = offset_of!(SendWr, opcode);
            "ibv_send_wr", "wr" = offset_of!(SendWr, remote);
            "ibv_send_wr", "wr.rdma.rkey" = offset_of!(SendWr, remote) + 8;
            "ibv_send_wr", "wr.atomic.compare_add" = offset_of!(SendWr, remote) + 8;
            "ibv_send_wr", "wr.atomic.swap" = offset_of!(SendWr, remote) + 16;
            "ibv_send_wr", "wr.atomic.rkey" = offset_of!(SendWr, remote) + 24;
            "ibv_send_wr", "wr.ud.remote_qpn" = offset_of!(SendWr, remote) + 8;
            "ibv_send_wr", "wr.ud.remote_qkey" = offset_of!(SendWr, remote) + 12;
            "ibv_wc", "status" = offset_of!(Wc, status);
            "ibv_wc", "byte_len" = offset_of!(Wc, byte_len);
            "ibv_wc", "qp_num" = offset_of!(Wc, qp_num);
            "ibv_wc", "src_qp" = offset_of!(Wc, src_qp);
            "ibv_ah_attr", "is_global" = offset_of!(AhAttr, is_global);
            "ibv_context", "ops.poll_cq" = offset_of!(Context, ops.poll_cq);
            "ibv_context", "ops.req_notify_cq" = offset_of!(Context, ops.req_notify_cq);
            "ibv_context", "ops.post_srq_recv" = offset_of!(Context, ops.post_srq_recv);
            "ibv_context", "ops.post_send" = offset_of!(Context, ops.post_send);
            "ibv_context", "ops.post_recv" = offset_of!(Context, ops.post_recv);
            "ibv_context", "async_fd" = offset_of!(Context, async_fd);
            "ibv_qp", "qp_num" = offset_of!(Qp, number);
            "ibv_mr", "lkey" = offset_of!(Mr, lkey);
            "ibv_mr", "rkey" = offset_of!(Mr, rkey);
            "ibv_comp_channel", "fd" = offset_of!(Channel, fd);
        }
        let Some(there) = compile("#include <infiniband/verbs.h>\n") else {
            return bowline_uct::conformance::skipped("there is no C compiler");
        };
        if !there {
            return bowline_uct::conformance::skipped(
                "infiniband/verbs.h is not installed (Debian: libibverbs-dev)",
            );
        }
        assert_eq!(compile(&program), Some(true), "see the compiler's messages above");
        assert_eq!(compile(&program.replace("== 48", "== 47")), Some(false), "nothing was checked");
    }

    fn compile(program: &str) -> Option<bool> {
        let child = Command::new("cc")
            .args(["-fsyntax-only", "-x", "c", "-"])
            .stdin(Stdio::piped())
            .spawn();
        let mut child = child.ok()?;
        let mut stdin = child.stdin.take().expect("it was asked for");
        stdin.write_all(program.as_bytes()).expect("the compiler reads");
        drop(stdin);
        Some(child.wait().expect("it ends").success())
    }
}
