//! The buffer is written while it is being sent.
use bowline_mpi::{MpiError, World};

fn send(world: &World) -> Result<(), MpiError> {
    let mut out = [1u8; 8];
    world.scope(|s| {
        let request = s.isend(world, &out, 0, 0)?;
        out[0] = 2; //~ E0506 cannot assign to `out[_]` because it is borrowed
        request.wait()
    })
}

fn main() {
    let _ = send;
}
