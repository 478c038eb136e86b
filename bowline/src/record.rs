//! Records of what ranks communicate: where they go. What they say, and when it is written, is the business of the MPI
//! layer (`World::record`); `bowline fennel replay` reads them.

use std::fs::File;
use std::path::PathBuf;

use bowline_base::config::{Config, Setting};
use bowline_mpi::World;

use crate::error::StackError;

bowline_base::settings! {
    /// Settings of records.
    pub const SETTINGS = [
        /// Where each rank writes down what it communicates: messages, collectives, and the time between them, as lines of JSON that `bowline fennel replay` runs on another network. A file for each rank: `%r` in the name is its rank, or else its rank is appended to the name. Empty: nowhere.
        pub RECORD: String = Setting::<String>::text("BOWLINE_RECORD", "")
            .cost("about a microsecond and a hundred bytes for each message, and sends without their short path")
            .change("to see how a program would fare on another network, or what it communicates at all");
    ];
}

/// The file of a rank; none where nothing is recorded.
fn file(config: &Config, rank: u32) -> Option<PathBuf> {
    let name = config.get(RECORD);
    let name = name.trim();
    if name.is_empty() {
        return None;
    }
    let rank = rank.to_string();
    Some(match name.contains("%r") {
        true => name.replace("%r", &rank).into(),
        false => format!("{name}.{rank}").into(),
    })
}

/// Finds out whether there is a place for records, before anything is done for them.
pub(crate) fn check(config: &Config) -> Result<(), StackError> {
    let Some(path) = file(config, 0) else { return Ok(()) };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if directory.is_none_or(|directory| directory.is_dir()) {
        return Ok(());
    }
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such directory");
    Err(StackError::Record { path: path.display().to_string(), source })
}

/// Has a world write down what its rank communicates, if that is wanted.
pub(crate) fn attend(world: &World, config: &Config) -> Result<(), StackError> {
    let Some(path) = file(config, world.rank() as u32) else { return Ok(()) };
    let created = File::create(&path);
    let file = created
        .map_err(|source| StackError::Record { path: path.display().to_string(), source })?;
    world.record(Box::new(file));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_a_file_of_its_own() {
        let named = |name: &str| {
            let mut config = Config::defaults(crate::stack::SETTINGS);
            config.set_text("BOWLINE_RECORD", name).unwrap();
            file(&config, 12)
        };
        assert_eq!(named(""), None);
        assert_eq!(named("some/job"), Some("some/job.12".into()));
        assert_eq!(named("job-%r.json"), Some("job-12.json".into()));
    }
}
