//! E1 to E3: the parameters of the pipelining model, fitted to multicasts between real ranks over shared memory, over TCP
//! and over TCP with delay. By what is found last of a network the experiments behind it choose algorithms.

use anyhow::Result;
use bowline_model::fit::table::Entry;
use serde_json::Value;

use super::ranks::{Network, Site};

/// Multicasts of each size and width.
const REPETITIONS: u32 = 200;

/// Bytes of the published table (4.1).
const SIZES: [u64; 9] = [8, 64, 128, 512, 2048, 8192, 32 << 10, 128 << 10, 512 << 10];

/// The published blocking put of 8 bytes: alpha_p and alpha_r, us. The text has the two names the other way around.
const BLOCKING: (f64, f64) = (-0.72, 1.50);

/// The published ratio of alpha_p and alpha_r at a size, of puts on a Cray XC30 (table 4.1). Negative ratios are of sizes
/// at which the model was found not to hold.
fn published(bytes: u64) -> Option<f64> {
    let Entry { sizes, rejected, .. } = Entry::published("", "");
    let holds = sizes.iter().map(|row| (row.size, row.pipelining / row.required));
    let all = holds.chain(rejected.iter().map(|row| (row.size, row.pipelining / row.required)));
    all.into_iter().find(|(size, _)| *size == bytes).map(|(_, ratio)| ratio)
}

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
            let found =
                site.jobs.fit(transport, ranks, REPETITIONS, &SIZES, false, output.as_deref())?;
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
            let blocking = site.jobs.fit(transport, ranks, REPETITIONS, &[8], true, None)?;
            for fit in blocking["fits"].as_array().into_iter().flatten() {
                show_blocking(&format!("{place}, {ranks} ranks"), fit);
            }
            findings.push(blocking);
        }
    }
    Ok(())
}

fn show(place: &str, fit: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let by = fit["statistic"].as_str().unwrap_or("?");
    for size in fit["sizes"].as_array().into_iter().flatten() {
        let bytes = size["size"].as_u64().unwrap_or_default();
        let published =
            published(bytes).map_or_else(String::new, |ratio| format!(", published {ratio:.3}"));
        let (pipelining, required) = (number(&size["alpha_p_ns"]), number(&size["alpha_r_ns"]));
        let rejected =
            size["rejected"].as_str().map_or_else(String::new, |why| format!("; rejected: {why}"));
        println!(
            "{} {place}, by {by}, {bytes:>6} B: alpha_p {:>9.2} us, alpha_r {:>9.2} us, ratio {:.3}{published}; R^2 {:.4}{rejected}",
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

/// E1 with a flush behind each put. The model says a slope alone: the published intercept is below nothing.
fn show_blocking(place: &str, fit: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN) / 1e3;
    let by = fit["statistic"].as_str().unwrap_or("?");
    let size = &fit["sizes"][0];
    let verdict = size["rejected"]
        .as_str()
        .map_or_else(|| "physical".to_owned(), |why| format!("rejected: {why}"));
    println!(
        "E1 {place}, by {by}, blocking puts, {:>6} B: alpha_p {:>9.2} us, alpha_r {:>9.2} us; published {} and {}, which is \
         unphysical; R^2 {:.4}; {verdict}",
        8,
        number(&size["alpha_p_ns"]),
        number(&size["alpha_r_ns"]),
        BLOCKING.0,
        BLOCKING.1,
        1e3 * number(&size["r_squared"]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_the_fit_has_a_published_ratio() {
        let ratios = SIZES.map(|bytes| published(bytes).unwrap());
        let rounded = ratios.map(|ratio| (ratio * 1e3).round() / 1e3);
        assert_eq!(rounded, [2.316, 2.342, 2.395, 2.087, 1.215, 0.396, 0.088, -0.004, -0.014]);
    }
}
