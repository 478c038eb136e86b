//! Where figures go beside the terminal.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// Finds out whether a file has a directory, before time is spent on what goes into it.
pub(super) fn check_place(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let missing = directory.filter(|directory| !directory.is_dir());
    match missing {
        Some(directory) => {
            bail!("cannot write {}: there is no directory {}", path.display(), directory.display())
        }
        None => Ok(()),
    }
}

/// Writes `value` as readable JSON with a line's end behind it.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write the figures")?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("written: {}", path.display());
    Ok(())
}
