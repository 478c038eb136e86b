//! What a collective writes is read while it is under way, and after its end, but inside of the scope.
use bowline_mpi::{MpiError, World};

fn bring(world: &World) -> Result<u8, MpiError> {
    let mut items = [0u8; 8];
    world.scope(|s| {
        let request = s.ibcast(world, &mut items, 0)?;
        let early = items[0]; //~ E0503 cannot use `items[_]` because it was mutably borrowed
        request.wait()?;
        Ok(early)
    })
}

fn main() {
    let _ = bring;
}
