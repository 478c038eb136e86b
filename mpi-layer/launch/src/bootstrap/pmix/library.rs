//! The PMIx client library, opened at run time: the few functions that a rank needs, behind safe
//! ones.
//!
//! The library of the process manager itself is preferred, found among what the ancestors of this
//! process have mapped, since client and server of one version understand each other best. Then
//! comes what the dynamic loader finds as `libpmix.so.2`. That number has named the same binary
//! interface since version 3: the layouts below are those of the PMIx standard, chapters 3 and 4,
//! as OpenPMIx 4.2 declares them, and 5.0 has not changed them. Only single values and single
//! attributes are passed, so that no array's stride is relied upon.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Ancestors whose libraries are searched: a rank may be started by a wrapper or two.
const ANCESTORS: usize = 6;

/// The file's name, which the loader knows too.
const FILE: &str = "libpmix.so.2";

/// A rank that stands for the whole job.
pub(super) const WILDCARD: u32 = u32::MAX - 1;

const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const UINT32: u16 = 14;
const BYTES: u16 = 27;

/// Visible to ranks of all nodes.
const SCOPE_GLOBAL: u8 = 3;

/// `pmix_proc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Proc {
    nspace: [u8; 256],
    pub(super) rank: u32,
}

/// `pmix_byte_object_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Bytes {
    start: *mut c_char,
    size: usize,
}

/// The union within `pmix_value_t`; its largest member has three words.
#[derive(Clone, Copy)]
#[repr(C)]
union Data {
    flag: bool,
    integer: c_int,
    uint32: u32,
    string: *mut c_char,
    bytes: Bytes,
    size: [usize; 3],
}

/// `pmix_value_t`.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [u8; 512],
    flags: u32,
    value: Value,
}

impl Info {
    /// An attribute whose name has less than 512 bytes.
    fn of(name: &str, kind: u16, data: Data) -> Self {
        let mut key = [0; 512];
        key[..name.len()].copy_from_slice(name.as_bytes());
        Self { key, flags: 0, value: Value { kind, data } }
    }
}

type Init = unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *const Proc, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type ValueDestruct = unsafe extern "C" fn(*mut Value);

/// The functions, by their names without `PMIx_`.
#[derive(Clone, Copy)]
struct Functions {
    init: Init,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: ErrorString,
    value_destruct: ValueDestruct,
}

/// The library, opened, and this process as a client of its server. It is never closed: its
/// threads may run as long as the process.
pub(super) struct Library {
    functions: Functions,
    own: Proc,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("rank", &self.own.rank).finish_non_exhaustive()
    }
}

/// What the server answered, in the library's words.
pub(super) type Answer<T> = Result<T, String>;

impl Library {
    /// Opens the library and greets the server.
    pub(super) fn connect() -> Answer<Self> {
        let functions = open()?;
        let mut own = Proc { nspace: [0; 256], rank: 0 };
        // SAFETY: `own` is a whole `pmix_proc_t`, which the library fills in; no attributes.
        let status = unsafe { (functions.init)(&mut own, std::ptr::null(), 0) };
        let library = Self { functions, own };
        library.check(status)?;
        Ok(library)
    }

    pub(super) fn rank(&self) -> u32 {
        self.own.rank
    }

