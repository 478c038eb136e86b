//! Which network interfaces are used, and why the others are not.
//!
//! An interface of this transport listens at the addresses of every *chosen* network interface and
//! at loopback. To reach a peer it prefers loopback where both are on one host, then the address
//! to which the kernel's routing table leads through a chosen interface. Bridges and tunnels made
//! for containers are never chosen unless they are named: they reach other containers at best.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use bowline_uct::OpenError;
use rustix::io::Errno;

use crate::addr::{Address, Host, Place};
use crate::options::TcpOptions;
use crate::socket;

/// Names of interfaces that container engines and virtual machines make for themselves.
const CONTAINERS: [&str; 14] = [
    "docker", "br-", "virbr", "cni", "flannel", "cali", "podman", "lxc", "lxd", "kube", "weave",
    "tunl", "vxlan", "nerdctl",
];

/// Why an interface is not used that may be used in a moment.
const DOWN: &str = "it is down or has no link";

/// A network interface's address, and whether it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChoice {
    /// Name of the network interface, for instance `eth0`; empty where none is known.
    pub interface: String,
    /// The local address, where one is known.
    pub local: Option<IpAddr>,
    /// The peer's address and port, where the choice is about a peer.
    pub remote: Option<SocketAddr>,
    /// Whether it is used.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: String,
}

