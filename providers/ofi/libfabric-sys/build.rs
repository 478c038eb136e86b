//! Finds libfabric and makes bindings from its installed headers.
//!
//! Only declarations are taken: most of libfabric's interface is functions in headers that call
//! through tables of the objects, and those are written out in `src/calls.rs`, so that no C
//! compiler is needed.

use std::path::PathBuf;

use bindgen::callbacks::{IntKind, ParseCallbacks};

/// Flags are 64 bits wide everywhere, error numbers are `int`.
#[derive(Debug)]
struct Kinds;

impl ParseCallbacks for Kinds {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        if name.starts_with("FI_E") {
            Some(IntKind::I32)
        } else if name.starts_with("FI_") {
            Some(IntKind::U64)
        } else {
            None
        }
    }
}

const HEADERS: &[&str] = &[
    "fabric.h",
    "fi_domain.h",
    "fi_endpoint.h",
    "fi_cm.h",
    "fi_eq.h",
    "fi_errno.h",
    "fi_rma.h",
    "fi_tagged.h",
    "fi_atomic.h",
    "fi_ext.h",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let library = match pkg_config::Config::new().atleast_version("1.17").probe("libfabric") {
        Ok(library) => library,
        Err(error) => fail(&format!(
            "libfabric 1.17 or newer with its headers was not found by pkg-config; install it \
             with `apt-get install libfabric-dev pkg-config` (or your system's package of \
             libfabric's headers), or point PKG_CONFIG_PATH at its libfabric.pc\n{error}"
        )),
    };
    let includes: String =
        HEADERS.iter().map(|header| format!("#include <rdma/{header}>\n")).collect();
    let bindings = bindgen::Builder::default()
        .header_contents("libfabric.h", &includes)
        .clang_args(library.include_paths.iter().map(|path| format!("-I{}", path.display())))
        .allowlist_file(".*/rdma/(fabric|fi_[a-z]+)\\.h")
        // Named by the system's own headers, and the same in the crate `libc`.
        .blocklist_type("iovec")
        .raw_line("use libc::iovec;")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        .derive_debug(false)
        .parse_callbacks(Box::new(Kinds))
        .rust_edition(bindgen::RustEdition::Edition2024)
        .rust_target("1.85".parse().expect("a version of Rust"))
        .generate();
    let bindings = match bindings {
        Ok(bindings) => bindings,
        Err(error) => fail(&format!(
            "libfabric's headers could not be read: {error}; bindgen needs libclang: install it \
             with `apt-get install libclang-dev`"
        )),
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(error) = bindings.write_to_file(out.join("bindings.rs")) {
        fail(&format!("cannot write the bindings: {error}"));
    }
}

/// Ends the build with a sentence.
fn fail(why: &str) -> ! {
    println!("cargo::error={}", why.replace('\n', " "));
    std::process::exit(1);
}
