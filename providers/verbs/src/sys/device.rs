//! Devices, protection domains and registered memory.
//!
//! What an object was made from it keeps alive, so that the library's rule (children first) holds
//! whatever the order in which fields are dropped.

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::sync::Arc;

use bowline_base::region::Region;
use bowline_base::view::View;

use super::ffi;
use super::load::{library, loaded};
use super::object::LibraryObject;

/// More descriptors than the library has open at once while it searches for devices and loads what drives
/// them: a socket, directories, files in them.
const SEARCH_DESCRIPTORS: usize = 8;

/// Fails where descriptors are so short that the library would not find the devices. It would take them for
/// absent, and what drives them for missing as long as the process lives.
fn search_possible() -> io::Result<()> {
    (0..SEARCH_DESCRIPTORS)
        .map(|_| File::open("/dev/null"))
        .collect::<io::Result<Vec<_>>>()
        .map(drop)
}

pub(crate) fn device_names() -> Result<Vec<String>, io::Error> {
    let functions = library().map_err(io::Error::other)?;
    search_possible()?;
    let mut count = 0;
    // SAFETY: `count` is writable; the list is freed below and not used after.
    let list = unsafe { (functions.get_device_list)(&raw mut count) };
    if list.is_null() {
        // No kernel support at all is reported as an error by some versions, as a list of
        // nothing by others.
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` devices, which live until it is freed; their names are C
        // strings inside of them.
        let name = unsafe { CStr::from_ptr((functions.get_device_name)(*list.add(index))) };
        names.push(name.to_string_lossy().into_owned());
    }
    // SAFETY: the list came from `get_device_list` and is not used after this.
    unsafe { (functions.free_device_list)(list) };
    Ok(names)
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Context {
    raw: LibraryObject<ffi::Context>,
}

impl Context {
    pub(crate) fn open(name: &str) -> Result<Arc<Self>, io::Error> {
        let functions = library().map_err(io::Error::other)?;
        let mut count = 0;
        // SAFETY: as in `device_names`.
        let list = unsafe { (functions.get_device_list)(&raw mut count) };
        if list.is_null() {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let mut found = Err(io::Error::from(io::ErrorKind::NotFound));
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: as in `device_names`; an open device outlives the list. Everything that is made from it
            // holds an `Arc` of its `Context`, so nothing is left when that goes.
            unsafe {
                let device = *list.add(index);
                let found_name = CStr::from_ptr((functions.get_device_name)(device));
                if found_name.to_bytes() == name.as_bytes() {
                    let raw = (functions.open_device)(device);
                    found = LibraryObject::new(raw, functions.close_device);
                    break;
                }
            }
        }
        // SAFETY: as in `device_names`.
        unsafe { (functions.free_device_list)(list) };
        found.map(|raw| Arc::new(Self { raw }))
    }

    pub(super) const fn raw(&self) -> *mut ffi::Context {
        self.raw.raw()
    }

    /// What the device can do.
    pub(crate) fn attributes(&self) -> Result<ffi::DeviceAttr, io::Error> {
        // SAFETY: numbers, for which zero is a value.
        let mut attributes: ffi::DeviceAttr = unsafe { std::mem::zeroed() };
        // SAFETY: the device is open; the structure has the library's size.
        check(unsafe { (loaded().query_device)(self.raw(), &raw mut attributes) })?;
        Ok(attributes)
    }

    /// What a port of it can do.
    pub(crate) fn port(&self, port: u8) -> Result<ffi::PortAttr, io::Error> {
        let mut attributes = ffi::PortAttr::default();
        // SAFETY: the device is open; the function fills at most the structure, the rest stays 0.
        check(unsafe { (loaded().query_port)(self.raw(), port, &raw mut attributes) })?;
        Ok(attributes)
    }

    /// An entry of a port's table of global addresses.
    pub(crate) fn gid(&self, port: u8, index: u32) -> Result<ffi::GidEntry, io::Error> {
        let mut entry = ffi::GidEntry::default();
        let size = size_of::<ffi::GidEntry>();
        // SAFETY: the device is open; the function gets the structure's size.
        check(unsafe {
            (loaded().query_gid_ex)(self.raw(), u32::from(port), index, &raw mut entry, 0, size)
        })?;
        Ok(entry)
    }
}

/// A protection domain: keys of one open nothing in another.
#[derive(Debug)]
pub(crate) struct Pd {
    raw: LibraryObject<ffi::Pd>,
    context: Arc<Context>,
}

impl Pd {
    /// A domain of its own.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>, io::Error> {
        // SAFETY: the device is open; what is made in the domain holds an `Arc` of it.
        let raw =
            unsafe { LibraryObject::new((loaded().alloc_pd)(context.raw()), loaded().dealloc_pd)? };
        Ok(Arc::new(Self { raw, context: Arc::clone(context) }))
    }

    pub(super) const fn raw(&self) -> *mut ffi::Pd {
        self.raw.raw()
    }

    /// The device.
    pub(crate) const fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

/// Memory that the device may reach.
#[derive(Debug)]
pub(crate) struct Mr {
    raw: LibraryObject<ffi::Mr>,
    _pd: Arc<Pd>,
}

/// What a device may do with registered memory, beside reading it for its own sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Write it, for receives and for what reads and atomics bring.
    Local,
    /// All that, for peers, too.
    Remote,
    /// Only read it.
    Read,
    /// Only read it, for peers, too.
    Exposed,
}

impl Mr {
    /// Registers `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes must be mapped. As long as a request or a peer may use the registration they must stay so, and be owned
    /// by the caller that registered them: not referenced as a slice while the device may write them.
    pub(crate) unsafe fn new(
        pd: &Arc<Pd>,
        start: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Self, io::Error> {
        let flags: c_int = match access {
            Access::Read => 0,
            Access::Exposed => ffi::ACCESS_REMOTE_READ,
            Access::Local => ffi::ACCESS_LOCAL_WRITE,
            Access::Remote => {
                ffi::ACCESS_LOCAL_WRITE
                    | ffi::ACCESS_REMOTE_WRITE
                    | ffi::ACCESS_REMOTE_READ
                    | ffi::ACCESS_REMOTE_ATOMIC
            }
        };
        // SAFETY: the domain is alive; the bytes are mapped by the caller's promise, and pinned
        // by the kernel from here on. No request that names them is under way when the registration
        // ends, by the same promise; a peer that still holds the key is refused by the device then.
        let raw = unsafe {
            let raw = (loaded().reg_mr)(pd.raw(), start.cast(), len, flags);
            LibraryObject::new(raw, loaded().dereg_mr)?
        };
        Ok(Self { raw, _pd: Arc::clone(pd) })
    }

    /// The key by which this side's requests name the memory.
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the registration is alive; the field does not change.
        unsafe { (*self.raw.raw()).lkey }
    }

    /// The key by which a peer names it.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: as for `lkey`.
        unsafe { (*self.raw.raw()).rkey }
    }
}

