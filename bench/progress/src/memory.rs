//! Resident memory of each mode (figure 3.9c of the thesis): what 32 processes take, under the launcher that stands beside
//! this program.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use bowline::mpi::Sum;

use crate::ranks::{MODES, Scope, THRESHOLD, median};
use crate::table::{Cell, Table};

/// Ranks, each a process, as in the thesis.
const RANKS: u32 = 32;

/// What ranks have beside, of memory: pages of their own that they have written, and all that are resident, in KB.
const KINDS: [&str; 2] = ["Private_Dirty:", "Rss:"];

/// A rank: prints at rank 0 what all ranks have when they have exchanged messages.
pub(crate) fn print_resident() -> Result<()> {
    let world = bowline::init()?;
    let (me, n) = (world.rank(), world.size());
    let out = vec![1u8; 64 << 10];
    let mut into = out.clone();
    for _ in 0..20 {
        world.scope(|s| {
            let receive = s.irecv(&world, &mut into, (me + n - 1) % n, 1)?;
            let send = s.isend(&world, &out, (me + 1) % n, 1)?;
            receive.wait()?;
            send.wait()
        })?;
    }
    world.barrier()?;
    let mut all = [0_u64; KINDS.len()];
    world.allreduce(&resident()?, &mut all, Sum)?;
    if me == 0 {
        println!("{} {}", all[0], all[1]);
    }
    Ok(())
}

fn resident() -> Result<[u64; KINDS.len()]> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").context("cannot read /proc")?;
    let of = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).with_context(|| format!("there is no {kind}"))
    };
    Ok([of(KINDS[0])?, of(KINDS[1])?])
}

fn measure(mode: &str) -> Result<[f64; KINDS.len()]> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let launcher = program.with_file_name("bowline");
    let output = Command::new(&launcher)
        .args(["run", "-n", &RANKS.to_string()])
        .arg(&program)
        .arg("--resident")
        .env("BOWLINE_PROGRESS", mode)
        .env("BOWLINE_RNDV_THRESHOLD", THRESHOLD)
        .output()
        .with_context(|| format!("cannot start {}", launcher.display()))?;
    let failed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{mode}: {failed}");
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || anyhow::Ok(numbers.next().context("a number is missing")??);
    Ok([next()?, next()?])
}

pub(crate) fn tables(scope: &Scope) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "memory",
        format!("memory of {RANKS} processes in KB, and what it is beyond mode none"),
        &["mode", "written pages", "more", "resident", "more", "published, more"],
    );
    let rounds = if scope.quick { 1 } else { 5 };
    let mut found = vec![[Vec::new(), Vec::new()]; MODES.len()];
    for _ in 0..rounds {
        for (mode, found) in MODES.iter().zip(&mut found) {
            for (found, kb) in found.iter_mut().zip(measure(mode)?) {
                found.push(kb);
            }
        }
    }
    let found = found.into_iter().map(|kinds| kinds.map(median));
    let found: Vec<_> = found.collect();
    for ((mode, published), kinds) in MODES.iter().zip(["-", "128", "320000"]).zip(&found) {
        let mut row = vec![Cell::from(*mode)];
        for (kind, kb) in kinds.iter().enumerate() {
            row.push(Cell::number(*kb, 0, ""));
            row.push(Cell::number(kb - found[0][kind], 0, ""));
        }
        row.push(published.into());
        table.row(row);
    }
    table.note("published (figure 3.9c): of 32 processes; a thread's stack was resident there");
    table.note(format!(
        "The workload differs: published are 32 processes on four nodes over InfiniBand; here {RANKS} are on one host, on as many \
         processors as it has, and each has sent and received 20 messages of 64 KB in a ring."
    ));
    Ok(vec![table])
}
