//! What ranks and process managers say to each other over PMI-1, launchers and agents, and ranks
//! through a manager's key-value space.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bowline_launch::pmi::{self, Client, NodeMapping, Server};
use bowline_launch::protocol::wire::{self, Frame, FromAgent, ToAgent};

/// Most ranks that a target asks for: the mapping's text does not bound the size of its answer.
const RANKS_MAX: u32 = 1 << 12;

/// A server whose ranks send arbitrary lines; each line's first byte says who.
pub(crate) fn pmi_server(bytes: &[u8]) {
    let mut server = Server::new(3, "kvs");
    let mut events = Vec::new();
    for line in bytes.split(|&b| b == b'\n') {
        let Some((&who, line)) = line.split_first() else {
            continue;
        };
        let _ = pmi::parse(line);
        let _ = pmi::parse_spawn_line(line);
        let rank = u32::from(who) % 3;
        if who & 0x80 != 0 {
            server.gone(rank, who & 0x40 != 0, &mut events);
        } else {
            server.line(rank, line, &mut events);
        }
        let _ = (server.is_open(rank), server.stuck());
        events.clear();
    }
}

/// A client whose process manager answers arbitrary bytes and then hangs up.
pub(crate) fn pmi_client(bytes: &[u8]) {
    // All of it must fit into the socket, since nobody reads while we write.
    let bytes = &bytes[..bytes.len().min(32 << 10)];
    let (ours, mut manager) = UnixStream::pair().expect("two sockets can be had");
    manager.write_all(bytes).expect("they fit into an empty socket");
    manager.shutdown(Shutdown::Write).expect("the socket is open");
    let Ok(mut client) = Client::connect(OwnedFd::from(ours)) else {
        return;
    };
    let _ = client.get_bytes("key");
    let _ = client.barrier();
    let _ = client.finalize();
}

/// The string that says which rank runs where.
pub(crate) fn process_mapping(bytes: &[u8]) {
    let Some((&size, text)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let Ok(mapping) = NodeMapping::parse(&text) else {
        return;
    };
    assert_eq!(NodeMapping::parse(&mapping.to_string()), Ok(mapping.clone()));
    let size = (u32::from(size) * 17).min(RANKS_MAX);
    assert_eq!(mapping.nodes(size).len(), size as usize);
    for rank in [0, size / 2] {
        assert!(mapping.neighbours(rank, size).contains(&rank) || rank >= size);
    }
}

/// What a rank publishes for others: where its node's memory is, and pairs under PMIx.
pub(crate) fn published(bytes: &[u8]) {
    bowline_launch::bootstrap::take_published(bytes);
}

/// What a launcher and an agent take from each other: a stream of frames. Whatever is a message
/// is written as it was read.
pub(crate) fn agent_messages(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(Frame { kind, body, length })) = wire::next_frame(rest) {
        let mut written = Vec::new();
        if let Ok(message) = ToAgent::decode(kind, body) {
            message.encode(&mut written);
            assert_eq!(written, rest[..length]);
            written.clear();
        }
        if let Ok(message) = FromAgent::decode(kind, body) {
            message.encode(&mut written);
            assert_eq!(written, rest[..length]);
        }
        rest = &rest[length..];
    }
}
