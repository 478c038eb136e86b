//! The hosts: network namespaces at a bridge. They and everything in them end with the network
//! namespace that this process runs in.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What `ip netns` keeps its names in, made private to the mount namespace of this process.
pub(super) const RUN: &str = "mount -t tmpfs none /run && mkdir -p /run/netns";

/// The port of every host's door.
const PORT: u16 = 7321;

/// Hosts at a bridge.
#[derive(Debug)]
pub(super) struct Net {
    /// Names of hosts, which are those of their namespaces.
    pub(super) hosts: Vec<String>,
    doors: Vec<Child>,
}

impl Net {
    pub(super) fn make(hosts: u8) -> Result<Self> {
        shell(RUN)?;
        shell("ip link set lo up && ip link add br0 type bridge && ip link set br0 up")?;
        shell("ip addr add 10.77.0.254/24 dev br0")?;
        let mut net = Self { hosts: Vec::new(), doors: Vec::new() };
        for number in 1..=hosts {
            let host = format!("host{number}");
            let veth = veth(&host);
            shell(&format!(
                "ip netns add {host} && ip link add {veth} type veth peer name eth0 netns {host} \
                 && ip link set {veth} master br0 up && ip -n {host} link set lo up \
                 && ip -n {host} addr add {}/24 dev eth0 && ip -n {host} link set eth0 up",
                address(number),
            ))?;
            let own = std::env::current_exe().context("cannot find this program's own file")?;
            let door = Command::new("ip")
                .args(["netns", "exec", &host])
                .arg(own)
                .args(["netns", "door", &format!("{}:{PORT}", address(number))])
                .spawn()
                .context("cannot start a door")?;
            net.hosts.push(host);
            net.doors.push(door);
        }
        Ok(net)
    }

    /// Gives every host a second interface, eth1, at a bridge of its own.
    pub(super) fn second(&self) -> Result<Second<'_>> {
        let second = Second(self);
        shell("ip link add br1 type bridge && ip link set br1 up")?;
        for (number, host) in (1..).zip(&self.hosts) {
            let veth = second_veth(host);
            shell(&format!(
                "ip link add {veth} type veth peer name eth1 netns {host} \
                 && ip link set {veth} master br1 up \
                 && ip -n {host} addr add {}/24 dev eth1 && ip -n {host} link set eth1 up",
                second_address(number),
            ))?;
        }
        Ok(second)
    }

    /// The command that runs a program on a host whatever becomes of its network.
    pub(super) fn direct(&self) -> String {
        "ip netns exec {host}".into()
    }

    /// The command that runs a program on a host through the network.
    pub(super) fn by_door(&self) -> Result<String> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(format!("{} netns knock {{host}}", own.display()))
    }

    /// Pulls a host's plug.
    pub(super) fn unplug(&self, host: &str) -> Result<()> {
        shell(&format!("ip link set {} down", veth(host)))
    }

    /// Puts it in again, and waits until the other hosts reach this one: what they have noted of
    /// it as a neighbour is that it is not there.
    pub(super) fn plug(&self, host: &str) -> Result<()> {
        shell(&format!("ip link set {} up && ip neigh flush all", veth(host)))?;
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        for other in &self.hosts {
            shell(&format!("ip -n {other} neigh flush all"))?;
            let reached = Command::new("ip")
                .args(["netns", "exec", other])
                .arg(&own)
                .args(["netns", "knock", host, "true"])
                .stdin(Stdio::null())
                .status()
                .context("cannot start ip")?;
            ensure!(reached.success(), "{other} does not reach {host} again");
        }
        Ok(())
    }
}

/// The second network of all hosts, which ends with this.
#[derive(Debug)]
pub(super) struct Second<'a>(&'a Net);

impl Drop for Second<'_> {
    fn drop(&mut self) {
        for host in &self.0.hosts {
            let _ = shell(&format!("ip link del {}", second_veth(host)));
        }
        let _ = shell("ip link del br1");
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for door in &mut self.doors {
            let _ = door.kill();
            let _ = door.wait();
        }
    }
}

/// The address of a door by the name of its host.
pub(super) fn door_of(host: &str) -> Option<String> {
    let number = host.strip_prefix("host")?.parse().ok()?;
    Some(format!("{}:{PORT}", address(number)))
}

fn veth(host: &str) -> String {
    format!("veth-{host}")
}

fn second_veth(host: &str) -> String {
    format!("veto-{host}")
}

fn second_address(number: u8) -> String {
    format!("10.78.0.{number}")
}

fn address(number: u8) -> String {
    format!("10.77.0.{number}")
}

fn shell(command: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", command]).status().context("cannot start sh")?;
    ensure!(status.success(), "this failed: {command}");
    Ok(())
}
