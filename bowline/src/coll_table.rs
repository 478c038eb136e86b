//! Where a job has its table of algorithms from: the file that `bowline model tune` writes, which rank 0 reads.
//!
//! What the text says is in the crate `bowline-model`, module `coll::tuned`. The other ranks have what rank 0 publishes.

use std::io::Read;

use bowline_base::config::{Config, Setting};
use bowline_model::coll::tuned::{LONGEST, Tuned};

use crate::error::StackError;

bowline_base::settings! {
    /// Settings of tables.
    pub const SETTINGS = [
        /// A file of algorithms of collectives that bowline model tune has written. For the ranks, nodes and lengths
        /// that it has, it goes before costs, and after settings and info keys that name an algorithm. Rank 0's is
        /// every rank's.
        pub COLL_TABLE: String = Setting::<String>::text("BOWLINE_COLL_TABLE", "")
            .cost("rank 0 reads the file when a job starts")
            .change("where bowline model tune has found better algorithms than those that are chosen");
    ];
}

/// The table, as far as it speaks of jobs of so many ranks; an empty one where the setting names no file.
///
/// # Errors
/// When the file cannot be read, or is no table.
pub fn read(config: &Config, ranks: u32) -> Result<Tuned, StackError> {
    let path: String = config.get(COLL_TABLE);
    if path.is_empty() {
        return Ok(Tuned::default());
    }
    let refused = |why: String| StackError::Table { path: path.clone(), why };
    let file = std::fs::File::open(&path).map_err(|error| refused(error.to_string()))?;
    let mut bytes = Vec::new();
    let all = file.take(LONGEST as u64 + 1).read_to_end(&mut bytes);
    all.map_err(|error| refused(error.to_string()))?;
    let table = Tuned::parse(&bytes).map_err(|error| refused(error.to_string()))?;
    Ok(table.of_job(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_or_refused_with_their_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        let read = |path: &str| {
            let pairs = [("BOWLINE_COLL_TABLE", path)];
            read(&Config::from_pairs(pairs, crate::stack::SETTINGS).unwrap(), 8)
        };
        let of_path = || read(path.to_str().unwrap());
        assert!(of_path().unwrap_err().to_string().contains("table"));
        let text = format!("{}bcast 8 1 0-8 flat\nbcast 9 1 0-8 flat\n", Tuned::default());
        std::fs::write(&path, text.replace("flat", "gossip")).unwrap();
        let error = of_path().unwrap_err().to_string();
        assert!(error.contains("table: line 2: ") && error.contains("binomial"), "{error}");
        std::fs::write(&path, text).unwrap();
        let table = of_path().unwrap();
        assert!(!table.of(8, 1).is_empty() && table.of(9, 1).is_empty());
        assert!(read("").unwrap().is_empty());
    }
}
