//! The table of fits that is kept on this machine: read, changed and written as a whole, by one process at a time.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use bowline::model_file::{costs_file, text};
use bowline_model::fit::table::{Entry, FitTable};
use rustix::fs::{FlockOperation, flock};

/// What is kept; nothing where there is no file.
///
/// # Errors
/// When the file cannot be read or is something else.
pub(super) fn read(path: &Path) -> Result<FitTable> {
    let name = path.display();
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FitTable::default()),
        Err(error) => {
            return Err(error).with_context(|| {
                format!("cannot read {name}; name another file with BOWLINE_MODEL")
            });
        }
    };
    FitTable::parse(&text).with_context(|| {
        format!("{name} is left as it is; remove it, or name another file with BOWLINE_MODEL")
    })
}

/// Finds out whether fits can be kept, before they are measured.
///
/// # Errors
/// When they cannot.
pub(super) fn writable(path: &Path) -> Result<()> {
    lock(path)?;
    read(path).map(drop)
}

/// Keeps an entry.
///
/// # Errors
/// When the file is something else or cannot be written.
pub(super) fn learn(path: &Path, entry: Entry) -> Result<()> {
    change(path, |table| {
        table.learn(entry);
    })
}

/// Forgets what is kept of a site.
///
/// # Errors
/// When the file is something else or cannot be written.
pub(super) fn forget(path: &Path, site: &str) -> Result<()> {
    if read(path)?.entries().is_empty() {
        return Ok(());
    }
    change(path, |table| {
        table.forget(site);
    })
}

fn change(path: &Path, change: impl FnOnce(&mut FitTable)) -> Result<()> {
    let _lock = lock(path)?;
    let mut table = read(path)?;
    change(&mut table);
    // Whole or not at all: readers take no lock.
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    for (path, text) in [(path, table.text()?), (&costs_file(path), costs(&table))] {
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path));
        written.inspect_err(|_| drop(fs::remove_file(&fresh))).with_context(|| cannot(path))?;
    }
    Ok(())
}

/// What jobs read of it.
fn costs(table: &FitTable) -> String {
    let fitted = table
        .entries()
        .iter()
        .filter_map(|entry| Some((entry.site.as_str(), entry.transport.as_str(), entry.costs()?)));
    text(fitted)
}

/// Has the file to itself.
fn lock(path: &Path) -> Result<File> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(directory).with_context(|| cannot(path))?;
    }
    let file = File::create(path.with_extension("lock")).with_context(|| cannot(path))?;
    flock(&file, FlockOperation::LockExclusive).with_context(|| cannot(path))?;
    Ok(file)
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}; name another file with BOWLINE_MODEL", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_and_forgotten_by_site() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/model.json");
        assert!(read(&path).unwrap().entries().is_empty());
        forget(&path, "here").unwrap();
        assert!(!path.exists(), "nothing is forgotten where nothing is");
        writable(&path).unwrap();
        learn(&path, Entry::published("here", "shm")).unwrap();
        learn(&path, Entry::published("there", "shm")).unwrap();
        assert_eq!(read(&path).unwrap().entries().len(), 2);
        forget(&path, "here").unwrap();
        assert_eq!(read(&path).unwrap().entries()[0].site, "there");
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 3, "the file, what jobs read, and the lock");
        let jobs = fs::read_to_string(costs_file(&path)).unwrap();
        assert!(
            jobs.lines().count() == 2 && jobs.contains("there\tshm\tshm,pipelining=880,"),
            "{jobs}"
        );
    }

    #[test]
    fn other_files_stay_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("thesis.txt");
        fs::write(&path, "Chapter 1\n").unwrap();
        assert!(read(&path).is_err() && writable(&path).is_err() && forget(&path, "here").is_err());
        let error = learn(&path, Entry::published("here", "shm")).unwrap_err();
        assert!(format!("{error:#}").contains("thesis.txt is left as it is"), "{error:#}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "Chapter 1\n");
        assert!(writable(&path.join("below/it")).is_err());
    }
}
