//! Endpoints: finding a peer's memory, joining its senders, and asking the kernel what it allows.
//!
//! A peer of the same node memory is there already. The memory of a peer from another one is
//! opened by its descriptor ([`crate::foreign`]), and this rank takes an entry of the peer's guest
//! table, which gives it a number as a sender and a place for its intent word.

use std::io;
use std::os::fd::AsFd;

use bowline_base::doorbell::Doorbell;
use bowline_base::job::{JobError, JobMemory};
use bowline_base::region::RegionError;
use bowline_base::ring::promote::Sending;
use bowline_base::scmp::seq;
use bowline_base::sync::atomic::{Ordering, fence};
use bowline_uct::{EpId, OpenError, PeerFailure, Source, Unreachable};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::addr::{Address, NO_FD};
use crate::area::Area;
use crate::cma;
use crate::endpoint::{Cma, Condition, Endpoint, Intent, Membership};
use crate::foreign::{self, Foreign};
use crate::iface::ShmIface;
use crate::layout::{GuestEntry, guest};
use crate::lent::Lent;

impl ShmIface {
    pub(crate) fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        let address = Address::unpack(address).map_err(|e| Unreachable::because(e.to_string()))?;
        address.compare(&self.me)?;
        if address.node != self.me.node
            && !self.nodes.iter().any(|n| n.job.node_id() == address.node)
        {
            // The descriptor is closed again; connecting opens it to stay.
            foreign::take(&self.me.process, &address.process, address.fd).map(drop).map_err(
                |error| {
                    Unreachable::because(foreign::refusal("the memory", &address.process, &error))
                },
            )?;
        }
        Ok(())
    }

    pub(crate) fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let address = Address::unpack(address).map_err(|e| OpenError::BadAddress(e.to_string()))?;
        let known =
            self.eps.iter().position(|e| e.leads_to(address.node, address.local, address.instance));
        if let Some(index) = known {
            let e = &mut self.eps[index];
            if let Condition::Failed(how) | Condition::Over(how) = e.condition {
                return Err(
                    Unreachable::because(format!("an earlier connection failed: {how}")).into()
                );
            }
            e.wake();
            return Ok(EpId(index as u32));
        }
        address.compare(&self.me)?;
        let job = self.node_of(&address)?;
        let area = Area::join(&job, address.local)?;
        let identity = job.control(address.local).and_then(|control| control.identity());
        if identity.is_none_or(|identity| identity.instance != address.instance) {
            return Err(Unreachable::because(
                "the peer's address is older than the rank that runs in its place",
            )
            .into());
        }
        let (mine, its) = (self.area.parameters().max_bcopy, area.parameters().max_bcopy);
        if its < mine {
            return Err(Unreachable::because(format!(
                "the peer takes packed messages of {its} bytes, this rank sends up to {mine}; \
                 start both with one BOWLINE_SHM_MAX_BCOPY"
            ))
            .into());
        }
        if job.is_dead(address.local) {
            let how = if area.is_closed() { PeerFailure::Closed } else { PeerFailure::Died };
            return Err(OpenError::PeerFailed(how));
        }
        // Everything that can fail comes before the entry of a guest is taken, so that none is lost.
        let bell = Doorbell::of_job(&job, address.local)
            .ok_or_else(|| OpenError::BadAddress("there is no such rank".to_owned()))?;
        let pidfd = if address.node == self.me.node {
            None
        } else {
            Some(foreign::watch(&address.process).map_err(|error| {
                Unreachable::because(foreign::refusal("a watch", &address.process, &error))
            })?)
        };
        if let Some(pidfd) = &pidfd {
            let process = &address.process;
            self.watch.begin(process, pidfd.as_fd(), &self.area, &self.bell).map_err(|source| {
                OpenError::System { act: "start a thread that watches the peer's process", source }
            })?;
        }
        let cma = self.permission(&address)?;
        let (membership, source, intent) = self.join(&area)?;
        let queue = match seq::attach(area.scmp_words(), address.local as u16, source as u16) {
            Ok(queue) => queue,
            Err(error) => {
                membership.leave(&area);
                return Err(OpenError::BadAddress(error.to_string()));
            }
        };
        self.serial += 1;
        let endpoint = Endpoint {
            sending: Sending::Queue,
            stash: Sending::Queue,
            bell,
            condition: Condition::Open,
            serial: self.serial,
            by_queue: 0,
            refused_len: 0,
            refused_at: None,
            queue,
            intent,
            source,
            membership,
            cma,
            lent: (cma == Cma::Here).then(|| Lent::of(address.instance)).flatten(),
            refuse_after: self.options.refuse_cma_after,
            pidfd,
            lost: None,
            process: address.process,
            instance: address.instance,
            node: address.node,
            area,
        };
        if membership == Membership::Member {
            endpoint.area.known().set(self.me.local, true);
            // SeqCst: pairs with the fence in the drop of the peer's interface, rule 1 of `Senders`.
            fence(Ordering::SeqCst);
            if endpoint.is_closed() {
                return Err(OpenError::PeerFailed(PeerFailure::Closed));
            }
            if endpoint.area.refused().has(source) {
                return Err(Unreachable::because(
                    "the peer has found damaged words of this rank's, or of all, in its memory",
                )
                .into());
            }
        }
        let vacant = self.eps.iter().position(|e| e.condition == Condition::Vacant);
        let index = match vacant {
            Some(index) => {
                self.eps[index] = endpoint;
                index as u32
            }
            None => {
                self.eps.push(endpoint);
                self.process_rkeys.push(None);
                // So that nothing is allocated where space is asked for.
                self.wants.reserve(self.eps.len());
                self.eps.len() as u32 - 1
            }
        };
        if membership != Membership::Member {
            let e = &self.eps[index as usize];
            e.area.bump_attention();
            e.bell.ring();
        }
        Ok(EpId(index))
    }

    /// The number under which messages of the interface at `address` arrive.
    pub(crate) fn source_at(&self, address: &Address) -> Option<Source> {
        if address.node == self.me.node {
            return (address.local < self.ranks()).then_some(Source(address.local));
        }
        let index = self.guests.iter().position(|guest| {
            guest.as_ref().is_some_and(|guest| {
                (guest.node, guest.local, guest.instance)
                    == (address.node, address.local, address.instance)
            })
        })?;
        Some(Source(self.ranks() + index as u32))
    }

    fn node_of(&mut self, address: &Address) -> Result<JobMemory, OpenError> {
        if address.node == self.me.node {
            return Ok(self.area.job().clone());
        }
        let opened = self.open_node(address);
        opened.map_err(|error| {
            Unreachable::because(foreign::refusal("the memory", &address.process, &error)).into()
        })
    }

    /// Opens another node memory, or finds it among those that are open.
    pub(crate) fn open_node(&mut self, address: &Address) -> io::Result<JobMemory> {
        if let Some(known) = self.nodes.iter().find(|n| n.job.node_id() == address.node) {
            return Ok(known.job.clone());
        }
        let fd = foreign::take(&self.me.process, &address.process, address.fd)?;
        let job = JobMemory::open(fd).map_err(|error| match error {
            // As the system said it: it may be a shortage that passes.
            JobError::Region(RegionError::System { source, .. }) => source,
            other => io::Error::other(other),
        })?;
        if job.node_id() != address.node {
            let text = "the descriptor in its address names another memory: the address is old";
            return Err(io::Error::other(text));
        }
        self.nodes.push(Foreign { job: job.clone() });
        Ok(job)
    }

    /// What the kernel allows with the peer's memory.
    fn permission(&self, address: &Address) -> Result<Cma, OpenError> {
        if self.options.cma == Some(false) {
            return Ok(Cma::Refused);
        }
        if address.process.is(&self.me.process) && self.me.fd == NO_FD && address.fd == NO_FD {
            return Ok(Cma::Here);
        }
        let same_namespace = address.process.pid_ns == self.me.process.pid_ns;
        let probed = match address.process.id() {
            Some(pid) if same_namespace => {
                cma::probe(pid, address.probe_at, address.probe_word).map(|ours| (ours, pid))
            }
            _ => Err(cma::Reason::Refused),
        };
        match probed {
            Ok((true, pid)) => Ok(Cma::Allowed(pid)),
            // A pid that holds something else at that address is not the peer's.
            Ok((false, _)) | Err(_) if self.options.cma == Some(true) => {
                Err(Unreachable::because(format!(
                    "BOWLINE_SHM_CMA=yes, but the kernel does not open the memory of process {} \
                     to this one (ptrace policy, seccomp profile or another pid namespace); set \
                     it to auto to copy through shared memory instead",
                    address.process.pid
                ))
                .into())
            }
            Ok((false, _)) | Err(_) => {
                tracing::debug!(
                    pid = address.process.pid,
                    ?probed,
                    "no cross memory attach to this peer; large messages are copied"
                );
                Ok(Cma::Refused)
            }
        }
    }

    /// How we are a sender there, our number and our intent word in the queues of `area`.
    fn join(&self, area: &Area) -> Result<(Membership, u32, Intent), OpenError> {
        if area.job().node_id() == self.me.node {
            let control = self.control();
            // SAFETY: the word lies in the control blocks of our own node memory, which the
            // endpoint's area, a member's, keeps mapped.
            let intent = unsafe { Intent::new(&control.intent) };
            return Ok((Membership::Member, self.me.local, intent));
        }
        for index in 0..area.parameters().guests {
            let Some(entry) = area.guest(index) else { break };
            if self.claim(entry) {
                self.fill_in(entry);
                // SAFETY: the word lies in the peer's area, which the endpoint keeps mapped.
                let intent = unsafe { Intent::new(&entry.intent) };
                return Ok((Membership::Guest(index), area.job().ranks() + index, intent));
            }
        }
        Err(OpenError::Limit(format!(
            "all {} guest places of the peer are taken; start it with a larger BOWLINE_SHM_GUESTS",
            area.parameters().guests
        )))
    }

    /// Claims an entry that is free, or was left half filled in by a process that has ended.
    fn claim(&self, entry: &GuestEntry) -> bool {
        // Relaxed: the exchange below decides.
        let found = entry.state.load(Ordering::Relaxed);
        let left = |pid| {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            // A process that waits to be reaped still has its number, so the entry stays for as long.
            pid.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
        };
        if found != guest::FREE && !guest::claimer(found).is_some_and(left) {
            return false;
        }
        let mine = guest::claimed_by(self.me.process.pid);
        // AcqRel: pairs with the Release with which the host frees an entry.
        entry.state.compare_exchange(found, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn fill_in(&self, entry: &GuestEntry) {
        let process = &self.me.process;
        // Relaxed: published by the state.
        entry.pid.store(process.pid, Ordering::Relaxed);
        entry.start_time.store(process.start_time, Ordering::Relaxed);
        entry.uid.store(process.uid, Ordering::Relaxed);
        entry.instance.store(self.me.instance, Ordering::Relaxed);
        entry.node.store(self.me.node, Ordering::Relaxed);
        entry.fd.store(self.me.fd, Ordering::Relaxed);
        entry.local.store(self.me.local, Ordering::Relaxed);
        entry.intent.store(0, Ordering::Relaxed);
        entry.waiting.store(0, Ordering::Relaxed);
        // Release pairs with the Acquire in `slow_path::check_guests`: publishes the identity.
        entry.state.store(guest::JOINED, Ordering::Release);
    }

    /// Whether the peer of `ep` is alive, asked of what knows it now.
    pub(crate) fn check(&mut self, ep: EpId) -> Result<(), bowline_uct::PostError> {
        let e = self.eps.get(ep.0 as usize).ok_or(bowline_uct::PostError::BadEndpoint)?;
        if let Some(error) = e.refusal() {
            return Err(error);
        }
        let (job, local) = (e.area.job().clone(), e.area.local());
        let ended = match &e.pidfd {
            Some(pidfd) => cma::process_ended(pidfd.as_fd()),
            // The pid has a meaning here only in the same namespace; that the kernel does not say
            // is no sign of an end.
            None => {
                e.process.pid_ns == self.me.process.pid_ns
                    && e.process.has_ended().is_ok_and(|ended| ended)
            }
        };
        let dead = job.is_dead(local);
        // Read last: it may have closed and ended since the call began.
        if e.is_closed() {
            self.peer_closed(ep);
            return Err(bowline_uct::PostError::PeerFailed);
        }
        if ended {
            // The whole node is notified: nothing else reports a rank that Bowline did not launch.
            job.mark_dead(local);
        }
        if ended || dead {
            self.peer_died(ep);
            return Err(bowline_uct::PostError::PeerFailed);
        }
        Ok(())
    }
}
