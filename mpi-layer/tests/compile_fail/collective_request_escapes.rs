//! The request of a collective is returned from its scope.
use bowline_mpi::{MpiError, World};

fn barrier(world: &World) -> Result<(), MpiError> {
    let request = world.scope(|s| s.ibarrier(world))?;
    //~^ lifetime may not live long enough
    request.wait()
}

fn main() {
    let _ = barrier;
}
