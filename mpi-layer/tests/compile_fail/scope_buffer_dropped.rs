//! The buffer is dropped while it is being sent.
use bowline_mpi::{MpiError, World};

fn send(world: &World) -> Result<(), MpiError> {
    let out = vec![1u8; 8];
    world.scope(|s| {
        let request = s.isend(world, &out, 0, 0)?; //~ E0597 `out` does not live long enough
        drop(out); //~ E0505 cannot move out of `out` because it is borrowed
        request.wait()
    })
}

fn main() {
    let _ = send;
}
