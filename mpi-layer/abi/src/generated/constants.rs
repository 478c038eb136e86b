//! Constants of the standard ABI. Made by `cargo xtask abi`; do not edit.

use std::ffi::c_int;

use crate::handle::{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win};

pub(crate) const MPI_VERSION: c_int = 5;
pub(crate) const MPI_SUBVERSION: c_int = 0;
pub(crate) const MPI_ABI_VERSION: c_int = 1;
pub(crate) const MPI_ABI_SUBVERSION: c_int = 0;
pub(crate) const MPI_OP_NULL: Op = Op(0x20);
pub(crate) const MPI_SUM: Op = Op(0x21);
pub(crate) const MPI_MIN: Op = Op(0x22);
pub(crate) const MPI_MAX: Op = Op(0x23);
pub(crate) const MPI_PROD: Op = Op(0x24);
pub(crate) const MPI_BAND: Op = Op(0x28);
pub(crate) const MPI_BOR: Op = Op(0x29);
pub(crate) const MPI_BXOR: Op = Op(0x2a);
pub(crate) const MPI_LAND: Op = Op(0x30);
pub(crate) const MPI_LOR: Op = Op(0x31);
pub(crate) const MPI_LXOR: Op = Op(0x32);
pub(crate) const MPI_MINLOC: Op = Op(0x38);
pub(crate) const MPI_MAXLOC: Op = Op(0x39);
pub(crate) const MPI_REPLACE: Op = Op(0x3c);
pub(crate) const MPI_NO_OP: Op = Op(0x3d);
pub(crate) const MPI_COMM_NULL: Comm = Comm(0x100);
pub(crate) const MPI_COMM_WORLD: Comm = Comm(0x101);
pub(crate) const MPI_COMM_SELF: Comm = Comm(0x102);
pub(crate) const MPI_GROUP_NULL: Group = Group(0x108);
pub(crate) const MPI_GROUP_EMPTY: Group = Group(0x109);
pub(crate) const MPI_WIN_NULL: Win = Win(0x110);
pub(crate) const MPI_FILE_NULL: File = File(0x118);
pub(crate) const MPI_SESSION_NULL: Session = Session(0x120);
pub(crate) const MPI_MESSAGE_NULL: Message = Message(0x128);
pub(crate) const MPI_MESSAGE_NO_PROC: Message = Message(0x129);
pub(crate) const MPI_INFO_NULL: Info = Info(0x130);
pub(crate) const MPI_INFO_ENV: Info = Info(0x131);
pub(crate) const MPI_ERRHANDLER_NULL: Errhandler = Errhandler(0x140);
pub(crate) const MPI_ERRORS_ARE_FATAL: Errhandler = Errhandler(0x141);
pub(crate) const MPI_ERRORS_ABORT: Errhandler = Errhandler(0x142);
pub(crate) const MPI_ERRORS_RETURN: Errhandler = Errhandler(0x143);
pub(crate) const MPI_REQUEST_NULL: Request = Request(0x180);
pub(crate) const MPI_DATATYPE_NULL: Datatype = Datatype(0x200);
pub(crate) const MPI_AINT: Datatype = Datatype(0x201);
pub(crate) const MPI_COUNT: Datatype = Datatype(0x202);
pub(crate) const MPI_OFFSET: Datatype = Datatype(0x203);
pub(crate) const MPI_PACKED: Datatype = Datatype(0x207);
pub(crate) const MPI_SHORT: Datatype = Datatype(0x208);
pub(crate) const MPI_INT: Datatype = Datatype(0x209);
pub(crate) const MPI_LONG: Datatype = Datatype(0x20a);
pub(crate) const MPI_LONG_LONG_INT: Datatype = Datatype(0x20b);
pub(crate) const MPI_LONG_LONG: Datatype = MPI_LONG_LONG_INT;
pub(crate) const MPI_UNSIGNED_SHORT: Datatype = Datatype(0x20c);
pub(crate) const MPI_UNSIGNED: Datatype = Datatype(0x20d);
pub(crate) const MPI_UNSIGNED_LONG: Datatype = Datatype(0x20e);
pub(crate) const MPI_UNSIGNED_LONG_LONG: Datatype = Datatype(0x20f);
pub(crate) const MPI_FLOAT: Datatype = Datatype(0x210);
pub(crate) const MPI_C_COMPLEX: Datatype = Datatype(0x212);
pub(crate) const MPI_C_FLOAT_COMPLEX: Datatype = MPI_C_COMPLEX;
pub(crate) const MPI_CXX_FLOAT_COMPLEX: Datatype = Datatype(0x213);
pub(crate) const MPI_DOUBLE: Datatype = Datatype(0x214);
pub(crate) const MPI_C_DOUBLE_COMPLEX: Datatype = Datatype(0x216);
pub(crate) const MPI_CXX_DOUBLE_COMPLEX: Datatype = Datatype(0x217);
pub(crate) const MPI_LOGICAL: Datatype = Datatype(0x218);
pub(crate) const MPI_INTEGER: Datatype = Datatype(0x219);
pub(crate) const MPI_REAL: Datatype = Datatype(0x21a);
pub(crate) const MPI_COMPLEX: Datatype = Datatype(0x21b);
pub(crate) const MPI_DOUBLE_PRECISION: Datatype = Datatype(0x21c);
pub(crate) const MPI_DOUBLE_COMPLEX: Datatype = Datatype(0x21d);
pub(crate) const MPI_CHARACTER: Datatype = Datatype(0x21e);
pub(crate) const MPI_LONG_DOUBLE: Datatype = Datatype(0x220);
pub(crate) const MPI_C_LONG_DOUBLE_COMPLEX: Datatype = Datatype(0x224);
pub(crate) const MPI_CXX_LONG_DOUBLE_COMPLEX: Datatype = Datatype(0x225);
pub(crate) const MPI_FLOAT_INT: Datatype = Datatype(0x228);
pub(crate) const MPI_DOUBLE_INT: Datatype = Datatype(0x229);
pub(crate) const MPI_LONG_INT: Datatype = Datatype(0x22a);
pub(crate) const MPI_2INT: Datatype = Datatype(0x22b);
pub(crate) const MPI_SHORT_INT: Datatype = Datatype(0x22c);
pub(crate) const MPI_LONG_DOUBLE_INT: Datatype = Datatype(0x22d);
pub(crate) const MPI_2REAL: Datatype = Datatype(0x230);
pub(crate) const MPI_2DOUBLE_PRECISION: Datatype = Datatype(0x231);
pub(crate) const MPI_2INTEGER: Datatype = Datatype(0x232);
pub(crate) const MPI_C_BOOL: Datatype = Datatype(0x238);
pub(crate) const MPI_CXX_BOOL: Datatype = Datatype(0x239);
pub(crate) const MPI_WCHAR: Datatype = Datatype(0x23c);
pub(crate) const MPI_INT8_T: Datatype = Datatype(0x240);
pub(crate) const MPI_UINT8_T: Datatype = Datatype(0x241);
pub(crate) const MPI_CHAR: Datatype = Datatype(0x243);
pub(crate) const MPI_SIGNED_CHAR: Datatype = Datatype(0x244);
pub(crate) const MPI_UNSIGNED_CHAR: Datatype = Datatype(0x245);
pub(crate) const MPI_BYTE: Datatype = Datatype(0x247);
pub(crate) const MPI_INT16_T: Datatype = Datatype(0x248);
pub(crate) const MPI_UINT16_T: Datatype = Datatype(0x249);
pub(crate) const MPI_INT32_T: Datatype = Datatype(0x250);
pub(crate) const MPI_UINT32_T: Datatype = Datatype(0x251);
pub(crate) const MPI_INT64_T: Datatype = Datatype(0x258);
pub(crate) const MPI_UINT64_T: Datatype = Datatype(0x259);
pub(crate) const MPI_LOGICAL1: Datatype = Datatype(0x2c0);
pub(crate) const MPI_INTEGER1: Datatype = Datatype(0x2c1);
pub(crate) const MPI_LOGICAL2: Datatype = Datatype(0x2c8);
pub(crate) const MPI_INTEGER2: Datatype = Datatype(0x2c9);
pub(crate) const MPI_REAL2: Datatype = Datatype(0x2ca);
pub(crate) const MPI_LOGICAL4: Datatype = Datatype(0x2d0);
pub(crate) const MPI_INTEGER4: Datatype = Datatype(0x2d1);
pub(crate) const MPI_REAL4: Datatype = Datatype(0x2d2);
pub(crate) const MPI_COMPLEX4: Datatype = Datatype(0x2d3);
pub(crate) const MPI_LOGICAL8: Datatype = Datatype(0x2d8);
pub(crate) const MPI_INTEGER8: Datatype = Datatype(0x2d9);
pub(crate) const MPI_REAL8: Datatype = Datatype(0x2da);
pub(crate) const MPI_COMPLEX8: Datatype = Datatype(0x2db);
pub(crate) const MPI_LOGICAL16: Datatype = Datatype(0x2e0);
pub(crate) const MPI_INTEGER16: Datatype = Datatype(0x2e1);
pub(crate) const MPI_REAL16: Datatype = Datatype(0x2e2);
pub(crate) const MPI_COMPLEX16: Datatype = Datatype(0x2e3);
pub(crate) const MPI_COMPLEX32: Datatype = Datatype(0x2eb);
pub(crate) const MPI_BOTTOM: usize = 0;
pub(crate) const MPI_IN_PLACE: usize = 1;
pub(crate) const MPI_BUFFER_AUTOMATIC: usize = 2;
pub(crate) const MPI_ARGV_NULL: usize = 0;
pub(crate) const MPI_ARGVS_NULL: usize = 0;
pub(crate) const MPI_ERRCODES_IGNORE: usize = 0;
pub(crate) const MPI_STATUS_IGNORE: usize = 0;
pub(crate) const MPI_STATUSES_IGNORE: usize = 0;
pub(crate) const MPI_UNWEIGHTED: usize = 10;
pub(crate) const MPI_WEIGHTS_EMPTY: usize = 11;
pub(crate) const MPI_MAX_DATAREP_STRING: c_int = 128;
pub(crate) const MPI_MAX_ERROR_STRING: c_int = 512;
pub(crate) const MPI_MAX_INFO_KEY: c_int = 256;
pub(crate) const MPI_MAX_INFO_VAL: c_int = 1024;
pub(crate) const MPI_MAX_LIBRARY_VERSION_STRING: c_int = 8192;
pub(crate) const MPI_MAX_OBJECT_NAME: c_int = 128;
pub(crate) const MPI_MAX_PORT_NAME: c_int = 1024;
pub(crate) const MPI_MAX_PROCESSOR_NAME: c_int = 256;
pub(crate) const MPI_MAX_STRINGTAG_LEN: c_int = 1024;
pub(crate) const MPI_MAX_PSET_NAME_LEN: c_int = 1024;
pub(crate) const MPI_BSEND_OVERHEAD: c_int = 512;
pub(crate) const MPI_F_STATUS_SIZE: c_int = 8;
pub(crate) const MPI_F_SOURCE: c_int = 0;
pub(crate) const MPI_F_TAG: c_int = 1;
pub(crate) const MPI_F_ERROR: c_int = 2;
pub(crate) const MPI_SUCCESS: c_int = 0;
pub(crate) const MPI_ERR_BUFFER: c_int = 1;
pub(crate) const MPI_ERR_COUNT: c_int = 2;
pub(crate) const MPI_ERR_TYPE: c_int = 3;
pub(crate) const MPI_ERR_TAG: c_int = 4;
pub(crate) const MPI_ERR_COMM: c_int = 5;
pub(crate) const MPI_ERR_RANK: c_int = 6;
pub(crate) const MPI_ERR_REQUEST: c_int = 7;
pub(crate) const MPI_ERR_ROOT: c_int = 8;
pub(crate) const MPI_ERR_GROUP: c_int = 9;
pub(crate) const MPI_ERR_OP: c_int = 10;
pub(crate) const MPI_ERR_TOPOLOGY: c_int = 11;
pub(crate) const MPI_ERR_DIMS: c_int = 12;
pub(crate) const MPI_ERR_ARG: c_int = 13;
pub(crate) const MPI_ERR_UNKNOWN: c_int = 14;
pub(crate) const MPI_ERR_TRUNCATE: c_int = 15;
pub(crate) const MPI_ERR_OTHER: c_int = 16;
pub(crate) const MPI_ERR_INTERN: c_int = 17;
pub(crate) const MPI_ERR_PENDING: c_int = 18;
pub(crate) const MPI_ERR_IN_STATUS: c_int = 19;
pub(crate) const MPI_ERR_ACCESS: c_int = 20;
pub(crate) const MPI_ERR_AMODE: c_int = 21;
pub(crate) const MPI_ERR_ASSERT: c_int = 22;
pub(crate) const MPI_ERR_BAD_FILE: c_int = 23;
pub(crate) const MPI_ERR_BASE: c_int = 24;
pub(crate) const MPI_ERR_CONVERSION: c_int = 25;
pub(crate) const MPI_ERR_DISP: c_int = 26;
pub(crate) const MPI_ERR_DUP_DATAREP: c_int = 27;
pub(crate) const MPI_ERR_FILE_EXISTS: c_int = 28;
pub(crate) const MPI_ERR_FILE_IN_USE: c_int = 29;
pub(crate) const MPI_ERR_FILE: c_int = 30;
pub(crate) const MPI_ERR_INFO_KEY: c_int = 31;
pub(crate) const MPI_ERR_INFO_NOKEY: c_int = 32;
pub(crate) const MPI_ERR_INFO_VALUE: c_int = 33;
pub(crate) const MPI_ERR_INFO: c_int = 34;
pub(crate) const MPI_ERR_IO: c_int = 35;
pub(crate) const MPI_ERR_KEYVAL: c_int = 36;
pub(crate) const MPI_ERR_LOCKTYPE: c_int = 37;
pub(crate) const MPI_ERR_NAME: c_int = 38;
pub(crate) const MPI_ERR_NO_MEM: c_int = 39;
pub(crate) const MPI_ERR_NOT_SAME: c_int = 40;
pub(crate) const MPI_ERR_NO_SPACE: c_int = 41;
pub(crate) const MPI_ERR_NO_SUCH_FILE: c_int = 42;
pub(crate) const MPI_ERR_PORT: c_int = 43;
pub(crate) const MPI_ERR_QUOTA: c_int = 44;
pub(crate) const MPI_ERR_READ_ONLY: c_int = 45;
pub(crate) const MPI_ERR_RMA_ATTACH: c_int = 46;
pub(crate) const MPI_ERR_RMA_CONFLICT: c_int = 47;
pub(crate) const MPI_ERR_RMA_RANGE: c_int = 48;
pub(crate) const MPI_ERR_RMA_SHARED: c_int = 49;
pub(crate) const MPI_ERR_RMA_SYNC: c_int = 50;
pub(crate) const MPI_ERR_SERVICE: c_int = 51;
pub(crate) const MPI_ERR_SIZE: c_int = 52;
pub(crate) const MPI_ERR_SPAWN: c_int = 53;
pub(crate) const MPI_ERR_UNSUPPORTED_DATAREP: c_int = 54;
pub(crate) const MPI_ERR_UNSUPPORTED_OPERATION: c_int = 55;
pub(crate) const MPI_ERR_WIN: c_int = 56;
pub(crate) const MPI_ERR_RMA_FLAVOR: c_int = 57;
pub(crate) const MPI_ERR_PROC_ABORTED: c_int = 58;
pub(crate) const MPI_ERR_VALUE_TOO_LARGE: c_int = 59;
pub(crate) const MPI_ERR_SESSION: c_int = 60;
pub(crate) const MPI_ERR_ERRHANDLER: c_int = 61;
pub(crate) const MPI_ERR_ABI: c_int = 62;
pub(crate) const MPI_T_ERR_CANNOT_INIT: c_int = 1001;
pub(crate) const MPI_T_ERR_NOT_ACCESSIBLE: c_int = 1002;
pub(crate) const MPI_T_ERR_NOT_INITIALIZED: c_int = 1003;
pub(crate) const MPI_T_ERR_NOT_SUPPORTED: c_int = 1004;
pub(crate) const MPI_T_ERR_MEMORY: c_int = 1005;
pub(crate) const MPI_T_ERR_INVALID: c_int = 1006;
pub(crate) const MPI_T_ERR_INVALID_INDEX: c_int = 1007;
pub(crate) const MPI_T_ERR_INVALID_ITEM: c_int = 1008;
pub(crate) const MPI_T_ERR_INVALID_SESSION: c_int = 1009;
pub(crate) const MPI_T_ERR_INVALID_HANDLE: c_int = 1010;
pub(crate) const MPI_T_ERR_INVALID_NAME: c_int = 1011;
pub(crate) const MPI_T_ERR_OUT_OF_HANDLES: c_int = 1012;
pub(crate) const MPI_T_ERR_OUT_OF_SESSIONS: c_int = 1013;
pub(crate) const MPI_T_ERR_CVAR_SET_NOT_NOW: c_int = 1014;
pub(crate) const MPI_T_ERR_CVAR_SET_NEVER: c_int = 1015;
pub(crate) const MPI_T_ERR_PVAR_NO_WRITE: c_int = 1016;
pub(crate) const MPI_T_ERR_PVAR_NO_STARTSTOP: c_int = 1017;
pub(crate) const MPI_T_ERR_PVAR_NO_ATOMIC: c_int = 1018;
pub(crate) const MPI_ERR_LASTCODE: c_int = 16383;
pub(crate) const MPI_MODE_APPEND: c_int = 1;
pub(crate) const MPI_MODE_CREATE: c_int = 2;
pub(crate) const MPI_MODE_DELETE_ON_CLOSE: c_int = 4;
pub(crate) const MPI_MODE_EXCL: c_int = 8;
pub(crate) const MPI_MODE_RDONLY: c_int = 16;
pub(crate) const MPI_MODE_RDWR: c_int = 32;
pub(crate) const MPI_MODE_SEQUENTIAL: c_int = 64;
pub(crate) const MPI_MODE_UNIQUE_OPEN: c_int = 128;
pub(crate) const MPI_MODE_WRONLY: c_int = 256;
pub(crate) const MPI_MODE_NOCHECK: c_int = 1024;
pub(crate) const MPI_MODE_NOPRECEDE: c_int = 2048;
pub(crate) const MPI_MODE_NOPUT: c_int = 4096;
pub(crate) const MPI_MODE_NOSTORE: c_int = 8192;
pub(crate) const MPI_MODE_NOSUCCEED: c_int = 16384;
pub(crate) const MPI_ANY_SOURCE: c_int = -1;
pub(crate) const MPI_ANY_TAG: c_int = -2;
pub(crate) const MPI_PROC_NULL: c_int = -3;
pub(crate) const MPI_ROOT: c_int = -4;
pub(crate) const MPI_UNDEFINED: c_int = -32766;
pub(crate) const MPI_THREAD_SINGLE: c_int = 0;
pub(crate) const MPI_THREAD_FUNNELED: c_int = 1024;
pub(crate) const MPI_THREAD_SERIALIZED: c_int = 2048;
pub(crate) const MPI_THREAD_MULTIPLE: c_int = 4096;
pub(crate) const MPI_ORDER_C: c_int = 12;
pub(crate) const MPI_ORDER_FORTRAN: c_int = 15;
pub(crate) const MPI_DISTRIBUTE_NONE: c_int = 16;
pub(crate) const MPI_DISTRIBUTE_BLOCK: c_int = 17;
pub(crate) const MPI_DISTRIBUTE_CYCLIC: c_int = 18;
pub(crate) const MPI_DISTRIBUTE_DFLT_DARG: c_int = 19;
pub(crate) const MPI_COMBINER_NAMED: c_int = 101;
pub(crate) const MPI_COMBINER_DUP: c_int = 102;
pub(crate) const MPI_COMBINER_CONTIGUOUS: c_int = 103;
pub(crate) const MPI_COMBINER_VECTOR: c_int = 104;
pub(crate) const MPI_COMBINER_HVECTOR: c_int = 105;
pub(crate) const MPI_COMBINER_INDEXED: c_int = 106;
pub(crate) const MPI_COMBINER_HINDEXED: c_int = 107;
pub(crate) const MPI_COMBINER_INDEXED_BLOCK: c_int = 108;
pub(crate) const MPI_COMBINER_HINDEXED_BLOCK: c_int = 109;
pub(crate) const MPI_COMBINER_STRUCT: c_int = 110;
pub(crate) const MPI_COMBINER_SUBARRAY: c_int = 111;
pub(crate) const MPI_COMBINER_DARRAY: c_int = 112;
pub(crate) const MPI_COMBINER_F90_REAL: c_int = 113;
pub(crate) const MPI_COMBINER_F90_COMPLEX: c_int = 114;
pub(crate) const MPI_COMBINER_F90_INTEGER: c_int = 115;
pub(crate) const MPI_COMBINER_RESIZED: c_int = 116;
pub(crate) const MPI_COMBINER_VALUE_INDEX: c_int = 117;
pub(crate) const MPIX_TYPECLASS_LOGICAL: c_int = 191;
pub(crate) const MPI_TYPECLASS_INTEGER: c_int = 192;
pub(crate) const MPI_TYPECLASS_REAL: c_int = 193;
pub(crate) const MPI_TYPECLASS_COMPLEX: c_int = 194;
pub(crate) const MPI_IDENT: c_int = 201;
pub(crate) const MPI_CONGRUENT: c_int = 202;
pub(crate) const MPI_SIMILAR: c_int = 203;
pub(crate) const MPI_UNEQUAL: c_int = 204;
pub(crate) const MPI_CART: c_int = 211;
pub(crate) const MPI_GRAPH: c_int = 212;
pub(crate) const MPI_DIST_GRAPH: c_int = 213;
pub(crate) const MPI_COMM_TYPE_SHARED: c_int = 221;
pub(crate) const MPI_COMM_TYPE_HW_UNGUIDED: c_int = 222;
pub(crate) const MPI_COMM_TYPE_HW_GUIDED: c_int = 223;
pub(crate) const MPI_COMM_TYPE_RESOURCE_GUIDED: c_int = 224;
pub(crate) const MPI_LOCK_EXCLUSIVE: c_int = 301;
pub(crate) const MPI_LOCK_SHARED: c_int = 302;
pub(crate) const MPI_WIN_FLAVOR_CREATE: c_int = 311;
pub(crate) const MPI_WIN_FLAVOR_ALLOCATE: c_int = 312;
pub(crate) const MPI_WIN_FLAVOR_DYNAMIC: c_int = 313;
pub(crate) const MPI_WIN_FLAVOR_SHARED: c_int = 314;
pub(crate) const MPI_WIN_UNIFIED: c_int = 321;
pub(crate) const MPI_WIN_SEPARATE: c_int = 322;
pub(crate) const MPI_SEEK_CUR: c_int = 401;
pub(crate) const MPI_SEEK_END: c_int = 402;
pub(crate) const MPI_SEEK_SET: c_int = 403;
pub(crate) const MPI_KEYVAL_INVALID: c_int = 0;
pub(crate) const MPI_TAG_UB: c_int = 501;
pub(crate) const MPI_IO: c_int = 502;
pub(crate) const MPI_HOST: c_int = 503;
pub(crate) const MPI_WTIME_IS_GLOBAL: c_int = 504;
pub(crate) const MPI_APPNUM: c_int = 505;
pub(crate) const MPI_LASTUSEDCODE: c_int = 506;
pub(crate) const MPI_UNIVERSE_SIZE: c_int = 507;
pub(crate) const MPI_WIN_BASE: c_int = 601;
pub(crate) const MPI_WIN_DISP_UNIT: c_int = 602;
pub(crate) const MPI_WIN_SIZE: c_int = 603;
pub(crate) const MPI_WIN_CREATE_FLAVOR: c_int = 604;
pub(crate) const MPI_WIN_MODEL: c_int = 605;
pub(crate) const MPI_T_CB_REQUIRE_NONE: c_int = 0;
pub(crate) const MPI_T_CB_REQUIRE_MPI_RESTRICTED: c_int = 3;
pub(crate) const MPI_T_CB_REQUIRE_THREAD_SAFE: c_int = 15;
pub(crate) const MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE: c_int = 63;
pub(crate) const MPI_T_SOURCE_ORDERED: c_int = 1;
pub(crate) const MPI_T_SOURCE_UNORDERED: c_int = 2;
pub(crate) const MPI_T_VERBOSITY_USER_BASIC: c_int = 9;
pub(crate) const MPI_T_VERBOSITY_USER_DETAIL: c_int = 10;
pub(crate) const MPI_T_VERBOSITY_USER_ALL: c_int = 12;
pub(crate) const MPI_T_VERBOSITY_TUNER_BASIC: c_int = 17;
pub(crate) const MPI_T_VERBOSITY_TUNER_DETAIL: c_int = 18;
pub(crate) const MPI_T_VERBOSITY_TUNER_ALL: c_int = 20;
pub(crate) const MPI_T_VERBOSITY_MPIDEV_BASIC: c_int = 33;
pub(crate) const MPI_T_VERBOSITY_MPIDEV_DETAIL: c_int = 34;
pub(crate) const MPI_T_VERBOSITY_MPIDEV_ALL: c_int = 36;
pub(crate) const MPI_T_BIND_NO_OBJECT: c_int = 1;
pub(crate) const MPI_T_BIND_MPI_COMM: c_int = 2;
pub(crate) const MPI_T_BIND_MPI_DATATYPE: c_int = 3;
pub(crate) const MPI_T_BIND_MPI_ERRHANDLER: c_int = 4;
pub(crate) const MPI_T_BIND_MPI_FILE: c_int = 5;
pub(crate) const MPI_T_BIND_MPI_GROUP: c_int = 6;
pub(crate) const MPI_T_BIND_MPI_OP: c_int = 7;
pub(crate) const MPI_T_BIND_MPI_REQUEST: c_int = 8;
pub(crate) const MPI_T_BIND_MPI_WIN: c_int = 9;
pub(crate) const MPI_T_BIND_MPI_MESSAGE: c_int = 10;
pub(crate) const MPI_T_BIND_MPI_INFO: c_int = 11;
pub(crate) const MPI_T_BIND_MPI_SESSION: c_int = 12;
pub(crate) const MPI_T_SCOPE_CONSTANT: c_int = 1;
pub(crate) const MPI_T_SCOPE_READONLY: c_int = 2;
pub(crate) const MPI_T_SCOPE_LOCAL: c_int = 3;
pub(crate) const MPI_T_SCOPE_GROUP: c_int = 4;
pub(crate) const MPI_T_SCOPE_GROUP_EQ: c_int = 5;
pub(crate) const MPI_T_SCOPE_ALL: c_int = 6;
pub(crate) const MPI_T_SCOPE_ALL_EQ: c_int = 7;
pub(crate) const MPI_T_PVAR_CLASS_STATE: c_int = 1;
pub(crate) const MPI_T_PVAR_CLASS_LEVEL: c_int = 2;
pub(crate) const MPI_T_PVAR_CLASS_SIZE: c_int = 3;
pub(crate) const MPI_T_PVAR_CLASS_PERCENTAGE: c_int = 4;
pub(crate) const MPI_T_PVAR_CLASS_HIGHWATERMARK: c_int = 5;
pub(crate) const MPI_T_PVAR_CLASS_LOWWATERMARK: c_int = 6;
pub(crate) const MPI_T_PVAR_CLASS_COUNTER: c_int = 7;
pub(crate) const MPI_T_PVAR_CLASS_AGGREGATE: c_int = 8;
pub(crate) const MPI_T_PVAR_CLASS_TIMER: c_int = 9;
pub(crate) const MPI_T_PVAR_CLASS_GENERIC: c_int = 10;

