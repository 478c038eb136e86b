//! Where figures go beside the terminal.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes `value` as readable JSON with a line's end behind it.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write the figures")?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("written: {}", path.display());
    Ok(())
}
