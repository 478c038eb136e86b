//! Heat that spreads on a plate: explicit finite differences on a grid whose rows are spread over
//! the ranks.
//!
//! ```text
//!   rank 0   ┌───────────┐
//!            │ own rows  │      each step: send the first and the last own row to the
//!            ├───────────┤      neighbours, receive theirs (the halo), update the own rows
//!   rank 1   │ own rows  │
//!            └───────────┘
//! ```
//! A cell's new value depends on its four neighbours only, so the field is the same for every
//! number of ranks, to the last bit.

use std::path::PathBuf;

use anyhow::bail;
use bowline::mpi::{MpiError, PROC_NULL, World};

use super::{Ranks, parts, picture, progress};
use crate::start::{RankResult, together};
use crate::{numbers, output};

/// Part of the difference to its neighbours that a cell takes over in a step; stable below 1/4.
const FLOW: f64 = 0.2;

/// Tags of the two directions.
const UPWARD: i32 = 1;
const DOWNWARD: i32 = 2;

/// Simulate heat that spreads on a plate, and draw it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bowline demo heat -n 4 --size 320x240 --steps 20000 --png heat.png")]
pub(crate) struct Args {
    /// Cells of the grid.
    #[arg(long, value_name = "WxH", default_value = "256x256", value_parser = Size::parse)]
    size: Size,
    /// Time steps.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    steps: u32,
    /// Where to draw the field, one pixel per cell.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    #[command(flatten)]
    pub(super) ranks: Ranks,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    width: usize,
    height: usize,
}

impl Size {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no size such as 640x480, from 3x3 to 32768x32768");
        let (width, height) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
        let side = |text| numbers::size(text).ok().filter(|side| (3..=32768).contains(side));
        Ok(Self { width: side(width).ok_or_else(wrong)?, height: side(height).ok_or_else(wrong)? })
    }

    /// The temperature of a cell that is held, `None` for one that is free. The rim is cold, but
    /// for a hot piece on its left; there is a warm square and a cold bar inside.
    fn held(self, x: usize, y: usize) -> Option<f64> {
        let (w, h) = (self.width, self.height);
        let within = |at: usize, len: usize, from: usize, to: usize| {
            (len * from..len * to).contains(&(at * 100))
        };
        if x == 0 {
            return Some(if within(y, h, 30, 70) { 1.0 } else { 0.0 });
        }
        if x == w - 1 || y == 0 || y == h - 1 {
            return Some(0.0);
        }
        if within(x, w, 62, 76) && within(y, h, 18, 34) {
            return Some(0.75);
        }
        (within(x, w, 45, 48) && within(y, h, 45, 85)).then_some(0.0)
    }

    /// The rows of `rank`: first and number. The first ranks have one more where they do not fit.
    fn rows(self, rank: usize, ranks: usize) -> (usize, usize) {
        let (share, more) = (self.height / ranks, self.height % ranks);
        (rank * share + rank.min(more), share + usize::from(rank < more))
    }
}

impl Args {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(png) = &self.png else { return Ok(()) };
        if !png.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
            bail!("cannot draw into {}: the name must end in .png", png.display());
        }
        match png.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) if !parent.is_dir() => {
                bail!("cannot draw into {}: there is no such directory", png.display())
            }
            _ => Ok(()),
        }
    }
}

/// The rows of one rank, with a row of the neighbours above and below.
struct Plate {
    size: Size,
    /// The first own row.
    first: usize,
    /// `count + 2` rows.
    now: Vec<f64>,
    next: Vec<f64>,
    /// Own rows.
    count: usize,
    /// Cells of the own rows that are held: their places in `now`, and temperatures.
    held: Vec<(usize, f64)>,
    /// The ranks above and below, or nobody.
    above: i32,
    below: i32,
}

impl Plate {
    fn new(size: Size, rank: usize, ranks: usize) -> Self {
        let (first, count) = size.rows(rank, ranks);
        let width = size.width;
        let place = |x, y| ((1 + y - first) * width + x, size.held(x, y));
        let held = (first..first + count)
            .flat_map(|y| (0..width).map(move |x| place(x, y)))
            .filter_map(|(place, held)| Some((place, held?)))
            .collect();
        // Ranks beyond the last row have nothing to do and no neighbours.
        let working = ranks.min(size.height);
        let neighbour = |there: Option<usize>| match there {
            Some(other) if other < working && rank < working => other as i32,
            _ => PROC_NULL,
        };
        let mut plate = Self {
            size,
            first,
            now: vec![0.0; (count + 2) * width],
            next: vec![0.0; (count + 2) * width],
            count,
            held,
            above: neighbour(rank.checked_sub(1)),
            below: neighbour(Some(rank + 1)),
        };
        plate.hold();
        std::mem::swap(&mut plate.now, &mut plate.next);
        plate
    }

