//! Not every bit pattern is a `bool`, and addresses mean nothing elsewhere.
use bowline_mpi::{MpiError, World};

fn send(world: &World) -> Result<(), MpiError> {
    world.send(&[true], 0, 0)?; //~ E0277 the trait bound `bool: Datatype` is not satisfied
    world.send(&["text"], 0, 0) //~ E0277 the trait bound `&str: Datatype` is not satisfied
}

fn main() {
    let _ = send;
}
