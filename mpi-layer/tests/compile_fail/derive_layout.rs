//! Without `repr(C)` the compiler may order fields differently in each program.
use bowline_mpi::Datatype;

#[derive(Clone, Copy, Datatype)]
#[datatype(crate = bowline_mpi)]
struct Free { //~ a datatype needs a fixed layout
    value: u32,
}

fn main() {}
