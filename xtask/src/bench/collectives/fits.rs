//! E1 to E3: the parameters of the pipelining model, fitted to multicasts between real ranks over shared memory, over TCP
//! and over TCP with delay. By what is found last of a network the experiments behind it choose algorithms.

use anyhow::Result;
use serde_json::Value;

use super::ranks::{Network, Site};

/// Multicasts of each size and width.
const REPETITIONS: u32 = 200;

/// The ratios of alpha_p and alpha_r that were published of puts on a Cray XC30, by bytes (table 4.1).
const RATIOS: [(u64, f64); 5] = [(8, 2.316), (64, 2.4), (512, 2.1), (2048, 1.2), (8192, 0.4)];

/// Fits what the network has, and has it be chosen by.
pub(super) fn measure(site: &mut Site<'_>, findings: &mut Vec<Value>) -> Result<()> {
    let transports: &[&str] = match site.network {
        Network::Shm => &["tcp", "shm"],
        Network::Tcp => &["tcp"],
    };
    for ranks in site.ranks(&[8]) {
        for transport in transports {
            let name = format!("fit-{}-{transport}-{ranks}", site.network.name());
            let output = site.options.plots.as_ref().map(|directory| directory.join(name));
            let found = site.jobs.fit(transport, ranks, REPETITIONS, output.as_deref())?;
            let place = match (site.network, *transport) {
                (Network::Shm, "tcp") => "tcp, loopback",
                (Network::Tcp, _) => "tcp with delay",
                _ => "shared memory",
            };
            for fit in found["fits"].as_array().into_iter().flatten() {
                show(&format!("{place}, {ranks} ranks"), fit);
            }
            if let Some(setting) = found["collectives"].as_str()
                && let Some((name, value)) = setting.split_once('=')
            {
                println!("chosen by from here on: {setting}");
                site.jobs.set(name, value);
            }
            findings.push(found);
        }
    }
    Ok(())
}

fn show(place: &str, fit: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let by = fit["statistic"].as_str().unwrap_or("?");
    for size in fit["sizes"].as_array().into_iter().flatten() {
        let bytes = size["size"].as_u64().unwrap_or_default();
        let published = RATIOS.iter().find(|(of, _)| *of == bytes);
        let published =
            published.map_or_else(String::new, |(_, ratio)| format!(", published {ratio}"));
        let (pipelining, required) = (number(&size["alpha_p_ns"]), number(&size["alpha_r_ns"]));
        let rejected =
            size["rejected"].as_str().map_or_else(String::new, |why| format!("; rejected: {why}"));
        println!(
            "{} {place}, by {by}, {bytes:>6} B: alpha_p {:>9.2} us, alpha_r {:>9.2} us, ratio {:.2}{published}; R^2 {:.4}{rejected}",
            if bytes == 8 { "E1" } else { "E2" },
            pipelining / 1e3,
            required / 1e3,
            pipelining / required,
            number(&size["r_squared"]),
        );
    }
    let least = &fit["per_process"]["least_at"];
    let dip = least
        .as_u64()
        .map_or_else(|| "falls to the end".to_owned(), |at| format!("is least at {at}"));
    println!(
        "E3 {place}, by {by}: the time for each receiver {dip}; published: it falls to the end"
    );
}
