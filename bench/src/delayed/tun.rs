//! TUN devices: a host sends and receives IP packets, and the process that holds the descriptor reads and
//! writes them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Setter, ioctl};

/// `TUNSETIFF` of `linux/if_tun.h`.
const SET_DEVICE: Opcode = 0x4004_54ca;
/// `IFF_TUN | IFF_NO_PI`: IP packets, nothing in front of them.
const PACKETS: u16 = 0x0001 | 0x1000;

/// `struct ifreq` of `linux/if.h`: a name, and a union of which the flags are used.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Makes the device in the network that this thread is in. It goes with the descriptor, which does not
/// block.
pub(super) fn open(name: &str, mtu: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = Request { name: [0; 16], flags: PACKETS, rest: [0; 22] };
    // The last byte stays zero.
    for (to, from) in request.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the operation reads a `struct ifreq` behind its argument, of which `Request` has layout and
    // size, and writes a name of 16 bytes into it at most; rustix hands over a request of its own.
    unsafe { ioctl(&device, Setter::<SET_DEVICE, Request>::new(request)) }?;
    // Packets of a stream wait here while the relay has not been given a processor.
    let command = format!("ip link set {name} mtu {mtu} txqueuelen 10000 addrgenmode none");
    let done = std::process::Command::new("sh").args(["-c", &command]).status()?;
    if done.success() {
        Ok(device)
    } else {
        Err(io::Error::other(format!("this failed: {command}")))
    }
}
