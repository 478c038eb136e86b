//! Two collectives in place are under way in one buffer, and what one of them is dealt out of is written.
use bowline_mpi::{MpiError, Sum, World};

fn reduce(world: &World) -> Result<(), MpiError> {
    let mut items = [0u8; 8];
    world.scope(|s| {
        let first = s.iallreduce_in_place(world, &mut items, Sum)?;
        let second = s.iscan_in_place(world, &mut items, Sum)?; //~ E0499 cannot borrow `items` as mutable more than once
        first.wait()?;
        second.wait()
    })
}

fn deal(world: &World) -> Result<(), MpiError> {
    let mut items = [0u8; 8];
    world.scope(|s| {
        let request = s.iscatter_in_place(world, &items)?;
        items[0] = 1; //~ E0506 cannot assign to `items[_]` because it is borrowed
        request.wait()
    })
}

fn main() {
    let _ = (reduce, deal);
}
