//! The buffer is read while a message is being received into it.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<u8, MpiError> {
    let mut into = [0u8; 8];
    world.scope(|s| {
        let request = s.irecv(world, &mut into, 0, 0)?;
        let early = into[0]; //~ E0503 cannot use `into[_]` because it was mutably borrowed
        request.wait()?;
        Ok(early)
    })
}

fn main() {
    let _ = receive;
}
