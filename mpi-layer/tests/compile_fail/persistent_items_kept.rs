//! The buffer of a persistent collective is kept while it is started.
use bowline_mpi::{MpiError, PersistentCollective};

fn begin(sum: &mut PersistentCollective<u64>) -> Result<u64, MpiError> {
    let input = sum.input()?;
    sum.start()?; //~ E0502 cannot borrow `*sum` as mutable because it is also borrowed as immutable
    Ok(input[0])
}

fn main() {
    let _ = begin;
}
