//! What a read takes that is split, in virtual time: against the model, and against one path alone.

use bowline_base::buffer::RecvBuf;
use bowline_multirail::MultiRail;
use bowline_sim::{Network, NetworkOptions};
use bowline_uct::{
    Arrival, EpId, Iface, LocalSlice, MemoryDomain as _, OneSided, PeerFailure, Posted,
    RemoteSlice, Sink, Source, Token, Verdict,
};

use super::{advance, options, pattern, rails};

#[derive(Default)]
struct Done(Vec<(Token, Result<u64, PeerFailure>)>);

impl Sink for Done {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.0.push((token, result));
    }
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        panic!("nobody fails here: {how}");
    }
}

/// Nanoseconds of a read of `len` bytes by networks with these costs of a byte, in ps; and what was
/// predicted. `figures` is what the table calls them.
fn read(len: usize, bytes_ps: &[u64], figures: &[u64]) -> (f64, f64, MultiRail) {
    let networks: Vec<_> = bytes_ps
        .iter()
        .map(|&byte_ps| Network::new(NetworkOptions { byte_ps, ..options() }))
        .zip(figures.iter().map(|&byte_ps| NetworkOptions { byte_ps, ..options() }))
        .collect();
    let (mut reader, mut owner) = (rails(&networks, 1), rails(&networks, 2));
    let ep = reader.connect(&owner.address()).expect("they reach each other");
    let content = pattern(len, 3);
    let memory = owner.mem_register(RecvBuf::owned(content.clone())).expect("registered");
    let address = owner.mem_view(memory).expect("it is there").as_ptr() as u64;
    let rkey = reader.rkey_unpack(ep, &owner.rkey_pack(memory).expect("a key")).expect("opens");
    let mut buffer = RecvBuf::owned(vec![0; len]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let to = unsafe { LocalSlice::of_recv(&mut buffer, 0, len) }.expect("all of it");
    // Greetings are over.
    let (mut done, mut nothing) = (Done::default(), Done::default());
    reader.am_short(ep, bowline_uct::AmId::new(0), &[0; 3], &[]).expect("there is space");
    loop {
        let busy = reader.progress(&mut done, 64) + owner.progress(&mut nothing, 64) > 0;
        if !advance(&networks) && !busy {
            break;
        }
    }
    let begin = networks[0].0.now();
    networks.iter().for_each(|(network, _)| network.pass_until(begin));
    let posted = reader.get_zcopy(ep, &[to], RemoteSlice { address, rkey }, Token(9));
    assert_eq!(posted, Ok(Posted::InFlight));
    while done.0.is_empty() {
        let events = reader.progress(&mut done, 64) + owner.progress(&mut nothing, 64);
        assert!(events > 0 || advance(&networks), "nothing is under way");
    }
    assert_eq!(done.0, [(Token(9), Ok(0))]);
    assert!(buffer.into_owned().expect("ours") == content, "the bytes that were read");
    let time = (networks[0].0.now() - begin) as f64;
    let predicted = reader.predict(len as u64).expect("they read").time;
    (time, predicted, reader)
}

#[test]
fn a_split_read_takes_what_the_model_says() {
    for len in [256 << 10, 1 << 20, 4 << 20, 16 << 20] {
        let (alone, _, reader) = read(len, &[100], &[100]);
        assert_eq!(reader.stats().split_reads, 0);
        for networks in [&[100, 200][..], &[200, 100], &[100, 100], &[100, 200, 400]] {
            let (time, predicted, reader) = read(len, networks, networks);
            println!(
                "{len} bytes by {networks:?} ps a byte: {time} ns, predicted {predicted:.0}, by one \
                 of 100 alone {alone}"
            );
            assert!((time / predicted - 1.0).abs() < 0.05, "{time} ns, predicted {predicted}");
            assert!(time < alone * 0.75, "{time} ns, one alone {alone}");
            assert_eq!(reader.stats().split_reads, 1);
        }
    }
}

/// Where the figures are wrong, paths that are through help the others.
#[test]
fn wrong_figures_cost_little() {
    let len = 16 << 20;
    let (right, ..) = read(len, &[100, 200], &[100, 200]);
    let (wrong, predicted, _) = read(len, &[100, 200], &[100, 100]);
    println!("{wrong} ns with wrong figures, predicted {predicted:.0}; {right} with right ones");
    assert!(wrong < right * 1.15, "{wrong} ns with wrong figures, {right} with right ones");
    assert!(wrong > predicted, "the prediction is as wrong as its figures");
}

/// A path that is far slower is left to itself.
#[test]
fn a_path_that_does_not_help_does_not_hinder() {
    let (alone, ..) = read(1 << 20, &[100], &[100]);
    let (time, ..) = read(1 << 20, &[100, 50_000], &[100, 50_000]);
    assert!(time <= alone * 1.01, "{time} ns beside a slow path, {alone} alone");
}
