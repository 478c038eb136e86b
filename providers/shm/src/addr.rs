//! The packed address of an interface and who may use it.
//!
//! An address is data: nothing in it is followed before it was compared with what the kernel
//! says (boot id, pid namespace, start time, seals of the descriptor). It holds
//!
//! ```text
//! version u8 | host u64 | pid_ns u64 | net_ns u64 | pid u32 | start_time u64 | uid u32 | instance u64
//! | node u64 | fd u32 | local u32 | probe_at u64 | probe_word u64
//! ```
//!
//! `node` names the node memory and `local` the rank in it, `fd` is the descriptor of that memory
//! in the owner's process (`NO_FD` for memory that only threads share). `probe_at` is where the
//! owner keeps `probe_word`: reading it through the kernel proves both that cross memory attach
//! is permitted and that the pid is the process that wrote the address.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use bowline_uct::{AddrReader, AddrWriter, Truncated, Unreachable, fnv_64};
use rustix::process::Pid;

const VERSION: u8 = 1;
/// In place of a descriptor, for memory without one.
pub(crate) const NO_FD: u32 = u32::MAX;

/// A process as the kernel distinguishes it from every other one of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Hash of the kernel's boot id: the host, and this start of it.
    pub(crate) host: u64,
    /// Inode of the pid namespace.
    pub(crate) pid_ns: u64,
    /// Inode of the network namespace, in which sleepers' sockets have their names.
    pub(crate) net_ns: u64,
    /// Number in the pid namespace.
    pub(crate) pid: u32,
    /// Clock ticks after boot at which it started; distinguishes a recycled pid.
    pub(crate) start_time: u64,
    /// Effective user.
    pub(crate) uid: u32,
}

/// The unpacked address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) process: Process,
    /// Distinguishes interfaces of one process.
    pub(crate) instance: u64,
    pub(crate) node: u64,
    pub(crate) fd: u32,
    pub(crate) local: u32,
    pub(crate) probe_at: u64,
    pub(crate) probe_word: u64,
}

impl Process {
    /// The calling process.
    pub(crate) fn current() -> std::io::Result<Self> {
        let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
        let pid = std::process::id();
        Ok(Self {
            host: fnv_64(&boot),
            pid_ns: fs::metadata("/proc/self/ns/pid")?.ino(),
            net_ns: bowline_base::doorbell::network_namespace()?,
            pid,
            start_time: start_time(pid)?.ok_or_else(|| {
                std::io::Error::other("/proc/self/stat is missing or has an unknown form")
            })?,
            uid: rustix::process::geteuid().as_raw(),
        })
    }

    /// Whether this is the process that calls.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.host == other.host
            && self.pid_ns == other.pid_ns
            && self.pid == other.pid
            && self.start_time == other.start_time
    }

    /// The pid, unless the address carried nonsense.
    pub(crate) fn id(&self) -> Option<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw)
    }

    /// Whether the process has ended, by its pid and start time.
    ///
    /// # Errors
    /// When the kernel does not say, for instance because this process is out of descriptors. That is
    /// no sign of anybody's end.
    pub(crate) fn has_ended(&self) -> std::io::Result<bool> {
        Ok(start_time(self.pid)? != Some(self.start_time))
    }
}

