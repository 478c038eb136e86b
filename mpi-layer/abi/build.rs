//! How the shared library is linked: under the name of the ABI, never unloaded, with its own
//! functions bound to each other.

fn main() {
    for argument in [
        // Programs of the ABI search for this name, in any library.
        "-Wl,-soname,libmpi_abi.so.1",
        // Threads of the library may run until the process ends.
        "-Wl,-z,nodelete",
        // MPI_X calls the PMPI_X beside it, without a way through the table of names.
        "-Wl,-Bsymbolic-functions",
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
