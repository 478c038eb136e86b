//! `kv`: a key-value server on active messages. Rank 0 has the values, every other rank is a client.
//!
//! See the README beside this file.

mod client;
mod inbox;
mod protocol;
mod server;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

use protocol::VALUE_MAX;
use server::ServerReport;

/// A key-value server on active messages; start it by `bowline run -n 4 kv`
#[derive(Parser, Debug)]
struct Options {
    /// Requests of each client
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Keys of each client
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Bytes of a short value
    #[arg(long, default_value_t = 100)]
    short: usize,
    /// Bytes of a long value
    #[arg(long, default_value_t = 262_144)]
    long: usize,
    /// Percent of values that are long
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=100))]
    long_percent: u64,
    /// The client with this rank kills itself in the middle of a put; wants --on-failure continue
    #[arg(long)]
    kill: Option<u32>,
    /// Where to write what was done as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(
        options.long as u64 <= VALUE_MAX && options.short as u64 <= VALUE_MAX,
        "a value has at most {VALUE_MAX} bytes"
    );
    let member = bowline::join().context("cannot join the job")?;
    ensure!(
        member.size() >= 2,
        "there is a server and no client; start it by `bowline run -n 2 kv` or with more ranks"
    );
    if let Some(victim) = options.kill {
        ensure!(
            (1..member.size()).contains(&victim),
            "--kill {victim}: the clients are the ranks 1 to {}",
            member.size() - 1
        );
    }
    if member.rank() != 0 {
        let rank = member.rank();
        return client::work(&member, &options).with_context(|| format!("client {rank}"));
    }
    let report = server::serve(&member).context("server")?;
    match &options.json {
        None => print(&report),
        Some(path) => {
            let text = serde_json::to_string_pretty(&report)? + "\n";
            if path.as_os_str() == "-" {
                print!("{text}");
            } else {
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
    }
    Ok(())
}

fn print(report: &ServerReport) {
    let ServerReport { puts, gets, deletes, refused, lost, keys, dead, clients } = report;
    println!("{puts} puts, {gets} gets, {deletes} deletes; {keys} keys are left");
    println!("{refused} refused, {lost} values lost with clients that died: {dead:?}");
    println!("client  requests/s   short put       get   long put       get   (median us)");
    for (rank, client) in clients {
        println!(
            "{rank:>6}  {:>10.0}  {:>10.2}  {:>8.2}  {:>9.1}  {:>8.1}",
            client.requests as f64 / client.seconds,
            client.short_put.median,
            client.short_get.median,
            client.long_put.median,
            client.long_get.median,
        );
    }
}
