//! Padding would send bytes that were never written.
use bowline_mpi::Datatype;

#[derive(Clone, Copy, Datatype)]
#[datatype(crate = bowline_mpi)]
#[repr(C)]
struct Gap {
    small: u8,
    large: u32,
}

fn main() {}
