//! The secret of a job, and proofs that somebody knows it.
//!
//! A proof is HMAC-SHA-256 (RFC 2104, FIPS 180-4) over a label, which says what is proved and by whom,
//! and parts, compared in constant time. What a transport has to put into the parts so that a proof cannot
//! be played back elsewhere is its own business: the names of both ends, and what is new at each
//! occasion.
//!
//! A proof says who sent something. It does not encrypt.

use hmac_sha256::HMAC;

/// Bytes of a proof.
pub const MAC_BYTES: usize = 32;

/// The secret of a job. Its bytes are shown by nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// The secret with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn over(&self, label: &[u8], parts: &[&[u8]]) -> HMAC {
        let mut mac = HMAC::new(self.0);
        mac.update(label);
        for part in parts {
            // Lengths keep bytes from moving from one part to the next.
            mac.update((part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }

    /// The proof of `parts` under `label`.
    pub fn sign(&self, label: &[u8], parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        self.over(label, parts).finalize()
    }

    /// Whether `mac` is the proof of `parts` under `label`; in constant time.
    pub fn verify(&self, label: &[u8], parts: &[&[u8]], mac: &[u8]) -> bool {
        let Ok(mac) = mac.try_into() else { return false };
        self.over(label, parts).finalize_verify(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_label_and_parts_verify() {
        let secret = Secret::new([7; 32]);
        let mac = secret.sign(b"one", &[b"ab", b"c"]);
        assert!(secret.verify(b"one", &[b"ab", b"c"], &mac));
        assert!(!secret.verify(b"two", &[b"ab", b"c"], &mac));
        assert!(!secret.verify(b"one", &[b"a", b"bc"], &mac));
        assert!(!secret.verify(b"one", &[b"ab", b"c"], &mac[..31]));
        assert!(!Secret::new([8; 32]).verify(b"one", &[b"ab", b"c"], &mac));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    /// The framing: the label, then each part behind its length.
    #[test]
    fn golden_mac() {
        let mac = Secret::new([0; 32]).sign(b"bowline tcp 1 server", &[b"x"]);
        let by_hand = HMAC::mac(b"bowline tcp 1 server\x01\0\0\0\0\0\0\0x", [0; 32]);
        assert_eq!(mac, by_hand);
    }

    /// Test case 2 of RFC 4231.
    #[test]
    fn the_primitive_is_hmac_sha_256() {
        let expected = [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9,
            0x64, 0xec, 0x38, 0x43,
        ];
        assert_eq!(HMAC::mac(b"what do ya want for nothing?", b"Jefe"), expected);
    }
}