/// Memory of our own, registered as a whole for as long as it exists.
#[derive(Debug)]
pub(crate) struct Memory {
    // Before the region, which is unmapped after the registration has ended.
    mr: Mr,
    region: Region,
}

impl Memory {
    /// `len` bytes, zeroed and registered.
    pub(crate) fn new(pd: &Arc<Pd>, len: usize, access: Access) -> Result<Self, io::Error> {
        let region = Region::create_private(len).map_err(io::Error::other)?;
        let view = region.view();
        // SAFETY: the region is kept beside the registration and unmapped after it; its bytes
        // are only reached through views.
        let mr = unsafe { Mr::new(pd, view.as_ptr(), view.len(), access)? };
        Ok(Self { mr, region })
    }

    /// All bytes.
    pub(crate) fn view(&self) -> View<'_> {
        self.region.view()
    }

    /// The piece at `offset`, as a request names it.
    #[inline]
    pub(crate) fn piece(&self, offset: usize, len: usize) -> ffi::Sge {
        debug_assert!(offset + len <= self.region.len(), "a piece of the memory");
        ffi::Sge {
            addr: self.region.view().as_ptr() as u64 + offset as u64,
            length: len as u32,
            lkey: self.mr.lkey(),
        }
    }
}

/// What a function that returns an error number said.
pub(super) fn check(code: c_int) -> Result<(), io::Error> {
    match code {
        0 => Ok(()),
        // Some functions return -1 and leave the number behind.
        -1 => Err(io::Error::last_os_error()),
        number => Err(io::Error::from_raw_os_error(number.abs())),
    }
}
