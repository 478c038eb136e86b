//! Resident memory of each mode (figure 3.9c of the thesis), each in a process of its own.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::ranks::{Lane, MODES, run};
use crate::table::{Cell, Table};

/// Ranks in the process.
const RANKS: u32 = 8;

/// Prints the resident bytes of [`RANKS`] ranks that have exchanged messages.
pub(crate) fn print_resident(mode: &str) -> Result<()> {
    let found = run(RANKS, Lane::Shm, mode, |world| {
        let (me, n) = (world.rank(), world.size());
        let out = vec![1u8; 64 << 10];
        let mut into = out.clone();
        for _ in 0..20 {
            world.scope(|s| {
                let receive = s.irecv(world, &mut into, (me + n - 1) % n, 1)?;
                let send = s.isend(world, &out, (me + 1) % n, 1)?;
                receive.wait()?;
                send.wait()
            })?;
        }
        world.barrier()?;
        resident()
    })?;
    println!("{}", found[0]);
    Ok(())
}

fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("cannot read /proc")?;
    let pages: u64 = text.split_whitespace().nth(1).context("no resident pages")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

pub(crate) fn tables(_: bool) -> Result<Vec<Table>> {
    let mut table = Table::new(
        "memory",
        format!("resident memory of {RANKS} ranks in one process, in KB beyond mode none"),
        &["mode", "resident", "more for each rank", "published for each rank"],
    );
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut first = None;
    for (mode, published) in MODES.into_iter().zip(["-", "4 at most", "10000"]) {
        let output = Command::new(&program).args(["--resident", mode]).output()?;
        if !output.status.success() {
            bail!("{mode}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let bytes: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
        let none = *first.get_or_insert(bytes);
        let more = (bytes as f64 - none as f64) / 1024.0 / f64::from(RANKS);
        table.row(vec![
            mode.into(),
            Cell::number(bytes as f64 / 1024.0, 0, ""),
            Cell::number(more, 1, ""),
            published.into(),
        ]);
    }
    table
        .note("published (figure 3.9c): 128 KB and 320 MB for 32 processes; a thread's stack was resident there");
    Ok(vec![table])
}