/// Names of the error classes.
pub(crate) const CLASSES: &[(c_int, &str)] = &[
    (MPI_ERR_BUFFER, "MPI_ERR_BUFFER"),
    (MPI_ERR_COUNT, "MPI_ERR_COUNT"),
    (MPI_ERR_TYPE, "MPI_ERR_TYPE"),
    (MPI_ERR_TAG, "MPI_ERR_TAG"),
    (MPI_ERR_COMM, "MPI_ERR_COMM"),
    (MPI_ERR_RANK, "MPI_ERR_RANK"),
    (MPI_ERR_REQUEST, "MPI_ERR_REQUEST"),
    (MPI_ERR_ROOT, "MPI_ERR_ROOT"),
    (MPI_ERR_GROUP, "MPI_ERR_GROUP"),
    (MPI_ERR_OP, "MPI_ERR_OP"),
    (MPI_ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY"),
    (MPI_ERR_DIMS, "MPI_ERR_DIMS"),
    (MPI_ERR_ARG, "MPI_ERR_ARG"),
    (MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN"),
    (MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE"),
    (MPI_ERR_OTHER, "MPI_ERR_OTHER"),
    (MPI_ERR_INTERN, "MPI_ERR_INTERN"),
    (MPI_ERR_PENDING, "MPI_ERR_PENDING"),
    (MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS"),
    (MPI_ERR_ACCESS, "MPI_ERR_ACCESS"),
    (MPI_ERR_AMODE, "MPI_ERR_AMODE"),
    (MPI_ERR_ASSERT, "MPI_ERR_ASSERT"),
    (MPI_ERR_BAD_FILE, "MPI_ERR_BAD_FILE"),
    (MPI_ERR_BASE, "MPI_ERR_BASE"),
    (MPI_ERR_CONVERSION, "MPI_ERR_CONVERSION"),
    (MPI_ERR_DISP, "MPI_ERR_DISP"),
    (MPI_ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP"),
    (MPI_ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS"),
    (MPI_ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE"),
    (MPI_ERR_FILE, "MPI_ERR_FILE"),
    (MPI_ERR_INFO_KEY, "MPI_ERR_INFO_KEY"),
    (MPI_ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY"),
    (MPI_ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE"),
    (MPI_ERR_INFO, "MPI_ERR_INFO"),
    (MPI_ERR_IO, "MPI_ERR_IO"),
    (MPI_ERR_KEYVAL, "MPI_ERR_KEYVAL"),
    (MPI_ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE"),
    (MPI_ERR_NAME, "MPI_ERR_NAME"),
    (MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM"),
    (MPI_ERR_NOT_SAME, "MPI_ERR_NOT_SAME"),
    (MPI_ERR_NO_SPACE, "MPI_ERR_NO_SPACE"),
    (MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE"),
    (MPI_ERR_PORT, "MPI_ERR_PORT"),
    (MPI_ERR_QUOTA, "MPI_ERR_QUOTA"),
    (MPI_ERR_READ_ONLY, "MPI_ERR_READ_ONLY"),
    (MPI_ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH"),
    (MPI_ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT"),
    (MPI_ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE"),
    (MPI_ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED"),
    (MPI_ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC"),
    (MPI_ERR_SERVICE, "MPI_ERR_SERVICE"),
    (MPI_ERR_SIZE, "MPI_ERR_SIZE"),
    (MPI_ERR_SPAWN, "MPI_ERR_SPAWN"),
    (MPI_ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP"),
    (MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION"),
    (MPI_ERR_WIN, "MPI_ERR_WIN"),
    (MPI_ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR"),
    (MPI_ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED"),
    (MPI_ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE"),
    (MPI_ERR_SESSION, "MPI_ERR_SESSION"),
    (MPI_ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER"),
    (MPI_ERR_ABI, "MPI_ERR_ABI"),
    (MPI_T_ERR_CANNOT_INIT, "MPI_T_ERR_CANNOT_INIT"),
    (MPI_T_ERR_NOT_ACCESSIBLE, "MPI_T_ERR_NOT_ACCESSIBLE"),
    (MPI_T_ERR_NOT_INITIALIZED, "MPI_T_ERR_NOT_INITIALIZED"),
    (MPI_T_ERR_NOT_SUPPORTED, "MPI_T_ERR_NOT_SUPPORTED"),
    (MPI_T_ERR_MEMORY, "MPI_T_ERR_MEMORY"),
    (MPI_T_ERR_INVALID, "MPI_T_ERR_INVALID"),
    (MPI_T_ERR_INVALID_INDEX, "MPI_T_ERR_INVALID_INDEX"),
    (MPI_T_ERR_INVALID_ITEM, "MPI_T_ERR_INVALID_ITEM"),
    (MPI_T_ERR_INVALID_SESSION, "MPI_T_ERR_INVALID_SESSION"),
    (MPI_T_ERR_INVALID_HANDLE, "MPI_T_ERR_INVALID_HANDLE"),
    (MPI_T_ERR_INVALID_NAME, "MPI_T_ERR_INVALID_NAME"),
    (MPI_T_ERR_OUT_OF_HANDLES, "MPI_T_ERR_OUT_OF_HANDLES"),
    (MPI_T_ERR_OUT_OF_SESSIONS, "MPI_T_ERR_OUT_OF_SESSIONS"),
    (MPI_T_ERR_CVAR_SET_NOT_NOW, "MPI_T_ERR_CVAR_SET_NOT_NOW"),
    (MPI_T_ERR_CVAR_SET_NEVER, "MPI_T_ERR_CVAR_SET_NEVER"),
    (MPI_T_ERR_PVAR_NO_WRITE, "MPI_T_ERR_PVAR_NO_WRITE"),
    (MPI_T_ERR_PVAR_NO_STARTSTOP, "MPI_T_ERR_PVAR_NO_STARTSTOP"),
    (MPI_T_ERR_PVAR_NO_ATOMIC, "MPI_T_ERR_PVAR_NO_ATOMIC"),
];

/// Names and values of the predefined datatypes.
pub(crate) const DATATYPES: &[(Datatype, &str)] = &[
    (MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL"),
    (MPI_AINT, "MPI_AINT"),
    (MPI_COUNT, "MPI_COUNT"),
    (MPI_OFFSET, "MPI_OFFSET"),
    (MPI_PACKED, "MPI_PACKED"),
    (MPI_SHORT, "MPI_SHORT"),
    (MPI_INT, "MPI_INT"),
    (MPI_LONG, "MPI_LONG"),
    (MPI_LONG_LONG_INT, "MPI_LONG_LONG_INT"),
    (MPI_UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT"),
    (MPI_UNSIGNED, "MPI_UNSIGNED"),
    (MPI_UNSIGNED_LONG, "MPI_UNSIGNED_LONG"),
    (MPI_UNSIGNED_LONG_LONG, "MPI_UNSIGNED_LONG_LONG"),
    (MPI_FLOAT, "MPI_FLOAT"),
    (MPI_C_COMPLEX, "MPI_C_COMPLEX"),
    (MPI_CXX_FLOAT_COMPLEX, "MPI_CXX_FLOAT_COMPLEX"),
    (MPI_DOUBLE, "MPI_DOUBLE"),
    (MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX"),
    (MPI_CXX_DOUBLE_COMPLEX, "MPI_CXX_DOUBLE_COMPLEX"),
    (MPI_LOGICAL, "MPI_LOGICAL"),
    (MPI_INTEGER, "MPI_INTEGER"),
    (MPI_REAL, "MPI_REAL"),
    (MPI_COMPLEX, "MPI_COMPLEX"),
    (MPI_DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION"),
    (MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX"),
    (MPI_CHARACTER, "MPI_CHARACTER"),
    (MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE"),
    (MPI_C_LONG_DOUBLE_COMPLEX, "MPI_C_LONG_DOUBLE_COMPLEX"),
    (MPI_CXX_LONG_DOUBLE_COMPLEX, "MPI_CXX_LONG_DOUBLE_COMPLEX"),
    (MPI_FLOAT_INT, "MPI_FLOAT_INT"),
    (MPI_DOUBLE_INT, "MPI_DOUBLE_INT"),
    (MPI_LONG_INT, "MPI_LONG_INT"),
    (MPI_2INT, "MPI_2INT"),
    (MPI_SHORT_INT, "MPI_SHORT_INT"),
    (MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT"),
    (MPI_2REAL, "MPI_2REAL"),
    (MPI_2DOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION"),
    (MPI_2INTEGER, "MPI_2INTEGER"),
    (MPI_C_BOOL, "MPI_C_BOOL"),
    (MPI_CXX_BOOL, "MPI_CXX_BOOL"),
    (MPI_WCHAR, "MPI_WCHAR"),
    (MPI_INT8_T, "MPI_INT8_T"),
    (MPI_UINT8_T, "MPI_UINT8_T"),
    (MPI_CHAR, "MPI_CHAR"),
    (MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR"),
    (MPI_UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR"),
    (MPI_BYTE, "MPI_BYTE"),
    (MPI_INT16_T, "MPI_INT16_T"),
    (MPI_UINT16_T, "MPI_UINT16_T"),
    (MPI_INT32_T, "MPI_INT32_T"),
    (MPI_UINT32_T, "MPI_UINT32_T"),
    (MPI_INT64_T, "MPI_INT64_T"),
    (MPI_UINT64_T, "MPI_UINT64_T"),
    (MPI_LOGICAL1, "MPI_LOGICAL1"),
    (MPI_INTEGER1, "MPI_INTEGER1"),
    (MPI_LOGICAL2, "MPI_LOGICAL2"),
    (MPI_INTEGER2, "MPI_INTEGER2"),
    (MPI_REAL2, "MPI_REAL2"),
    (MPI_LOGICAL4, "MPI_LOGICAL4"),
    (MPI_INTEGER4, "MPI_INTEGER4"),
    (MPI_REAL4, "MPI_REAL4"),
    (MPI_COMPLEX4, "MPI_COMPLEX4"),
    (MPI_LOGICAL8, "MPI_LOGICAL8"),
    (MPI_INTEGER8, "MPI_INTEGER8"),
    (MPI_REAL8, "MPI_REAL8"),
    (MPI_COMPLEX8, "MPI_COMPLEX8"),
    (MPI_LOGICAL16, "MPI_LOGICAL16"),
    (MPI_INTEGER16, "MPI_INTEGER16"),
    (MPI_REAL16, "MPI_REAL16"),
    (MPI_COMPLEX16, "MPI_COMPLEX16"),
    (MPI_COMPLEX32, "MPI_COMPLEX32"),
];
