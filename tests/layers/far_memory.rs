//! Memory that no transport of the caller leads to: its own over TCP, shared memory from another node,
//! and words that only their owner can change.

use crate::alone::{Outcome, alone, alone_with};
use bowline::ucp::{RemoteKey, RequestId, Sent, Worker};
use bowline::uct::{AtomicOp, AtomicWidth};
use bowline_base::buffer::{RecvBuf, SendBuf};

/// Makes progress on all until a request of the first is complete; its value.
fn end(workers: &[&Worker], id: RequestId) -> Outcome<u64> {
    while !workers[0].is_complete(id) {
        for worker in workers {
            worker.progress();
        }
    }
    let status = workers[0].take(id).ok_or("it is complete")?;
    status.outcome?;
    Ok(status.length)
}

/// Puts, adds, flushes and reads back.
fn use_it(workers: &[&Worker], key: RemoteKey, base: u64) -> Outcome {
    let caller = workers[0];
    let bytes: Vec<u8> = (0..50_000_u32).map(|i| i as u8).collect();
    if let Sent::Pending(id) = caller.put(key, base, SendBuf::owned(bytes.clone()))? {
        end(workers, id)?;
    }
    caller.atomic_post(key, base, AtomicOp::Add(5), AtomicWidth::W64)?;
    if let Sent::Pending(id) = caller.flush_begin()? {
        end(workers, id)?;
    }
    let old = match caller.atomic_fetch(key, base, AtomicOp::Swap(9), AtomicWidth::W64)? {
        Ok(old) => old,
        Err(id) => end(workers, id)?,
    };
    assert_eq!(old, 0x0706_0504_0302_0100 + 5);
    let Sent::Pending(id) = caller.get(key, base, RecvBuf::owned(vec![0; bytes.len()]))? else {
        return Err("an owned buffer comes back with its request".into());
    };
    while !caller.is_complete(id) {
        for worker in workers {
            worker.progress();
        }
    }
    let (status, read) = caller.take_with_buffer(id).ok_or("it is complete")?;
    status.outcome?;
    let read = read.ok_or("the buffer is owned")?;
    assert_eq!(read[..8], 9_u64.to_le_bytes());
    assert_eq!(read[8..], bytes[8..]);
    Ok(())
}

fn opened(caller: &Worker, owner: &Worker) -> Outcome<(RemoteKey, u64)> {
    let memory = owner.mem_alloc(65_536)?;
    let base = owner.mem_view(memory, |view| view.as_ptr().addr() as u64)?;
    let ep = caller.connect(&owner.address())?;
    Ok((caller.rkey_unpack(ep, &owner.rkey_pack(memory)?)?, base))
}

#[test]
fn a_worker_reaches_its_own_memory_over_each_transport() -> Outcome {
    for transports in ["self,shm", "self,tcp", "self,shm,tcp"] {
        let worker = alone(1, transports)?;
        let (key, base) = opened(&worker, &worker)?;
        use_it(&[&worker], key, base)?;
    }
    Ok(())
}

#[test]
fn shared_memory_is_reached_from_where_it_cannot_be_mapped() -> Outcome {
    // No entry for a worker of another node: the two talk over TCP, and the owner's memory is that of
    // its shared memory transport, which it prefers.
    let settings = [("BOWLINE_TRANSPORTS", "self,shm,tcp"), ("BOWLINE_SHM_GUESTS", "0")];
    let (caller, owner) = (alone_with(1, &settings)?, alone_with(2, &settings)?);
    let (key, base) = opened(&caller, &owner)?;
    use_it(&[&caller, &owner], key, base)
}
