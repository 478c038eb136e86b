//! What the others do wrong, done right.
use bowline_mpi::{Datatype, MpiError, Request, World, wait_all};

#[derive(Clone, Copy, Datatype)]
#[datatype(crate = bowline_mpi)]
#[repr(C)]
struct Pair {
    value: f64,
    index: u32,
    fill: u32,
}

fn exchange(world: &World) -> Result<f64, MpiError> {
    let out = vec![Pair { value: 1.0, index: 2, fill: 0 }; 10];
    let mut into = out.clone();
    let mut more = [0u8; 4];
    let first = world.scope(|s| {
        let mut sends = Vec::new();
        for chunk in out.chunks(5) {
            sends.push(s.isend(world, chunk, 0, 0)?);
        }
        let mut receives = Vec::new();
        for chunk in into.chunks_mut(5) {
            receives.push(s.irecv(world, chunk, 0, 0)?);
        }
        let mut other = s.irecv(world, &mut more, 0, 1)?;
        while other.test()?.is_none() {}
        // A sent buffer can be read while it is being sent.
        let sum = out[0].value;
        wait_all(&mut sends)?;
        let received = receives.remove(0).wait()?;
        received.items[0].value += sum;
        Ok(received.items[0].value)
    })?;
    more[0] = 1;
    Ok(first + into[0].value)
}

fn main() {
    let _ = exchange;
}
