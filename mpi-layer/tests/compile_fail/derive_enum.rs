//! Not every bit pattern is a value of an enum.
use bowline_mpi::Datatype;

#[derive(Clone, Copy, Datatype)]
#[datatype(crate = bowline_mpi)]
#[repr(u8)]
enum Color { //~ only structs can be datatypes
    Red,
    Blue,
}

fn main() {}
