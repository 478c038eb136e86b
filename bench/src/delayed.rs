//! Hosts that a network with delay joins.
//!
//! ```text
//!   host1: eth0 10.79.0.1 (TUN) ──┐
//!   host2: eth0 10.79.0.2 (TUN) ──┼── relay: each packet goes on after the delay
//!   ...                           │
//! ```
//!
//! The relay is a thread of this process for each processor of the hosts, which hold the other ends of the hosts' TUN
//! devices. The hosts share its processors, so it asks for a real-time priority; whether it got one is part of the
//! description, and [`DelayedNetwork::ping`] measures the delay that results. There is no limit of
//! bandwidth but the relay's own work, and no loss but that of a full queue, which is counted.

mod relay;
mod tun;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::relay::Relay;
pub use self::relay::{Forwarded, RelayOptions};
use crate::BenchError;
use crate::error::file;
use crate::hosts::{DEVICE, Hosts, missing};

/// At most so many hosts.
pub const HOSTS_MAX: usize = 64;

/// Hosts and the relay between them. Dropping it ends both.
#[derive(Debug)]
pub struct DelayedNetwork {
    // The order matters: the relay goes first, then the devices with the hosts.
    relay: Relay,
    hosts: Hosts,
}

/// Times of a ping-pong of small datagrams between two hosts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ping {
    /// Shortest time there and back, ns.
    pub min_ns: f64,
    /// Median time there and back, ns.
    pub median_ns: f64,
}

impl DelayedNetwork {
    /// Makes `count` hosts, which use `cpus` in turn, and the network between them.
    ///
    /// # Errors
    /// When the kernel refuses namespaces or TUN devices: both need root.
    pub fn make(count: usize, cpus: &[usize], options: &RelayOptions) -> Result<Self, BenchError> {
        if !(2..=HOSTS_MAX).contains(&count) || cpus.is_empty() {
            return Err(missing(format!(
                "between 2 and {HOSTS_MAX} on at least one CPU are possible"
            )));
        }
        let hosts = Hosts::make("host", "10.79.0", count, cpus)?;
        let open = |side| hosts.inside(side, || tun::open(DEVICE, options.mtu));
        let devices = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        hosts.set_up()?;
        let relay =
            Relay::start(devices, cpus, options).map_err(file("start the relay of", "hosts"))?;
        Ok(Self { relay, hosts })
    }

    /// The script that runs a command line on a host: `SCRIPT [-OPTION]... HOST WORD...`, as launchers
    /// call ssh.
    pub fn script(&self) -> PathBuf {
        self.hosts.script()
    }

    /// Names of the hosts.
    pub fn names(&self) -> &[String] {
        &self.hosts.names
    }

    /// What the relay has done.
    pub fn forwarded(&self) -> Forwarded {
        self.relay.forwarded()
    }

    /// Moves the calling thread to the network of host `side`, for the rest of its life: what it opens and starts from here
    /// on is there.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn enter(&self, side: usize) -> Result<(), BenchError> {
        self.hosts.enter(side)
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Sends datagrams of 8 bytes from the first host to the second and back, one after the other.
    ///
    /// # Errors
    /// When a datagram does not arrive within a second.
    pub fn ping(&self, rounds: usize) -> Result<Ping, BenchError> {
        let socket = |side: usize| {
            let address = format!("{}:0", self.hosts.addresses[side]);
            self.hosts.inside(side, move || {
                let socket = UdpSocket::bind(address)?;
                socket.set_read_timeout(Some(Duration::from_secs(1)))?;
                Ok(socket)
            })
        };
        let (near, far) = (socket(0)?, socket(1)?);
        let mut times =
            ping(&near, &far, rounds).map_err(file("reach", &self.hosts.addresses[1]))?;
        times.sort_by(f64::total_cmp);
        Ok(Ping { min_ns: times[0], median_ns: times[times.len() / 2] })
    }
}

/// Times there and back, ns; at least one.
fn ping(near: &UdpSocket, far: &UdpSocket, rounds: usize) -> std::io::Result<Vec<f64>> {
    let rounds = rounds.max(1);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> std::io::Result<()> {
            let mut bytes = [0; 8];
            for _ in 0..rounds {
                far.recv(&mut bytes)?;
                far.send(&bytes)?;
            }
            Ok(())
        });
        let mut times = Vec::with_capacity(rounds);
        let mut bytes = [0; 8];
        for round in 0..rounds as u64 {
            let start = Instant::now();
            near.send(&round.to_ne_bytes())?;
            near.recv(&mut bytes)?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        echo.join().expect("the closure does not panic")?;
        Ok(times)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn network(options: &RelayOptions) -> Option<DelayedNetwork> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may make network namespaces");
            return None;
        }
        match DelayedNetwork::make(3, &[0], options) {
            Ok(network) => Some(network),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    #[test]
    fn nothing_arrives_before_the_delay() {
        let options = RelayOptions { delay: Duration::from_millis(2), ..RelayOptions::default() };
        let Some(network) = network(&options) else { return };
        let ping = network.ping(20).unwrap();
        assert!(ping.min_ns >= 4e6, "{ping:?}");
        assert!(network.forwarded().packets >= 40);
    }

    #[test]
    fn datagrams_of_a_flow_keep_their_order_whatever_the_jitter() {
        let options = RelayOptions { jitter: Duration::from_millis(3), ..RelayOptions::default() };
        let Some(network) = network(&options) else { return };
        let socket = |side: usize| {
            let address = format!("{}:0", network.hosts.addresses[side]);
            network.hosts.inside(side, move || UdpSocket::bind(address)).unwrap()
        };
        let (first, second, third) = (socket(0), socket(1), socket(2));
        third.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let target = third.local_addr().unwrap();
        const COUNT: u32 = 50;
        for number in 0..COUNT {
            first.send_to(&number.to_ne_bytes(), target).unwrap();
            second.send_to(&number.to_ne_bytes(), target).unwrap();
        }
        let mut next = [0; 2];
        for _ in 0..2 * COUNT {
            let mut bytes = [0; 4];
            let (_, from) = third.recv_from(&mut bytes).unwrap();
            let flow = usize::from(from == second.local_addr().unwrap());
            assert_eq!(u32::from_ne_bytes(bytes), next[flow], "of flow {flow}");
            next[flow] += 1;
        }
        assert_eq!(next, [COUNT; 2]);
    }

    #[test]
    fn streams_arrive_whole() {
        let Some(network) = network(&RelayOptions::default()) else { return };
        let address = format!("{}:0", network.hosts.addresses[1]);
        let listener = network.hosts.inside(1, move || TcpListener::bind(address)).unwrap();
        let target = listener.local_addr().unwrap();
        let mut stream = network.hosts.inside(0, move || TcpStream::connect(target)).unwrap();
        let sent: Vec<u8> = (0..3 << 20_u32).map(|i| (i % 251) as u8).collect();
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                stream.write_all(&sent).unwrap();
                drop(stream);
            });
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        assert!(received == sent);
        assert_eq!(network.forwarded().dropped, 0);
    }
}
