//! A communicator belongs to the thread of its rank.
use bowline_mpi::World;

fn share(world: &World) {
    std::thread::scope(|threads| {
        threads.spawn(|| world.barrier()); //~ E0277 cannot be shared between threads safely
    });
}

fn main() {
    let _ = share;
}
