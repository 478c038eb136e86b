//! Addresses that come from peers.

use bowline_ucp::{Introduction, WorkerAddress};
use bowline_uct::AddrReader;

/// A worker's address: what was read is written and read again.
pub(crate) fn worker_address(bytes: &[u8]) {
    let Ok(address) = WorkerAddress::parse(bytes) else {
        return;
    };
    // A provider's name that is no text is replaced when it is read and may be longer then.
    if address.lanes.iter().all(|lane| lane.provider.len() <= usize::from(u16::MAX)) {
        assert_eq!(WorkerAddress::parse(&address.pack()), Ok(address));
    }
}

/// What an unauthenticated client sends first: what was read is written as it was.
pub(crate) fn introduction(bytes: &[u8]) {
    if let Some(introduction) = Introduction::parse(bytes) {
        assert_eq!(introduction.pack(), bytes);
        // The next thing that is done with it.
        let _ = WorkerAddress::parse(&introduction.address);
    }
}

/// The reader under all addresses: the first half of the input says what to read from the rest.
pub(crate) fn addr_reader(bytes: &[u8]) {
    let (script, data) = bytes.split_at(bytes.len() / 2);
    let mut reader = AddrReader::new(data);
    for step in script {
        let before = reader.rest().len();
        let read = match step % 5 {
            0 => reader.u8().map(|_| 1),
            1 => reader.u16().map(|_| 2),
            2 => reader.u32().map(|_| 4),
            3 => reader.u64().map(|_| 8),
            _ => reader.bytes().map(|field| 2 + field.len()),
        };
        match read {
            Ok(taken) => assert_eq!(reader.rest().len() + taken, before),
            Err(_) => assert!(reader.rest().len() <= before),
        }
    }
}