    /// The own rows.
    fn field(&self) -> &[f64] {
        &self.now[self.size.width..(self.count + 1) * self.size.width]
    }

    /// Exchanges the halo rows with the neighbours.
    fn exchange(&mut self, world: &World) -> Result<(), MpiError> {
        let width = self.size.width;
        // The first and the last own row; a rank without rows has nobody to send to.
        let (first, last) = (1.min(self.count) * width, self.count * width);
        let (above, below) = (self.above, self.below);
        let (rows, halo) = self.now.split_at_mut(last + width);
        world.sendrecv(&rows[first..first + width], above, UPWARD, halo, below, UPWARD)?;
        let (halo, rows) = self.now.split_at_mut(width);
        let own = &rows[last - first..last - first + width];
        world.sendrecv(own, below, DOWNWARD, halo, above, DOWNWARD)?;
        Ok(())
    }

    /// One time step.
    fn step(&mut self, world: &World) -> Result<(), MpiError> {
        self.exchange(world)?;
        let width = self.size.width;
        for row in 1..=self.count {
            let y = self.first + row - 1;
            if y == 0 || y == self.size.height - 1 {
                continue;
            }
            let rows = &self.now[(row - 1) * width..(row + 2) * width];
            let (up, rest) = rows.split_at(width);
            let (own, down) = rest.split_at(width);
            let next = &mut self.next[row * width..(row + 1) * width];
            for x in 1..width - 1 {
                let around = own[x - 1] + own[x + 1] + up[x] + down[x];
                next[x] = own[x] + FLOW * (around - 4.0 * own[x]);
            }
        }
        self.hold();
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }

    /// Gives the held cells of the next field their temperatures.
    fn hold(&mut self) {
        for &(place, held) in &self.held {
            self.next[place] = held;
        }
    }
}

/// The work of one rank.
pub(super) fn heat(world: &World, args: &Args) -> RankResult {
    let mut plate = Plate::new(args.size, world.rank() as usize, world.size() as usize);
    let bar = progress::bar(world, "heating", args.steps.into(), false);
    for _ in 0..args.steps {
        plate.step(world)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let field = parts::collect(world, plate.field())?;
    let drawn = match &args.png {
        Some(png) if world.rank() == 0 => picture::draw(png, &field, args.size.width),
        _ => Ok(()),
    };
    together(world, drawn)?;
    if world.rank() == 0 {
        let mean = field.iter().sum::<f64>() / field.len() as f64;
        output::print(&format!(
            "{} x {} cells, {} steps\nmean temperature {mean:.9}, checksum {:016x}",
            args.size.width,
            args.size.height,
            args.steps,
            checksum(&field)
        ))?;
        if let Some(png) = &args.png {
            output::print(&format!("drawn into {}", png.display()))?;
        }
    }
    Ok(())
}

/// A number that changes with every bit of the field (FNV-1a over the bytes).
fn checksum(field: &[f64]) -> u64 {
    let bytes = field.iter().flat_map(|cell| cell.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 30, height: 20 };

    #[test]
    fn rows_cover_the_grid() {
        for ranks in 1..30 {
            let mut next = 0;
            for rank in 0..ranks {
                let (first, count) = SIZE.rows(rank, ranks);
                assert_eq!(first, next);
                next += count;
            }
            assert_eq!(next, SIZE.height);
        }
    }

    #[test]
    fn sizes_are_read_and_refused() {
        assert!(Size::parse("640x480").is_ok_and(|size| (size.width, size.height) == (640, 480)));
        for wrong in ["640", "0x5", "2x9", "ax4", "99999x10", "-3x4", ""] {
            assert!(Size::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_field_is_the_same_for_every_number_of_ranks() {
        let run = |ranks| {
            let fields = bowline::threads(ranks, |world| {
                let mut plate = Plate::new(SIZE, world.rank() as usize, ranks);
                for _ in 0..40 {
                    plate.step(&world).unwrap();
                }
                plate.field().to_vec()
            });
            fields.unwrap().concat()
        };
        let alone = run(1);
        assert_eq!(alone.len(), 600);
        assert!(alone.iter().any(|&cell| cell > 0.0 && cell < 0.75), "heat has spread");
        for ranks in [2, 3, 7, 23] {
            let same = run(ranks).iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{ranks} ranks");
        }
    }
}
