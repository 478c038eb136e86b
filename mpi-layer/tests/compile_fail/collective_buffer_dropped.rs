//! The buffer of a collective is dropped while it is under way.
use bowline_mpi::{MpiError, Sum, World};

fn sum(world: &World) -> Result<(), MpiError> {
    let (input, mut output) = (vec![1u64; 8], vec![0; 8]);
    world.scope(|s| {
        let request = s.iallreduce(world, &input, &mut output, Sum)?; //~ E0597 `input` does not live long enough
        drop(input); //~ E0505 cannot move out of `input` because it is borrowed
        request.wait()
    })
}

fn main() {
    let _ = sum;
}
