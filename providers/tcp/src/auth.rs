//! Proof that both ends of a new connection know the job's secret.
//!
//! ```text
//!   client                                   server
//!     HELLO      nonce, uids, attempt  ────►
//!                ◄────  CHALLENGE   nonce, uid, MAC(secret, "server", HELLO, CHALLENGE)
//!     AUTH       MAC(secret, "client", HELLO, CHALLENGE, AUTH) ────►
//!                ◄────  ANSWER      MAC(secret, "answer", AUTH, ANSWER), yes or no
//! ```
//!
//! The MAC is HMAC-SHA-256 (RFC 2104, FIPS 180-4), compared in constant time. Each covers both
//! nonces, both uids and the role of who computed it, so that none can be played back to another
//! connection, to the other side or to another interface. Bytes of the caller (private data) are
//! covered too, and read by nobody before the MAC was checked.
//!
//! The server proves itself first, so that a client's private data go to nobody else. Hence a client that
//! reaches a listener gets a MAC by which guesses of the secret can be tried at leisure. That is of no use
//! against the 32 random bytes of a job; a secret that people choose for requests by socket address has
//! to be as hard to guess.
//!
//! It proves who opened the connection; it does not encrypt, and does not protect the stream
//! against somebody who can change packets on their way: a job's network is trusted that far.

pub(crate) use bowline_uct::{MAC_BYTES, Secret};

/// The label of the client's proof.
pub(crate) const CLIENT: &[u8] = b"bowline tcp 1 client";
/// The label of the server's.
pub(crate) const SERVER: &[u8] = b"bowline tcp 1 server";
/// The label of the server's answer.
pub(crate) const ANSWER: &[u8] = b"bowline tcp 1 answer";
