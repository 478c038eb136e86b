//! Timelines of a run: a row for each process, a bar for each task, a line for each message. What is drawn is a list of
//! shapes, which is written as SVG here; a program that draws pixels takes the same list.

use std::fmt::Write;

use super::instrument::Ran;
use super::program::Act;

const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const LEFT: f64 = 48.0;
const WIDTH: f64 = 900.0;
const BELOW: f64 = 36.0;

/// Red, green, blue.
pub type Colour = [u8; 3];

const SLEEP: Colour = [0xcc, 0xcc, 0xcc];
const COMPUTE: Colour = [0xd6, 0x27, 0x28];
const COPY: Colour = [0xff, 0x7f, 0x0e];
const MESSAGE: Colour = [0x1f, 0x77, 0xb4];
const ROWS: Colour = [0xdd, 0xdd, 0xdd];

/// Something to draw; places are in pixels from the upper left.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "who draws has to draw all of them")]
pub enum Drawing {
    /// A filled rectangle.
    Bar {
        /// Its upper left.
        at: (f64, f64),
        /// Its width and height.
        size: (f64, f64),
        /// What it is filled with.
        colour: Colour,
    },
    /// A straight line.
    Line {
        /// From here.
        from: (f64, f64),
        /// To there.
        to: (f64, f64),
        /// Its colour.
        colour: Colour,
        /// Half of what is behind it is seen.
        light: bool,
    },
    /// Words.
    Text {
        /// The left end of their base line, or its middle.
        at: (f64, f64),
        /// Whether they stand around `at`.
        centred: bool,
        /// The words.
        text: String,
    },
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a size and what is drawn")]
pub struct Picture {
    /// Pixels.
    pub width: f64,
    /// Pixels.
    pub height: f64,
    /// What is drawn, the last above the others.
    pub shapes: Vec<Drawing>,
}

/// Draws what was run on so many processes.
pub fn timeline(processes: u32, tasks: &[Ran]) -> Picture {
    let end = tasks.iter().map(|ran| ran.local.max(ran.arrived)).fold(1.0, f64::max);
    let x = |time: f64| LEFT + time / end * WIDTH;
    let y = |process: u32| f64::from(process) * ROW + ROW / 2.0;
    let mut shapes = Vec::new();
    for process in 0..processes {
        let y = y(process);
        shapes.push(text((4.0, y + 4.0), false, process.to_string()));
        let (from, to) = ((LEFT, y), (x(end), y));
        shapes.push(Drawing::Line { from, to, colour: ROWS, light: false });
    }
    for ran in tasks {
        let colour = match ran.task.act {
            Act::Recv { .. } if ran.local > ran.start => MESSAGE,
            Act::Start | Act::Proxy | Act::Recv { .. } => continue,
            Act::Sleep(_) => SLEEP,
            Act::Compute(_) => COMPUTE,
            Act::Copy(_) => COPY,
            Act::Put { .. } | Act::Send { .. } | Act::Get { .. } => MESSAGE,
        };
        let (from, to, row) = (x(ran.start), x(ran.local), y(ran.task.process));
        let size = ((to - from).max(0.5), BAR);
        shapes.push(Drawing::Bar { at: (from, row - BAR / 2.0), size, colour });
        let other = match ran.task.act {
            Act::Put { to, .. } | Act::Send { to, .. } => to,
            Act::Get { from, .. } => from,
            _ => continue,
        };
        let (from, to) = ((to, row), (x(ran.arrived), y(other)));
        shapes.push(Drawing::Line { from, to, colour, light: true });
    }
    let axis = f64::from(processes) * ROW + 8.0;
    for tenth in 0..=10 {
        let time = end * f64::from(tenth) / 10.0;
        shapes.push(text((x(time), axis + 8.0), true, format!("{time:.0}")));
    }
    shapes.push(text((LEFT, axis + 22.0), false, "nanoseconds".to_owned()));
    Picture { width: LEFT + WIDTH + 24.0, height: f64::from(processes) * ROW + BELOW, shapes }
}

const fn text(at: (f64, f64), centred: bool, text: String) -> Drawing {
    Drawing::Text { at, centred, text }
}

impl Picture {
    /// The picture as SVG.
    pub fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n",
            self.width, self.height
        );
        for shape in &self.shapes {
            shape.svg(&mut svg).expect("a string takes what is written to it");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Drawing {
    fn svg(&self, out: &mut String) -> std::fmt::Result {
        let hex = |[red, green, blue]: &Colour| format!("#{red:02x}{green:02x}{blue:02x}");
        match self {
            Self::Bar { at: (x, y), size: (width, height), colour } => writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{}\"/>",
                hex(colour)
            ),
            Self::Line { from, to, colour, light } => {
                let opacity = if *light { " stroke-opacity=\"0.5\"" } else { "" };
                let ((x, y), (to_x, to_y)) = (from, to);
                writeln!(
                    out,
                    "<path d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\" stroke=\"{}\"{opacity}/>",
                    hex(colour)
                )
            }
            Self::Text { at: (x, y), centred, text } => {
                let anchor = if *centred { " text-anchor=\"middle\"" } else { "" };
                writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{text}</text>")
            }
        }
    }
}
