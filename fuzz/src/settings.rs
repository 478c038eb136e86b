//! The environment of a process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bowline_base::config::{Config, ConfigError, Descriptor};

const TABLES: &[&[Descriptor]] = &[
    bowline_self::SETTINGS,
    bowline_shm::SETTINGS,
    bowline_ucp::SETTINGS,
    bowline_receive_queue::SETTINGS,
];

/// Lines of `NAME=VALUE`; a line that starts with `#N=` stands for the setting number N, so that
/// a search need not find the names. What a configuration shows can be given to it again.
pub(crate) fn config(bytes: &[u8]) {
    let names: Vec<&str> = TABLES.iter().flat_map(|t| t.iter()).map(|d| d.name()).collect();
    let pairs = bytes.split(|&b| b == b'\n').filter_map(|line| {
        let at = line.iter().position(|&b| b == b'=')?;
        let (name, value) = (&line[..at], &line[at + 1..]);
        let name = match name {
            [b'#', n] => names[usize::from(*n) % names.len()].as_bytes(),
            other => other,
        };
        Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value)))
    });
    match Config::from_pairs(pairs, TABLES) {
        Ok(mut config) => {
            for unknown in config.unknown() {
                assert!(!unknown.to_string().is_empty());
            }
            for row in config.clone().rows() {
                config.set_text(row.name, &row.value).expect("what is shown can be written");
            }
        }
        Err(ConfigError::BadValues(bad)) => assert!(!bad.is_empty()),
        Err(other) => panic!("only values can be wrong, yet: {other}"),
    }
}
