//! The buffer belongs to the closure and is gone before the scope waits.
use bowline_mpi::{MpiError, World};

fn receive(world: &World) -> Result<(), MpiError> {
    world.scope(|s| {
        let mut into = [0u8; 8];
        let _ = s.irecv(world, &mut into, 0, 0)?; //~ E0597 `into` does not live long enough
        Ok(())
    })
}

fn main() {
    let _ = receive;
}
