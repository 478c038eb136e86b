//! `cargo xtask abi`: what the C library's crate has from the tables of facts and from its chapters.
//!
//! A chapter is a source file of the library that implements functions with the macro `mpi!`. Every
//! function of the table that no chapter has gets a stub. Written are the header, the constants, the
//! stubs and the table of what there is; `tidy` says when one of them is not up to date.

mod chapters;
mod coverage;
mod facts;
mod header;
mod rust;

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::Workspace;
use chapters::Chapters;
use facts::Facts;

/// The library's crate, below the root of the workspace.
const CRATE: &str = "mpi-layer/abi";

/// Write what the C library has from its tables
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Write nothing; fail when a file is not up to date
    #[arg(long)]
    check: bool,
}

/// A file that is made.
struct Made {
    /// Below the root of the workspace.
    path: String,
    text: String,
}

/// Writes or checks the files.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let stale = stale(&workspace.root)?;
    if options.check && !stale.is_empty() {
        let paths: Vec<&str> = stale.iter().map(|made| made.path.as_str()).collect();
        bail!("not up to date, run `cargo xtask abi`: {}", paths.join(", "));
    }
    for made in &stale {
        let path = workspace.root.join(&made.path);
        std::fs::write(&path, &made.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("abi: wrote {}", made.path);
    }
    Ok(())
}

/// Paths of the files that are not what they would be made to be.
pub(crate) fn stale_paths(root: &Path) -> Result<Vec<String>> {
    Ok(stale(root)?.into_iter().map(|made| made.path).collect())
}

fn stale(root: &Path) -> Result<Vec<Made>> {
    let own = root.join(CRATE);
    let facts = Facts::read(&own.join("facts"))?;
    let chapters = Chapters::read(&own.join("src"))?;
    chapters.check(&facts)?;
    let made = |path: &str, text: String| Made { path: path.to_owned(), text };
    let of_crate = |path: &str, text| made(&format!("{CRATE}/{path}"), text);
    let mut files = vec![
        of_crate("include/mpi.h", header::text(&facts)),
        of_crate("src/generated/constants.rs", rust::constants(&facts)),
        of_crate("src/stubs.rs", rust::stubs(&facts, &chapters)),
        made("docs/mpi-coverage.md", coverage::text(&facts, &chapters)),
    ];
    files.retain(|made| {
        std::fs::read_to_string(root.join(&made.path)).ok().as_deref() != Some(&made.text)
    });
    Ok(files)
}
