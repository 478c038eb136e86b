//! A program whose ranks are processes, under the launcher that stands beside this one. Each is this program again, which an
//! order in its environment makes a rank; rank 0 prints what all of them took.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use bowline::mpi::Sum;

use super::{Order, PROGRAMS, RANKS};
use crate::ranks::{Lane, THRESHOLD};

/// The variable that has the order.
const ORDER: &str = "BENCH_PROGRESS_APPLICATION";

impl Order {
    fn text(self) -> String {
        format!("{} {} {}", self.program, self.class, self.count)
    }

    fn parse(text: &str) -> Result<Self> {
        let numbers: Result<Vec<usize>, _> = text.split(' ').map(str::parse).collect();
        let numbers = numbers.with_context(|| format!("{ORDER}={text:?} is no order"))?;
        let [program, class, count] = numbers[..] else {
            bail!("{ORDER}={text:?} is no order: a program, a class and a count are");
        };
        let known = PROGRAMS.get(program).is_some_and(|found| class < found.classes.len());
        ensure!(known && count > 0, "{ORDER}={text:?} names what there is not");
        Ok(Self { program, class, count })
    }
}

/// If this process is a rank, measures. Whether it is.
pub(super) fn be_a_rank() -> Result<bool> {
    let Ok(order) = std::env::var(ORDER) else { return Ok(false) };
    let order = Order::parse(&order)?;
    let world = bowline::init()?;
    let own = super::measure(&world, order)?;
    let mut sums = [0.0_f64; 2];
    world.allreduce(&own, &mut sums, Sum)?;
    if world.rank() == 0 {
        let [waits, all] = sums.map(|sum| sum / f64::from(world.size()));
        println!("{waits} {all}");
    }
    Ok(true)
}

/// Microseconds of waits and of all communication in an iteration, mean of the ranks.
pub(super) fn measure(lane: Lane, mode: &str, order: Order) -> Result<[f64; 2]> {
    let transports = match lane {
        Lane::Shm => "self,shm",
        Lane::Tcp => "self,tcp",
        other => bail!("ranks over {} are threads", other.name()),
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    let launcher = program.with_file_name("bowline");
    let output = Command::new(&launcher)
        .args(["run", "-n", &RANKS.to_string()])
        .arg(&program)
        .args(["--only", "applications"])
        .env(ORDER, order.text())
        .env("BOWLINE_PROGRESS", mode)
        .env("BOWLINE_RNDV_THRESHOLD", THRESHOLD)
        .env("BOWLINE_TRANSPORTS", transports)
        .output()
        .with_context(|| format!("cannot start {}", launcher.display()))?;
    let failed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{mode}: {failed}");
    parse(&String::from_utf8(output.stdout)?)
}

fn parse(text: &str) -> Result<[f64; 2]> {
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [waits, all] => Ok([waits, all]),
        _ => bail!("a rank printed {text:?}, not two numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_what_they_were() {
        for program in 0..PROGRAMS.len() {
            let order = Order { program, class: 1, count: 7 };
            assert_eq!(Order::parse(&order.text()).unwrap(), order);
        }
        for wrong in ["", "1 1", "1 1 x", "5 0 1", "0 2 1", "0 0 0", "0 0 1 1"] {
            assert!(Order::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_numbers_are_an_answer() {
        assert_eq!(parse("12.5 30\n").unwrap(), [12.5, 30.0]);
        assert!(parse("12.5\n").is_err() && parse("").is_err());
    }
}
