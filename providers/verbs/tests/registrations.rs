//! What registering memory for one operation adds to the operation. Counted is when there is a registration; times are printed
//! and not judged: in the guest they are those of the kernel's driver on emulated processors.

use std::time::{Duration, Instant};

use crate::common::{Pair, has_device};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_uct::conformance::Watchdog;
use bowline_uct::{Iface, LocalSlice, MemoryDomain, OneSided, Posted, RemoteSlice, Token};
use bowline_verbs::{ConnectWhen, VerbsIface};

const SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Of so many, the median is printed.
const ROUNDS: u64 = 3;

fn registrations(iface: &VerbsIface) -> usize {
    match iface {
        VerbsIface::Rc(iface) => iface.transient_registrations(),
        _ => unreachable!("no other mode was asked for"),
    }
}

/// Gets of a whole buffer, one after the other. How long they took, and how many of them had their memory registered while they were
/// under way.
fn get_all(
    pair: &mut Pair,
    into: &mut RecvBuf,
    len: usize,
    from: RemoteSlice,
) -> (Duration, usize) {
    let begin = Instant::now();
    let (mut done, mut registered) = (0, 0);
    let most = pair.a.attr().limits.get.max_zcopy;
    while done < len {
        let piece = most.min(len - done);
        // SAFETY: the buffer is kept, and left alone, until the get has ended.
        let slice = unsafe { LocalSlice::of_recv(into, done, piece) }.expect("it is inside");
        let from = RemoteSlice { address: from.address + done as u64, ..from };
        let posted = pair.a.get_zcopy(pair.to_b, &[slice], from, Token(1));
        assert_eq!(posted, Ok(Posted::InFlight));
        registered += registrations(&pair.a);
        pair.until(|pair| !pair.seen_a.completed.is_empty());
        assert_eq!(pair.seen_a.completed.pop(), Some((Token(1), Ok(0))));
        done += piece;
    }
    (begin.elapsed(), registered)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// Memory that nobody keeps registered is registered for each operation, and not beyond; that of a handle for none. Beside what
/// each takes stands what it takes to lend as much to a peer and to take it back, which is a registration and nothing else.
#[test]
fn memory_without_a_handle_is_registered_for_each_get() {
    const NAME: &str = "memory_without_a_handle_is_registered_for_each_get";
    if !has_device(NAME) {
        return;
    }
    let _watchdog = Watchdog::start("verbs", NAME);
    let mut pair = Pair::open(|options| options.connect = ConnectWhen::AtOnce);
    for len in SIZES {
        let window = pair.b.mem_alloc(len).expect("there is memory");
        let address = pair.b.mem_view(window).expect("it is held").as_ptr() as u64;
        let packed = pair.b.rkey_pack(window).expect("it has a key");
        let rkey = pair.a.rkey_unpack(pair.to_b, &packed).expect("a whole key opens");
        let from = RemoteSlice { address, rkey };
        let own = pair.a.mem_alloc(len).expect("there is memory");
        let view = pair.a.mem_view(own).expect("it is held");
        // SAFETY: the allocation stays until it is released below, after the last get.
        let mut kept = unsafe { RecvBuf::borrowed(view.as_ptr(), len) };
        let mut plain = RecvBuf::owned(vec![1; len]);
        let lent = SendBuf::owned(vec![2; len]);
        let pieces = len.div_ceil(pair.a.attr().limits.get.max_zcopy);
        let mut times = [const { Vec::new() }; 3];
        // The first one makes the connection.
        for round in 0..=ROUNDS {
            let (of_kept, registered) = get_all(&mut pair, &mut kept, len, from);
            assert_eq!(registered, 0, "{len} bytes: registered a second time");
            let (of_plain, registered) = get_all(&mut pair, &mut plain, len, from);
            assert_eq!(registered, pieces, "{len} bytes: one registration for each get");
            assert_eq!(registrations(&pair.a), 0, "{len} bytes: one has outlived its get");
            let begin = Instant::now();
            // SAFETY: the buffer is kept, and left alone, until it is taken back.
            let slice = unsafe { LocalSlice::of_send(&lent, 0, len) }.expect("all of it");
            let handle = pair.a.mem_expose(slice).expect("it can be registered");
            assert_eq!(registrations(&pair.a), 1);
            drop(pair.a.mem_release(handle).expect("it is held"));
            let of_lent = begin.elapsed();
            assert_eq!(registrations(&pair.a), 0);
            if round > 0 {
                for (times, took) in times.iter_mut().zip([of_kept, of_plain, of_lent]) {
                    times.push(took);
                }
            }
        }
        let [kept, plain, lent] = times.map(median);
        println!(
            "{len} bytes, us: got into registered memory {kept:.0}, into plain memory {plain:.0}; registered and given back \
             {lent:.0}"
        );
        pair.a.rkey_release(rkey);
        drop(pair.a.mem_release(own).expect("it is held"));
        drop(pair.b.mem_release(window).expect("it is held"));
    }
}
