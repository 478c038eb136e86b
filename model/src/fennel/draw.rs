//! Timelines of a run: a row for each process, a bar for each task, a line for each message. What is drawn is a list of
//! shapes, which is written as SVG here; a program that draws pixels takes the same list.

use std::fmt::Write;

use super::instrument::Ran;
use super::program::Act;

const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const LINE: f64 = 14.0;
const LEFT: f64 = 48.0;
const WIDTH: f64 = 900.0;
const BELOW: f64 = 42.0;

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

/// What colours mean.
const LEGEND: [(&str, Colour, bool); 5] = [
    ("sends, puts, gets or receives", MESSAGE, false),
    ("message under way", MESSAGE, true),
    ("computes", COMPUTE, false),
    ("copies", COPY, false),
    ("sleeps", SLEEP, false),
];

/// Draws what was run on so many processes, under a title, which may have several lines.
pub fn timeline(title: &str, processes: u32, tasks: &[Ran]) -> Picture {
    let end = tasks.iter().map(|ran| ran.local.max(ran.arrived)).fold(0.0, f64::max);
    let x = |time: f64| LEFT + if end > 0.0 { time / end * WIDTH } else { 0.0 };
    let mut shapes = Vec::new();
    let mut top = LINE;
    for line in title.lines() {
        shapes.push(text((4.0, top), false, line.to_owned()));
        top += LINE;
    }
    legend(&mut shapes, top);
    top += 1.5 * LINE;
    shapes.push(text((4.0, top), false, "rank".to_owned()));
    let y = |process: u32| top + f64::from(process) * ROW + ROW / 2.0;
    for process in 0..processes {
        let y = y(process);
        shapes.push(text((4.0, y + 4.0), false, process.to_string()));
        let (from, to) = ((LEFT, y), (LEFT + WIDTH, y));
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
    let axis = top + f64::from(processes) * ROW;
    let Ticks { unit, scale, places } = ticks(end);
    for (time, name) in places {
        let (from, to) = ((x(time), axis), (x(time), axis + 4.0));
        shapes.push(Drawing::Line { from, to, colour: ROWS, light: false });
        shapes.push(text((x(time), axis + 16.0), true, name));
    }
    let name = match scale {
        0.0 => "the run takes no time".to_owned(),
        _ => format!("time, {unit}"),
    };
    shapes.push(text((LEFT + WIDTH / 2.0, axis + 32.0), true, name));
    Picture { width: LEFT + WIDTH + 24.0, height: axis + BELOW, shapes }
}

/// What each colour means, in a line.
fn legend(shapes: &mut Vec<Drawing>, y: f64) {
    let mut x = LEFT;
    for (name, colour, is_line) in LEGEND {
        shapes.push(match is_line {
            true => {
                let (from, to) = ((x, y), (x + 18.0, y));
                Drawing::Line { from, to, colour, light: true }
            }
            false => Drawing::Bar { at: (x, y - 5.0), size: (18.0, 10.0), colour },
        });
        shapes.push(text((x + 23.0, y + 4.0), false, name.to_owned()));
        // A letter of this size has about seven pixels.
        x += 23.0 + 7.0 * name.len() as f64 + 16.0;
    }
}

/// The numbers at the axis of time.
#[derive(Debug, PartialEq)]
struct Ticks {
    /// Their unit.
    unit: &'static str,
    /// Nanoseconds of it; 0 where time does not pass.
    scale: f64,
    /// Times in nanoseconds, and how they are written.
    places: Vec<(f64, String)>,
}

/// Round numbers from 0 to `end` nanoseconds, up to eleven, in the unit that fits.
fn ticks(end: f64) -> Ticks {
    if !(end > 0.0 && end.is_finite()) {
        return Ticks { unit: "ns", scale: 0.0, places: vec![(0.0, "0".to_owned())] };
    }
    let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
    let (unit, scale) = units.into_iter().find(|(_, scale)| end >= *scale).unwrap_or(("ns", 1.0));
    let most = end / scale;
    let power = 10f64.powf((most / 10.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * power);
    let step = step.into_iter().find(|step| most / step <= 10.0 + 1e-9).unwrap_or(10.0 * power);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let count = (most / step + 1e-9).floor() as u32;
    let places = (0..=count).map(|number| {
        let value = f64::from(number) * step;
        (value * scale, format!("{value:.decimals$}"))
    });
    Ticks { unit, scale, places: places.collect() }
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
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{text}</text>")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(end: f64) -> (&'static str, Vec<String>) {
        let Ticks { unit, places, .. } = ticks(end);
        (unit, places.into_iter().map(|(_, name)| name).collect())
    }

    #[test]
    fn numbers_at_the_axis_are_round() {
        assert_eq!(
            names(1234.0),
            ("us", ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2"].map(Into::into).into())
        );
        assert_eq!(names(30_000_000.0).1[1], "5");
        assert_eq!(names(7.0).1.len(), 8);
        assert_eq!(
            names(0.25),
            ("ns", ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"].map(Into::into).into())
        );
        assert_eq!(names(1e12).0, "s");
    }

    #[test]
    fn a_run_of_no_length_has_one_number() {
        assert_eq!(names(0.0), ("ns", vec!["0".to_owned()]));
        let svg = timeline("nothing & nobody", 2, &[]).svg();
        assert_eq!(svg.matches(">0<").count(), 2, "rank 0 and time 0: {svg}");
        assert!(svg.contains("takes no time") && svg.contains("nothing &amp; nobody"), "{svg}");
    }

    #[test]
    fn what_colours_mean_is_said() {
        let svg = timeline("title", 1, &[]).svg();
        for (name, ..) in LEGEND {
            assert!(svg.contains(name), "{name}");
        }
        assert!(svg.contains(">title<") && svg.contains(">rank<"), "{svg}");
    }
}
