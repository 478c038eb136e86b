//! The buffer is moved into the closure and dropped at its end.
use bowline_mpi::{MpiError, World};

fn send(world: &World) -> Result<(), MpiError> {
    let out = vec![1u8; 8];
    world.scope(move |s| {
        let _ = s.isend(world, &out, 0, 0)?; //~ E0597 `out` does not live long enough
        Ok(())
    })
}

fn main() {
    let _ = send;
}