    fn check(&self, status: c_int) -> Answer<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: takes any number; returns a constant of the library, with a zero at its end, or
        // null.
        let text = unsafe { (self.functions.error_string)(status) };
        if text.is_null() {
            return Err(format!("PMIx error {status}"));
        }
        // SAFETY: not null, and as above.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        Err(format!("{text} ({status})"))
    }

    /// Publishes bytes; visible after `commit` and `fence`.
    pub(super) fn put(&self, key: &str, bytes: &[u8]) -> Answer<()> {
        let key = text(key)?;
        let start = bytes.as_ptr().cast_mut().cast();
        let data = Data { bytes: Bytes { start, size: bytes.len() } };
        let mut value = Value { kind: BYTES, data };
        // SAFETY: key and value live across the call; the library copies the bytes and does not
        // write to them, whatever its prototype says.
        self.check(unsafe { (self.functions.put)(SCOPE_GLOBAL, key.as_ptr(), &mut value) })
    }

    /// Hands what was put to the server and waits for every rank of the job, whose puts are
    /// collected.
    pub(super) fn exchange(&self) -> Answer<()> {
        // SAFETY: no arguments.
        self.check(unsafe { (self.functions.commit)() })?;
        let collect = Info::of("pmix.collect", BOOL, Data { flag: true });
        // SAFETY: no processes named means all of the job; one attribute, alive across the call.
        self.check(unsafe { (self.functions.fence)(std::ptr::null(), 0, &collect, 1) })
    }

    /// What `rank` has published, or what the server knows of it.
    fn get<T>(&self, rank: u32, key: &str, read: impl FnOnce(&Value) -> Option<T>) -> Answer<T> {
        let name = text(key)?;
        let of = Proc { rank, ..self.own };
        let limit = Info::of("pmix.timeout", INT, Data { integer: 60 });
        let mut value = std::ptr::null_mut();
        // SAFETY: process, key and attribute live across the call; the library writes a pointer
        // to a value of its own, which becomes ours.
        let status = unsafe { (self.functions.get)(&of, name.as_ptr(), &limit, 1, &mut value) };
        self.check(status)?;
        if value.is_null() {
            return Err("no value".into());
        }
        // SAFETY: the call has succeeded, so it is a valid value, ours alone until freed below.
        let found = read(unsafe { &*value });
        // SAFETY: the value came from the library, which allocates with the C library's `malloc`;
        // it is not used again.
        unsafe {
            (self.functions.value_destruct)(value);
            libc::free(value.cast());
        }
        found.ok_or_else(|| format!("{key} has another type than expected"))
    }

    /// The bytes that `rank` has put.
    pub(super) fn get_bytes(&self, rank: u32, key: &str) -> Answer<Vec<u8>> {
        self.get(rank, key, |value| {
            if value.kind != BYTES {
                return None;
            }
            // SAFETY: the kind says that this member was written.
            let bytes = unsafe { value.data.bytes };
            if bytes.size == 0 {
                return Some(Vec::new());
            }
            if bytes.start.is_null() || bytes.size > isize::MAX as usize {
                return None;
            }
            // SAFETY: the library's object has so many bytes at its start, nobody else's.
            Some(unsafe { std::slice::from_raw_parts(bytes.start.cast(), bytes.size) }.to_vec())
        })
    }

    /// A number that the server knows of the job.
    pub(super) fn job_number(&self, key: &str) -> Answer<u32> {
        self.get(WILDCARD, key, |value| match value.kind {
            // SAFETY: the kind says that this member was written.
            UINT32 => Some(unsafe { value.data.uint32 }),
            _ => None,
        })
    }

    /// A text that the server knows of the job.
    pub(super) fn job_text(&self, key: &str) -> Answer<String> {
        self.get(WILDCARD, key, |value| {
            if value.kind != STRING {
                return None;
            }
            // SAFETY: the kind says that this member was written.
            let start = unsafe { value.data.string };
            if start.is_null() {
                return None;
            }
            // SAFETY: a string of the library, with a zero at its end.
            Some(unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned())
        })
    }

    /// Asks for the end of the job.
    pub(super) fn abort(&self, code: i32, message: &str) -> Answer<()> {
        let message = text(message)?;
        // SAFETY: the message lives across the call; no processes named means all of the job.
        self.check(unsafe { (self.functions.abort)(code, message.as_ptr(), std::ptr::null(), 0) })
    }

    /// Says goodbye to the server.
    pub(super) fn finalize(&self) -> Answer<()> {
        // SAFETY: no attributes.
        self.check(unsafe { (self.functions.finalize)(std::ptr::null(), 0) })
    }
}

/// A text for the library.
fn text(text: &str) -> Answer<CString> {
    CString::new(text).map_err(|_| format!("{text:?} has a zero byte"))
}

