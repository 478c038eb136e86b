//! Where the log goes: events of all layers to the standard error stream, filtered by
//! `BOWLINE_LOG`. A program that uses the library has its own subscriber; this one is the
//! command's.

use std::io::{IsTerminal, stderr};

use anyhow::Context;
use bowline::log::LOG;
use tracing_subscriber::EnvFilter;

/// What is logged when nobody says anything.
const DEFAULT: &str = "warn";

/// The same in a rank: what is wrong with settings has been told by the process that started it.
const DEFAULT_OF_RANKS: &str = "warn,bowline::stack=error";

/// Starts logging.
///
/// # Errors
/// When the variable holds something that is no filter.
pub(crate) fn start(as_rank: bool) -> anyhow::Result<()> {
    let name = LOG.name();
    let text = match std::env::var(name) {
        Ok(text) if !text.trim().is_empty() => text,
        Ok(_) | Err(std::env::VarError::NotPresent) => {
            if as_rank { DEFAULT_OF_RANKS } else { DEFAULT }.to_owned()
        }
        Err(error) => return Err(error).context(name),
    };
    let filter = EnvFilter::builder().parse(&text).with_context(|| {
        format!(
            "{name}={text:?} is no log filter: expected off, error, warn, info, debug or trace, \
             or a list such as warn,bowline_ucp=debug"
        )
    })?;
    let events = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    events.with_ansi(stderr().is_terminal()).without_time().init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_filters() {
        for text in [DEFAULT, DEFAULT_OF_RANKS] {
            EnvFilter::builder().parse(text).unwrap();
        }
        let config = bowline_base::config::Config::defaults(bowline::stack::SETTINGS);
        assert_eq!(config.get(LOG), DEFAULT);
    }
}
