//! Not every bit pattern is a `bool`, and addresses mean nothing elsewhere.
use bowline_mpi::{MpiError, World};

fn send(world: &World) -> Result<(), MpiError> {
    world.send(&[true], 0, 0)?;
    world.send(&["text"], 0, 0)
}

fn main() {
    let _ = send;
}
