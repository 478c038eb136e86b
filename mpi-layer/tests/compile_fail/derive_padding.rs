//! Padding would send bytes that were never written.
use bowline_mpi::Datatype;

#[derive(Clone, Copy, Datatype)] //~ E0080 a datatype has no padding
#[datatype(crate = bowline_mpi)]
#[repr(C)]
struct Gap {
    small: u8,
    large: u32,
}

fn main() {}