impl Address {
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        w.u8(VERSION).u64(self.process.host).u64(self.process.pid_ns).u64(self.process.net_ns);
        w.u32(self.process.pid);
        w.u64(self.process.start_time).u32(self.process.uid).u64(self.instance).u64(self.node);
        w.u32(self.fd).u32(self.local).u64(self.probe_at).u64(self.probe_word);
        w.finish()
    }

    /// Reads a packed address; bytes behind it belong to a later version and are left alone.
    pub(crate) fn unpack(bytes: &[u8]) -> Result<Self, BadAddress> {
        let mut r = AddrReader::new(bytes);
        let version = r.u8()?;
        if version != VERSION {
            return Err(BadAddress::Version(version));
        }
        Ok(Self {
            process: Process {
                host: r.u64()?,
                pid_ns: r.u64()?,
                net_ns: r.u64()?,
                pid: r.u32()?,
                start_time: r.u64()?,
                uid: r.u32()?,
            },
            instance: r.u64()?,
            node: r.u64()?,
            fd: r.u32()?,
            local: r.u32()?,
            probe_at: r.u64()?,
            probe_word: r.u64()?,
        })
    }

    /// What keeps `me` from sharing memory with the owner of this address, as far as the two
    /// addresses say; the kernel may still refuse.
    pub(crate) fn compare(&self, me: &Self) -> Result<(), Unreachable> {
        if self.process.host != me.process.host {
            return Err(Unreachable::because(
                "the peer is on another host, or this host was restarted since its address was made",
            ));
        }
        if self.process.net_ns != me.process.net_ns {
            return Err(Unreachable::because(format!(
                "the peer is in another network namespace (net:[{}], here net:[{}]), where neither \
                 could wake the other; let the containers share it",
                self.process.net_ns, me.process.net_ns
            )));
        }
        if self.node == me.node {
            // The memory is mapped here already: pids and permissions do not matter.
            return Ok(());
        }
        if self.process.pid_ns != me.process.pid_ns {
            return Err(Unreachable::because(format!(
                "the peer is in another pid namespace (pid:[{}], here pid:[{}]), where its \
                 descriptors have no name; start both under one launcher or share the namespace",
                self.process.pid_ns, me.process.pid_ns
            )));
        }
        if self.fd == NO_FD && !self.process.is(&me.process) {
            return Err(Unreachable::because(
                "the peer is a thread rank: its memory is private to its process",
            ));
        }
        if me.fd == NO_FD && !self.process.is(&me.process) {
            return Err(Unreachable::because(
                "this is a thread rank: the peer could not open the memory to answer",
            ));
        }
        // What the kernel does not say now is found by what comes next.
        if self.process.has_ended().is_ok_and(|ended| ended) {
            return Err(Unreachable::because(format!(
                "the peer's process {} has ended",
                self.process.pid
            )));
        }
        Ok(())
    }
}

/// Why bytes are no address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAddress {
    #[error(transparent)]
    Truncated(#[from] Truncated),
    #[error("it has format {0}, this version knows format {VERSION}")]
    Version(u8),
}

/// Start time of `pid` in clock ticks since boot, field 22 of `/proc/PID/stat`; `None` when the
/// process is gone.
///
/// # Errors
/// When the file cannot be read although it may be there.
pub(crate) fn start_time(pid: u32) -> std::io::Result<Option<u64>> {
    let mut text = [0u8; 1024];
    let read = fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut f| f.read(&mut text));
    match read {
        Ok(n) => Ok(start_time_in(&text[..n])),
        // ESRCH: it ended between the two calls.
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The start time in the text of a `stat` file, unless the process has ended.
fn start_time_in(text: &[u8]) -> Option<u64> {
    // The second field is the command in parentheses and may hold anything, also parentheses.
    let end = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    // Behind the command come field 3 (state) and the rest; a zombie has ended for our purposes.
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> Address {
        Address {
            process: Process::current().unwrap(),
            instance: 7,
            node: 11,
            fd: 3,
            local: 2,
            probe_at: 4096,
            probe_word: 99,
        }
    }

    #[test]
    fn addresses_come_back_and_every_cut_is_refused() {
        let address = mine();
        let packed = address.pack();
        assert_eq!(Address::unpack(&packed), Ok(address));
        for cut in 0..packed.len() {
            assert!(Address::unpack(&packed[..cut]).is_err(), "cut at {cut}");
        }
        let mut other = packed;
        other[0] = 2;
        assert_eq!(Address::unpack(&other), Err(BadAddress::Version(2)));
    }

    #[test]
    fn the_reason_names_what_differs() {
        let me = mine();
        let reason = |change: fn(&mut Address)| {
            let mut peer = mine();
            peer.node += 1;
            change(&mut peer);
            peer.compare(&me).map_err(|e| e.reason).err().unwrap_or_default()
        };
        assert_eq!(reason(|_| ()), "");
        assert!(reason(|p| p.process.host ^= 1).contains("another host"));
        assert!(reason(|p| p.process.pid_ns += 1).contains("pid namespace"));
        assert!(reason(|p| p.process.net_ns += 1).contains("network namespace"));
        assert!(reason(|p| p.process.start_time += 1).contains("has ended"));
        assert!(
            reason(|p| {
                p.fd = NO_FD;
                p.process.pid = 1;
            })
            .contains("thread rank")
        );
        // Members of one memory need neither the namespace nor the pid.
        let mut peer = me;
        peer.process.pid_ns += 1;
        assert_eq!(peer.compare(&me), Ok(()));
    }

    #[test]
    fn start_times_distinguish_processes() {
        let me = start_time(std::process::id()).unwrap().unwrap();
        assert!(start_time(1).unwrap().unwrap() < me);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(start_time(pid).unwrap(), None);
    }
}
