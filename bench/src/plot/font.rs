//! A font for the plots: the first suitable TrueType file of the system, read once.
//!
//! The drawing crate's own search needs fontconfig at build time; this one needs nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plotters::style::{FontStyle, register_font};

const PREFERRED: [&str; 4] =
    ["DejaVuSans.ttf", "LiberationSans-Regular.ttf", "NotoSans-Regular.ttf", "FreeSans.ttf"];
const DEPTH_MAX: usize = 6;

/// Makes "sans-serif" known to the drawing crate. The error says what to install.
///
/// # Errors
/// When there is no such font.
pub fn register() -> Result<(), String> {
    static RESULT: OnceLock<Result<(), String>> = OnceLock::new();
    RESULT.get_or_init(find_and_register).clone()
}

fn find_and_register() -> Result<(), String> {
    let mut found = Vec::new();
    for root in roots() {
        collect(&root, 0, &mut found);
    }
    let remedy = "install a TrueType font, for example Debian's fonts-dejavu-core";
    let path = choose(&found).ok_or_else(|| format!("no font found; {remedy}"))?;
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    // The drawing crate wants the font for the rest of the process; this happens once.
    let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
    register_font("sans-serif", FontStyle::Normal, bytes)
        .map_err(|_| format!("{} is not a usable font; {remedy}", path.display()))
}

fn roots() -> Vec<PathBuf> {
    let mut roots = vec!["/usr/share/fonts".into(), "/usr/local/share/fonts".into()];
    if let Some(home) = std::env::var_os("HOME") {
        roots.push(Path::new(&home).join(".local/share/fonts"));
    }
    roots
}

fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && depth < DEPTH_MAX {
            collect(&path, depth + 1, found);
        } else if path.extension().is_some_and(|extension| extension == "ttf") {
            found.push(path);
        }
    }
}

/// A preferred font, else the first one by path.
fn choose(found: &[PathBuf]) -> Option<&PathBuf> {
    PREFERRED
        .iter()
        .find_map(|name| {
            found.iter().find(|path| path.file_name().is_some_and(|file| file == *name))
        })
        .or_else(|| found.iter().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_fonts_come_first() {
        let found: Vec<PathBuf> =
            ["/f/a.ttf", "/f/LiberationSans-Regular.ttf"].map(PathBuf::from).into();
        assert_eq!(choose(&found), Some(&found[1]));
        assert_eq!(choose(&found[..1]), Some(&found[0]));
        assert_eq!(choose(&[]), None);
    }
}
