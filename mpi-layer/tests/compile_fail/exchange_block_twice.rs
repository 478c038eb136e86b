//! Two blocks of an exchange are received into one place.
use bowline_mpi::{Block, BlockMut, MpiError, World};

fn exchange(world: &World) -> Result<(), MpiError> {
    let (out, mut into) = ([1u8; 8], [0f32; 2]);
    let first: BlockMut<'_> = (&mut into[..]).into();
    let second: BlockMut<'_> = (&mut into[..]).into(); //~ E0499 cannot borrow `into` as mutable more than once
    let send: [Block<'_>; 2] = [out[..].into(), out[..].into()];
    world.alltoallw(send, [first, second])
}

fn main() {
    let _ = exchange;
}
