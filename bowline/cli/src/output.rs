//! The standard output of the command. What cannot be written there is an error and no panic; that its reader wants
//! no more, as `head` does, is neither.

use std::io::{self, Write as _};

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes text, with a line's end behind it unless it has one.
///
/// # Errors
/// When the standard output takes no more: a full disk.
pub(crate) fn print(text: &str) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end.as_bytes()));
    check(written.and_then(|()| out.flush()))
}

/// What became of a write to the standard output.
///
/// # Errors
/// When it failed, and not because its reader has gone.
pub(crate) fn check(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to the standard output"),
    }
}

/// Writes JSON, for people and programs to read.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}