impl fmt::Display for RouteChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.chosen { "+" } else { "-" };
        write!(f, "{mark} {}", if self.interface.is_empty() { "?" } else { &self.interface })?;
        if let Some(local) = self.local {
            write!(f, " {local}")?;
        }
        if let Some(remote) = self.remote {
            write!(f, " to {remote}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    up: bool,
    pub(crate) loopback: bool,
}

/// The system's interfaces that have an address.
pub(crate) fn system() -> std::io::Result<Vec<Found>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` is a place for the pointer that the call writes.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: the list was made by `getifaddrs` and is freed after the loop; `at` is one of
        // its entries.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        // SAFETY: the name of an entry is a string that ends with a zero.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        // SAFETY: the address of an entry is null or of the family that it says.
        let Some(ip) = (unsafe { ip_of(entry.ifa_addr) }) else { continue };
        let flag = |bit: libc::c_int| entry.ifa_flags & bit as libc::c_uint != 0;
        found.push(Found {
            name: name.to_string_lossy().into_owned(),
            ip,
            // The kernel says of a link that it runs up to a second after it has come.
            up: flag(libc::IFF_UP) && (flag(libc::IFF_RUNNING) || flag(libc::IFF_LOWER_UP)),
            loopback: flag(libc::IFF_LOOPBACK),
        });
    }
    // SAFETY: `list` came from `getifaddrs`, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
/// `address` must be null or lead to a socket address as long as its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and every socket address begins with its family; the casts follow it.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes())))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

/// What the setting says about interfaces.
struct Wanted<'a> {
    /// The setting.
    setting: &'static str,
    named: Vec<&'a str>,
    denied: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    fn parse(text: &'a str, setting: &'static str) -> Self {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let (denied, named) = words.partition::<Vec<_>, _>(|word| word.starts_with('!'));
        Self { setting, named, denied: denied.into_iter().map(|word| &word[1..]).collect() }
    }

    /// Whether `found` is used, and why (not).
    fn judge(&self, found: &Found) -> Result<String, String> {
        let verdict = self.judge_up(found)?;
        if found.up { Ok(verdict) } else { Err(DOWN.to_owned()) }
    }

    /// Whether `found` is used while it is up.
    fn judge_up(&self, found: &Found) -> Result<String, String> {
        let (name, setting) = (found.name.as_str(), self.setting);
        if self.denied.contains(&name) {
            return Err(format!("{setting} denies it"));
        }
        if found.loopback {
            return if found.ip.is_loopback() {
                Ok("loopback, for peers on this host".to_owned())
            } else {
                Err("an additional address of the loopback interface".to_owned())
            };
        }
        let link_local = match found.ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        if link_local {
            return Err("a link-local address, which means nothing to other hosts".to_owned());
        }
        if self.named.contains(&name) {
            return Ok(format!("{setting} names it"));
        }
        if !self.named.is_empty() {
            return Err(format!("{setting} names others"));
        }
        let bridge = std::path::Path::new("/sys/class/net").join(name).join("bridge").exists();
        if bridge || CONTAINERS.iter().any(|prefix| name.starts_with(prefix)) {
            return Err("a bridge or tunnel for containers or virtual machines; name it in \
                        BOWLINE_TCP_INTERFACES if it is what you want"
                .to_owned());
        }
        Ok("it is up and not made for containers".to_owned())
    }
}

/// Every network interface with an address, whether an interface opened with `options` listens
/// there, and why (not).
///
/// # Errors
/// When the system does not list its interfaces.
pub fn interfaces(options: &TcpOptions) -> Result<Vec<RouteChoice>, OpenError> {
    Ok(judged(options)?.into_iter().map(|(_, choice)| choice).collect())
}

pub(crate) fn judged(options: &TcpOptions) -> Result<Vec<(Found, RouteChoice)>, OpenError> {
    let wanted = Wanted::parse(&options.interfaces, options.interfaces_setting);
    let all = system()
        .map_err(|source| OpenError::System { act: "list the network interfaces", source })?;
    if let Some(unknown) =
        wanted.named.iter().find(|&&name| all.iter().all(|found| found.name != name))
    {
        return Err(OpenError::System {
            act: "use the network interfaces that are named",
            source: std::io::Error::new(
                std::io::ErrorKind::NotFound,
                format!(
                    "{} has {unknown}, and there is no interface of this name with an address",
                    options.interfaces_setting
                ),
            ),
        });
    }
    let judge = |found: Found| {
        let (chosen, reason) = match wanted.judge(&found) {
            Ok(why) => (true, why),
            Err(why) => (false, why),
        };
        let choice = RouteChoice {
            interface: found.name.clone(),
            local: Some(found.ip),
            remote: None,
            chosen,
            reason,
        };
        (found, choice)
    };
    Ok(all.into_iter().map(judge).collect())
}

/// The routes to a peer, best first, and those that cannot be used.
pub(crate) fn routes(options: &TcpOptions, me: Host, peer: &Address) -> Vec<RouteChoice> {
    routes_and_later(options, me, peer).0
}

/// As [`routes`], and the places to which none of them leads now, but one may in a moment: the link
/// is down, or there is no route.
pub(crate) fn routes_and_later(
    options: &TcpOptions,
    me: Host,
    peer: &Address,
) -> (Vec<RouteChoice>, Vec<SocketAddr>) {
    let mut routes: Vec<(u8, RouteChoice)> = match judged(options) {
        Ok(judged) => {
            peer.places.iter().map(|place| choose_route(&judged, me, peer.host, *place)).collect()
        }
        Err(error) => vec![(
            NEVER,
            RouteChoice {
                interface: String::new(),
                local: None,
                remote: None,
                chosen: false,
                reason: error.to_string(),
            },
        )],
    };
    // The order of the peer's address decides between equals.
    routes.sort_by_key(|(rank, _)| *rank);
    let later = routes.iter().filter(|(rank, _)| *rank == LATER);
    let later = later.filter_map(|(_, choice)| choice.remote).collect();
    (routes.into_iter().map(|(_, choice)| choice).collect(), later)
}

/// Rank of what is no route and will be none.
const NEVER: u8 = u8::MAX;
/// Rank of what is no route now.
const LATER: u8 = NEVER - 1;

/// One route and its rank; a lower one is better.
fn choose_route(
    judged: &[(Found, RouteChoice)],
    me: Host,
    host: Host,
    place: Place,
) -> (u8, RouteChoice) {
    let mut choice = RouteChoice {
        interface: String::new(),
        local: None,
        remote: Some(place.at),
        chosen: false,
        reason: String::new(),
    };
    if place.loopback && host != me {
        choice.reason =
            "loopback of another host, container or network namespace, which leads elsewhere \
             from here"
                .to_owned();
        return (NEVER, choice);
    }
    let local = match kernel_route(place.at) {
        Ok(local) => local,
        Err(error) => {
            choice.reason = format!("the kernel has no route to it: {error}");
            let passes = Errno::from_io_error(&error).is_some_and(socket::may_pass);
            return (if passes { LATER } else { NEVER }, choice);
        }
    };
    choice.local = Some(local);
    // The kernel leads to addresses of its own by loopback, with that address as the source.
    let Some((found, verdict)) = judged.iter().find(|(found, _)| found.ip == local) else {
        choice.reason = "the kernel's route starts at an address of no listed interface".to_owned();
        return (NEVER, choice);
    };
    choice.interface = found.name.clone();
    if !verdict.chosen {
        choice.reason = format!("the kernel's route leads through it, but {}", verdict.reason);
        return (if verdict.reason == DOWN { LATER } else { NEVER }, choice);
    }
    choice.chosen = true;
    let v6 = u8::from(place.at.is_ipv6());
    if place.loopback {
        choice.reason = "loopback: the peer is on this host".to_owned();
        return (v6, choice);
    }
    choice.reason = "the kernel's route to the peer leads through it".to_owned();
    (2 + v6, choice)
}

/// The local address from which the kernel would send to `to`. Nothing is sent.
fn kernel_route(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, ip: &str) -> Found {
        Found { name: name.into(), ip: ip.parse().unwrap(), up: true, loopback: name == "lo" }
    }

    #[test]
    fn bridges_of_containers_are_chosen_only_by_name() {
        let by_itself = Wanted::parse("", "BOWLINE_TCP_INTERFACES");
        assert!(by_itself.judge(&found("eth0", "10.0.0.1")).is_ok());
        for name in ["docker0", "br-1f2e", "virbr0", "cni0", "flannel.1", "cali12"] {
            let reason = by_itself.judge(&found(name, "172.17.0.1")).unwrap_err();
            assert!(reason.contains("container"), "{name}: {reason}");
        }
        assert!(
            Wanted::parse("docker0", "BOWLINE_TCP_INTERFACES")
                .judge(&found("docker0", "172.17.0.1"))
                .is_ok()
        );
    }

    #[test]
    fn lists_name_and_deny() {
        let named = Wanted::parse(" eth1 , ib0", "BOWLINE_TCP_INTERFACES");
        assert!(named.judge(&found("eth1", "10.0.0.1")).is_ok());
        assert!(named.judge(&found("eth0", "10.0.0.1")).is_err());
        assert!(named.judge(&found("lo", "127.0.0.1")).is_ok(), "loopback is always there");
        let denied = Wanted::parse("!eth0,!lo", "BOWLINE_TCP_INTERFACES");
        assert!(denied.judge(&found("eth0", "10.0.0.1")).is_err());
        assert!(denied.judge(&found("lo", "127.0.0.1")).is_err());
        assert!(denied.judge(&found("eth1", "10.0.0.1")).is_ok());
        let down = Found { up: false, ..found("eth0", "10.0.0.1") };
        assert!(
            Wanted::parse("eth0", "BOWLINE_TCP_INTERFACES")
                .judge(&down)
                .unwrap_err()
                .contains("down")
        );
        assert!(
            Wanted::parse("", "BOWLINE_TCP_INTERFACES").judge(&found("eth0", "fe80::1")).is_err()
        );
        assert!(
            Wanted::parse("", "BOWLINE_TCP_INTERFACES")
                .judge(&found("eth0", "169.254.1.1"))
                .is_err()
        );
    }

    #[test]
    fn loopback_is_chosen_on_this_host_only() {
        let options = TcpOptions::with_secret([1; 32]);
        let me = Host::current().unwrap();
        let place = Place { at: "127.0.0.1:9".parse().unwrap(), loopback: true };
        let mut peer = Address { uid: 1, host: me, places: vec![place] };
        let here = routes(&options, me, &peer);
        assert!(here[0].chosen, "{}", here[0]);
        assert_eq!(here[0].interface, "lo");
        peer.host.namespace ^= 1;
        let there = routes(&options, me, &peer);
        assert!(!there[0].chosen);
        assert!(there[0].to_string().contains("namespace"), "{}", there[0]);
    }

    #[test]
    fn unknown_names_are_an_error() {
        let mut options = TcpOptions::with_secret([1; 32]);
        options.interfaces = "eth99".to_owned();
        assert!(interfaces(&options).unwrap_err().to_string().contains("eth99"));
    }
}
