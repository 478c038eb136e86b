//! The secret of a job: 32 random bytes that its ranks share and nobody else has.
//!
//! It lies in the manager's key-value space, which only the processes reach that the manager
//! started, each by its inherited descriptor. `bowline run` puts it there before the first rank
//! starts; under another manager rank 0 does, and it is visible after the barrier that follows.
//! It is in no environment, on no command line, and no `Debug` prints it.

use super::{BootError, Kvs};

/// Its key.
pub(crate) const KEY: &str = "bowline-secret";

/// Draws a secret.
pub(crate) fn draw() -> rustix::io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    let mut filled = 0;
    while filled < secret.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut secret[filled..], flags) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(secret)
}

/// The secret that the launcher or rank 0 has put.
pub(super) fn received(kvs: &mut dyn Kvs) -> Result<[u8; 32], BootError> {
    let bytes = kvs.get(KEY)?;
    bytes.try_into().map_err(|_| BootError::Secret)
}
