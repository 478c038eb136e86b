//! The buffer is dropped while it is being sent.
use bowline_mpi::{MpiError, World};

fn send(world: &World) -> Result<(), MpiError> {
    let out = vec![1u8; 8];
    world.scope(|s| {
        let request = s.isend(world, &out, 0, 0)?;
        drop(out);
        request.wait()
    })
}

fn main() {
    let _ = send;
}
