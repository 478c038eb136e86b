//! Bindings of the installed libfabric, from 1.17 to 2.x.
//!
//! The types, constants and exported functions are made by bindgen from the headers at build
//! time; the functions that libfabric defines in its headers are in [`calls`], as plain Rust
//! that goes through the objects' tables.
//! It holds no policy and makes nothing safe: that is the work of the crate that uses it.
//!
//! **Building.** It needs the headers and libclang (`apt-get install libfabric-dev libclang-dev
//! pkg-config`). libfabric's symbols are versioned, so a program that was built against the headers
//! of 1.17 runs with the libraries of 1.17 and of 2.x. What exists in one of them only (buffered
//! receives of 1.x, peer providers of 2.x) is in the bindings where the headers have it; code that
//! is to build with both does not use it.

pub mod calls;

/// What bindgen made of the headers.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    reason = "made from C"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
pub use calls::*;

/// The address of nobody in particular; a macro with a cast in the headers, which bindgen skips.
pub const FI_ADDR_UNSPEC: fi_addr_t = fi_addr_t::MAX;

/// A version of the interface, as `fi_getinfo` takes it.
pub const fn fi_version_of(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_answers() {
        // SAFETY: takes nothing.
        let version = unsafe { fi_version() };
        assert!(
            version >= fi_version_of(1, 17),
            "libfabric {}.{}",
            version >> 16,
            version & 0xffff
        );
        assert!(FI_ADDR_UNSPEC.wrapping_add(1) == 0);
        assert_eq!((FI_EAGAIN, FI_MSG), (libc::EAGAIN, 2));
    }

    #[test]
    fn an_info_is_allocated_and_freed() {
        // SAFETY: `fi_allocinfo` takes nothing; what it gives is freed once.
        unsafe {
            let info = fi_allocinfo();
            assert!(!info.is_null() && !(*info).ep_attr.is_null());
            fi_freeinfo(info);
        }
    }
}
