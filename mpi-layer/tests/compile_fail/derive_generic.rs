//! Whether a generic struct has padding depends on its parameters.
use bowline_mpi::Datatype;

#[derive(Clone, Copy, Datatype)]
#[datatype(crate = bowline_mpi)]
#[repr(C)]
struct Both<T> { //~ a generic struct cannot be a datatype
    first: T,
    second: u32,
}

fn main() {}
