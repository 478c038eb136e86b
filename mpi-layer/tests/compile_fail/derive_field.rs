//! A field that is no datatype.
use bowline_mpi::Datatype;

#[derive(Clone, Copy, Datatype)]
#[datatype(crate = bowline_mpi)]
#[repr(C)]
struct Flag {
    set: bool, //~ E0277 the trait bound `bool: Datatype` is not satisfied
}

fn main() {}
