//! Two hosts that a veth pair joins.
//!
//! ```text
//!   host 1: CPU first, eth0 10.78.0.1 ════ veth pair ════ eth0 10.78.0.2, CPU second: host 2
//! ```

use crate::BenchError;
use crate::command::Launch;
use crate::hosts::{DEVICE, Hosts, TIME_LIMIT};

/// Makes the hosts; `cpus` are theirs.
pub(crate) fn make(cpus: [usize; 2]) -> Result<Hosts, BenchError> {
    let hosts = Hosts::make("bench", "10.78.0", 2, &cpus)?;
    Launch::new("ip", TIME_LIMIT)
        .args(["link", "add", DEVICE, "netns"])
        .args([hosts.id(0).to_string()])
        .args(["type", "veth", "peer", "name", DEVICE, "netns"])
        .args([hosts.id(1).to_string()])
        .remedy("install iproute2")
        .run()?;
    hosts.set_up()?;
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn hosts_reach_each_other_and_go_with_their_owner() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may make network namespaces");
            return;
        }
        let veth = match make([0, 0]) {
            Ok(veth) => veth,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let name = veth.on(1, Launch::new("uname", TIME_LIMIT).args(["-n"])).run().unwrap();
        assert_eq!(name.stdout.trim(), veth.names[1]);
        let spaced = veth.on(0, Launch::new("echo", TIME_LIMIT).args(["a  'b' $c"])).run().unwrap();
        assert_eq!(spaced.stdout, "a  'b' $c\n");
        let route = ["route", "get", veth.addresses[1].as_str()];
        let route = veth.on(0, Launch::new("ip", TIME_LIMIT).args(route)).run().unwrap();
        assert!(route.stdout.contains(DEVICE), "{}", route.stdout);
        let (script, first) = (veth.script(), veth.id(0));
        drop(veth);
        assert!(!script.exists());
        assert!(!Path::new(&format!("/proc/{first}/ns/net")).exists());
    }
}
