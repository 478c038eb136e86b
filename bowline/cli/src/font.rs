//! A font for the pictures: a TrueType file of the system, read once. The drawing crate's own search would need
//! fontconfig to build.

use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use plotters::style::{FontStyle, register_font};

/// Where the systems have the fonts that most of them have.
const PLACES: &[&str] = &[
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
    "/usr/share/fonts/liberation-sans/LiberationSans-Regular.ttf",
    "/usr/share/fonts/truetype/freefont/FreeSans.ttf",
];

/// Makes "sans-serif" known to the drawing crate.
///
/// # Errors
/// When there is no such font; it says what to install.
pub(crate) fn register() -> Result<()> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    DONE.get_or_init(find).clone().map_err(|error| anyhow!(error))
}

fn find() -> Result<(), String> {
    const WAY_OUT: &str = "install a TrueType font, for example Debian's fonts-dejavu-core";
    let read = PLACES.iter().find_map(|path| std::fs::read(path).ok());
    let bytes = read.ok_or_else(|| format!("no font for pictures was found; {WAY_OUT}"))?;
    // The drawing crate wants the font for the rest of the process; this happens once.
    register_font("sans-serif", FontStyle::Normal, Vec::leak(bytes))
        .map_err(|_| format!("the system's font cannot be used; {WAY_OUT}"))
}
