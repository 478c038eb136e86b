//! A request is stored outside of its scope.
use bowline_mpi::{MpiError, SendRequest, World};

fn send(world: &World) -> Result<(), MpiError> {
    let out = [0u8; 8];
    let mut kept: Option<SendRequest<'_>> = None;
    world.scope(|s| {
        kept = Some(s.isend(world, &out, 0, 0)?); //~ E0521 borrowed data escapes outside of closure
        Ok(())
    })?;
    kept.unwrap().wait()
}

fn main() {
    let _ = send;
}
