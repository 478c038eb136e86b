//! Files of what was run: timelines as SVG and PNG, and every task as a line of JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bowline_model::fennel::draw::{self, Drawing, Picture};
use bowline_model::fennel::instrument::Ran;
use bowline_model::fennel::program::Act;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::json;

use super::super::font;

/// Ranks that a picture has rows for, at most.
const RANKS: u32 = 1024;

/// The formats of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Svg,
    Png,
}

/// The format that a file's name says.
///
/// # Errors
/// When it is none.
pub(super) fn format(path: &Path) -> Result<Format> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        _ => bail!("--timeline {}: pictures are .svg and .png", path.display()),
    }
}

/// Finds out whether a file has a directory, before anything is run.
///
/// # Errors
/// When it has none.
pub(super) fn check_place(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let missing = directory.filter(|directory| !directory.is_dir());
    match missing {
        Some(directory) => {
            bail!("cannot write {}: there is no directory {}", path.display(), directory.display())
        }
        None => Ok(()),
    }
}

/// Finds out whether so many ranks can be drawn, before anything is run.
///
/// # Errors
/// When they are too many.
pub(super) fn check(ranks: u32) -> Result<()> {
    ensure!(
        ranks <= RANKS,
        "a timeline has a row for each rank, up to {RANKS}; {ranks} are too many"
    );
    Ok(())
}

/// Draws what was run.
///
/// # Errors
/// When the file cannot be written, or there is no font for a PNG.
pub(super) fn draw(path: &Path, title: &str, ranks: u32, tasks: &[Ran]) -> Result<()> {
    let picture = draw::timeline(title, ranks, tasks);
    match format(path)? {
        Format::Svg => std::fs::write(path, picture.svg())
            .with_context(|| format!("cannot write {}", path.display())),
        Format::Png => {
            font::register()?;
            paint(path, &picture)
                .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
        }
    }
}

fn paint(path: &Path, picture: &Picture) -> Result<(), Box<dyn std::error::Error>> {
    let size = (picture.width.ceil() as u32, picture.height.ceil() as u32);
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let colour = |[red, green, blue]: draw::Colour| RGBColor(red, green, blue);
    let point = |(x, y): (f64, f64)| (x.round() as i32, y.round() as i32);
    for shape in &picture.shapes {
        match shape {
            Drawing::Bar { at, size, colour: filled } => {
                let (from, to) = (point(*at), point((at.0 + size.0, at.1 + size.1)));
                root.draw(&Rectangle::new([from, to], colour(*filled).filled()))?;
            }
            Drawing::Line { from, to, colour: stroke, light } => {
                let style = colour(*stroke).mix(if *light { 0.5 } else { 1.0 });
                root.draw(&PathElement::new([point(*from), point(*to)], style))?;
            }
            Drawing::Text { at, centred, text } => {
                let across = if *centred { HPos::Center } else { HPos::Left };
                let style = TextStyle::from(("sans-serif", 11).into_font());
                let style = style.pos(Pos::new(across, VPos::Bottom));
                root.draw(&Text::new(text.as_str(), point(*at), style))?;
            }
        }
    }
    root.present()?;
    Ok(())
}

/// Writes every task as a line of JSON.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn tasks(path: &Path, tasks: &[Ran]) -> Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        for ran in tasks {
            writeln!(out, "{}", line(ran))?;
        }
        out.flush()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn line(ran: &Ran) -> serde_json::Value {
    let (what, peer, bytes) = match ran.task.act {
        Act::Start => ("start", None, None),
        Act::Proxy => ("proxy", None, None),
        Act::Sleep(_) => ("sleep", None, None),
        Act::Compute(bytes) => ("compute", None, Some(bytes)),
        Act::Copy(bytes) => ("copy", None, Some(bytes)),
        Act::Put { to, bytes } => ("put", Some(to), Some(bytes)),
        Act::Send { to, bytes, .. } => ("send", Some(to), Some(bytes)),
        Act::Recv { from, .. } => ("recv", Some(from), None),
        Act::Get { from, bytes } => ("get", Some(from), Some(bytes)),
        _ => ("other", None, None),
    };
    json!({
        "process": ran.task.process, "do": what, "peer": peer, "bytes": bytes,
        "start_ns": ran.start, "local_ns": ran.local, "arrived_ns": ran.arrived,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_model::fennel::generate::multicast;
    use bowline_model::fennel::instrument::TraceRecorder;
    use bowline_model::fennel::machine::Machine;
    use bowline_model::fennel::network::{Fixed, Pipelined};

    #[test]
    fn pictures_have_the_format_of_their_name() {
        let mut recorder = TraceRecorder::default();
        let mut machine = Machine { network: Pipelined::CHAPTER_5, compute: Fixed(10.0) };
        machine.run(&multicast(3, 8), &mut [&mut recorder]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let svg = directory.path().join("t.svg");
        draw(&svg, "multicast", 4, &recorder.tasks).unwrap();
        assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
        let png = directory.path().join("t.png");
        if font::register().is_ok() {
            draw(&png, "multicast", 4, &recorder.tasks).unwrap();
            assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
        }
        assert!(format(Path::new("t.gif")).is_err() && format(Path::new("t")).is_err());
        let lines = directory.path().join("t.json");
        tasks(&lines, &recorder.tasks).unwrap();
        assert_eq!(std::fs::read_to_string(&lines).unwrap().lines().count(), recorder.tasks.len());
        assert!(check(1024).is_ok() && check(1025).is_err());
    }
}
