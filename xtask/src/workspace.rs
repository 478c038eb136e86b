//! The workspace on disk: its root, its files, its packages. It judges nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// Directories that hold what tools made, not what people wrote.
const MADE: &[&str] = &["target", ".git", "corpus", "artifacts", "coverage", "node_modules"];

/// The workspace this task runner was built in.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Its root directory.
    pub(crate) root: PathBuf,
    /// Its packages, without what they take from registries.
    pub(crate) metadata: Metadata,
}

/// A text file of the workspace.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Path below the root, with `/` between its parts.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

impl Workspace {
    /// Asks cargo where the workspace is and what is in it; needs no network.
    pub(crate) fn find() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cannot ask cargo for the workspace; run from inside of it")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        Ok(Self { root, metadata })
    }

    /// Every text file that people wrote, in order of path. Files that are not UTF-8 are left out.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>> {
        let mut paths = Vec::new();
        walk(&self.root, &mut paths)?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let bytes = std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))?;
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            let below = path.strip_prefix(&self.root).expect("walked from the root");
            let path = below.to_string_lossy().replace('\\', "/");
            files.push(TextFile { path, text });
        }
        Ok(files)
    }
}

fn walk(directory: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot list {directory:?}"))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {directory:?}"))?;
        let name = entry.file_name();
        let kind =
            entry.file_type().with_context(|| format!("cannot find out what {name:?} is"))?;
        if kind.is_dir() {
            if !MADE.iter().any(|made| name == *made) {
                walk(&entry.path(), into)?;
            }
        } else if kind.is_file() {
            into.push(entry.path());
        }
    }
    Ok(())
}
