//! Where the log goes: events of all layers to the standard error stream, filtered by
//! `BOWLINE_LOG`. A program that uses the library has its own subscriber; this one is the
//! command's.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// The variable that holds the filter.
const VARIABLE: &str = "BOWLINE_LOG";

/// What is logged when nobody says anything.
const DEFAULT: &str = "warn";

/// Starts logging.
///
/// # Errors
/// When the variable holds something that is no filter.
pub(crate) fn start() -> anyhow::Result<()> {
    let text = match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => text,
        Ok(_) | Err(std::env::VarError::NotPresent) => DEFAULT.to_owned(),
        Err(error) => return Err(error).context(VARIABLE),
    };
    let filter = EnvFilter::builder().parse(&text).with_context(|| {
        format!(
            "{VARIABLE}={text:?} is no log filter: expected off, error, warn, info, debug or \
             trace, or a list such as warn,bowline_ucp=debug"
        )
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}
