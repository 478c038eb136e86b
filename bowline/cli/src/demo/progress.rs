//! Bars of progress for long runs: shown by rank 0, on a terminal, and nowhere else.

use bowline::mpi::World;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of `length` steps for the rank that shows it; a hidden one elsewhere. `bytes`: the steps
/// are bytes.
pub(crate) fn bar(world: &World, what: &'static str, length: u64, bytes: bool) -> ProgressBar {
    if world.rank() != 0 {
        return ProgressBar::hidden();
    }
    let count = if bytes { "{bytes} of {total_bytes}" } else { "{pos} of {len}" };
    let style =
        ProgressStyle::with_template(&format!("{{msg:12}} {{bar:40}} {count}, {{eta}} left"))
            .expect("the template is a constant and its test has passed");
    // The target hides itself where the stream is not a terminal.
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(style);
    bar.set_message(what);
    bar
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_templates_are_valid() {
        for bytes in [true, false] {
            bowline::threads(1, |world| super::bar(&world, "test", 1, bytes).finish_and_clear())
                .unwrap();
        }
    }
}
