//! Drawing a field of temperatures as a PNG.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

/// Colours from cold to hot, evenly spaced.
const SCALE: [[f64; 3]; 7] = [
    [10.0, 10.0, 40.0],
    [50.0, 20.0, 110.0],
    [125.0, 30.0, 120.0],
    [200.0, 50.0, 80.0],
    [240.0, 110.0, 40.0],
    [250.0, 190.0, 60.0],
    [255.0, 255.0, 200.0],
];

/// The colour of `heat`, which is between 0 and 1.
fn colour(heat: f64) -> RGBColor {
    let position = heat.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let below = (position as usize).min(SCALE.len() - 2);
    let part = position - below as f64;
    let channel = |c: usize| {
        let (low, high) = (SCALE[below][c], SCALE[below + 1][c]);
        (low + part * (high - low)).round() as u8
    };
    RGBColor(channel(0), channel(1), channel(2))
}

/// Draws `field`, rows of `width` values between 0 and 1, one pixel each.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn draw(path: &Path, field: &[f64], width: usize) -> anyhow::Result<()> {
    let height = field.len() / width;
    let failed =
        |error: &dyn std::fmt::Display| anyhow!("cannot write {}: {error}", path.display());
    let area = BitMapBackend::new(path, (width as u32, height as u32)).into_drawing_area();
    for (row, y) in field.chunks_exact(width).zip(0..) {
        for (&heat, x) in row.iter().zip(0..) {
            area.draw_pixel((x, y), &colour(heat)).map_err(|error| failed(&error))?;
        }
    }
    area.present().map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_reach_both_ends() {
        assert_eq!(colour(0.0), RGBColor(10, 10, 40));
        assert_eq!(colour(1.0), RGBColor(255, 255, 200));
        assert_eq!(colour(7.0), colour(1.0));
        assert_eq!(colour(f64::NAN), RGBColor(0, 0, 0));
    }

    #[test]
    fn a_picture_has_a_pixel_for_each_value() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("field.png");
        draw(&path, &[0.0, 0.5, 1.0, 0.2, 0.4, 0.6], 3).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[1..4], b"PNG");
        // Width and height stand at fixed places of the header.
        assert_eq!(bytes[16..24], [0, 0, 0, 3, 0, 0, 0, 2]);
        let error = draw(&directory.path().join("no/such.png"), &[0.0], 1).unwrap_err();
        assert!(error.to_string().contains("no/such.png"));
    }
}
