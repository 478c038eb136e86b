//! A communicator belongs to the thread of its rank.
use bowline_mpi::World;

fn share(world: &World) {
    std::thread::scope(|threads| {
        threads.spawn(|| world.barrier());
    });
}

fn main() {
    let _ = share;
}
