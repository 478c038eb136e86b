//! A persistent collective goes to another thread than its rank's.
use bowline_mpi::PersistentCollective;

fn send(sum: PersistentCollective<u64>) {
    std::thread::spawn(move || drop(sum)); //~ E0277 cannot be sent between threads safely
}

fn main() {
    let _ = send;
}