fn open() -> Answer<Functions> {
    let mut reasons = Vec::new();
    for path in mapped_by_ancestors().into_iter().chain([PathBuf::from(FILE)]) {
        match load(&path) {
            Ok(functions) => {
                tracing::debug!(path = %path.display(), "PMIx library");
                return Ok(functions);
            }
            Err(reason) => reasons.push(reason),
        }
    }
    Err(format!(
        "{FILE} cannot be opened ({}); install it (Debian: libpmix2) or add its directory to \
         LD_LIBRARY_PATH",
        reasons.join("; ")
    ))
}

/// Libraries of this name that the ancestors of this process use.
fn mapped_by_ancestors() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pid = std::process::id();
    for _ in 0..ANCESTORS {
        let Some(parent) = parent_of(pid) else { break };
        pid = parent;
        // Refused for processes of other users.
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if let Some(path) = maps.lines().find_map(mapped) {
            found.push(path);
            break;
        }
    }
    found
}

/// The file of a line of `/proc/PID/maps`, if it is the library.
fn mapped(line: &str) -> Option<PathBuf> {
    let path = Path::new(&line[line.find('/')?..]);
    let name = path.file_name()?.as_bytes();
    let version = name.strip_prefix(FILE.as_bytes())?;
    (version.is_empty() || version.starts_with(b".")).then(|| path.into())
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (parent > 1).then_some(parent)
}

fn load(path: &Path) -> Answer<Functions> {
    let file = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: a path with a zero at its end. Initialisers of the library run, as they would if
    // this program were linked with it.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: after a failure it returns a text with a zero at its end, or null.
        let error = unsafe { libc::dlerror() };
        return Err(match error.is_null() {
            true => path.display().to_string(),
            // SAFETY: as above; it is copied before another call could change it.
            false => unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned(),
        });
    }
    let find = |name: &CStr| {
        // SAFETY: an open handle, and a name with a zero at its end.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        let missing = || format!("{} has no {}", path.display(), name.to_string_lossy());
        if address.is_null() { Err(missing()) } else { Ok(address) }
    };
    // SAFETY: a function's address becomes a pointer to that function; the types are those of the
    // declarations in PMIx's headers, in which enumerations of one byte are `u8` and statuses
    // `int`. The library stays open.
    unsafe {
        use std::mem::transmute as function;
        type Address = *mut c_void;
        Ok(Functions {
            init: function::<Address, Init>(find(c"PMIx_Init")?),
            finalize: function::<Address, Finalize>(find(c"PMIx_Finalize")?),
            abort: function::<Address, Abort>(find(c"PMIx_Abort")?),
            put: function::<Address, Put>(find(c"PMIx_Put")?),
            commit: function::<Address, Commit>(find(c"PMIx_Commit")?),
            fence: function::<Address, Fence>(find(c"PMIx_Fence")?),
            get: function::<Address, Get>(find(c"PMIx_Get")?),
            error_string: function::<Address, ErrorString>(find(c"PMIx_Error_string")?),
            value_destruct: function::<Address, ValueDestruct>(find(c"PMIx_Value_destruct")?),
        })
    }
}

const _: () = {
    // As `sizeof` and `offsetof` have them with PMIx's own headers, on 64-bit machines.
    assert!(size_of::<Proc>() == 260 && std::mem::offset_of!(Proc, rank) == 256);
    assert!(size_of::<Value>() == 32 && std::mem::offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, value) == 520);
    assert!(std::mem::offset_of!(Info, flags) == 512);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_among_mappings() {
        let line = |path: &str| format!("7f00-7f01 r-xp 00000000 08:01 42      {path}");
        let found = |path| mapped(&line(path));
        assert_eq!(found("/a b/libpmix.so.2.6.2"), Some("/a b/libpmix.so.2.6.2".into()));
        assert_eq!(found("/lib/libpmix.so.2"), Some("/lib/libpmix.so.2".into()));
        assert_eq!(found("/lib/libpmix.so.22"), None);
        assert_eq!(found("/lib/libc.so.6"), None);
        assert_eq!(mapped("7f00-7f01 rw-p 00000000 00:00 0"), None);
    }
}
