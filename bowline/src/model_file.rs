//! Where the fits of the pipelining model are kept, for whoever writes and reads them.
//!
//! The figures of [`costs`](crate::costs) steer which protocol carries a message; these are for the choice of
//! algorithms of collectives. What the file says is in the crate `bowline-model`, module `fit::table`.

use std::path::PathBuf;

use bowline_base::config::{Config, Setting};

bowline_base::settings! {
    /// Settings of the model.
    pub const SETTINGS = [
        /// Where `bowline model fit --keep` keeps what it has fitted: auto, a file in the user's cache directory; off, nowhere; else a file.
        pub MODEL: String = Setting::<String>::text("BOWLINE_MODEL", "auto")
            .cost("none")
            .change("a file where the home directory is not writable or shared between different machines");
    ];
}

/// The file's name in the cache directory.
const FILE: &str = "bowline/model.json";

/// Where the fits are kept; `None` where the user wants none or there is no place.
pub fn file(config: &Config) -> Option<PathBuf> {
    crate::costs::place(&config.get(MODEL), FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_where_the_setting_says() {
        let place = |text: &str| {
            let config = Config::from_pairs([("BOWLINE_MODEL", text)], crate::stack::SETTINGS);
            file(&config.unwrap())
        };
        assert_eq!(place("off"), None);
        assert_eq!(place("some/file"), Some(PathBuf::from("some/file")));
        // Without a home there is no place.
        assert!(place("auto").is_none_or(|path| path.ends_with(FILE)));
    }
}
