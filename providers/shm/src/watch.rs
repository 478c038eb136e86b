//! A thread per process of peers that no launcher watches: it sleeps until the peer's process ends and then
//! calls the interface's attention, asleep or not.
//!
//! Ranks of one node memory need none, since their launcher marks the dead and wakes everybody.
//! A pidfd could be polled instead, but not by a rank that sleeps on a futex, and not without a
//! system call in `progress`. The threads block all signals, so that no handler of the program
//! runs on them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use bowline_base::doorbell::Doorbell;
use bowline_base::helper_thread::without_signals;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::addr::Process;
use crate::area::Area;

/// The watching threads of an interface; dropping it ends them.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Readable when the threads are to end. Made with the first thread.
    end: Option<Arc<OwnedFd>>,
    /// Each with the process that it watches: a peer that could not be connected to is tried anew, and
    /// a process may have many workers.
    threads: Vec<(Process, JoinHandle<()>)>,
    /// The process that has the threads; a forked child has only this value.
    pid: u32,
}

impl Watch {
    /// Calls the attention of `area`'s owner, whose doorbell is `bell`, when `process`, the one behind
    /// `pidfd`, ends.
    pub(crate) fn begin(
        &mut self,
        process: &Process,
        pidfd: BorrowedFd<'_>,
        area: &Area,
        bell: &Doorbell,
    ) -> io::Result<()> {
        // Those that have seen their process end are done.
        self.threads.retain(|(_, thread)| !thread.is_finished());
        if self.threads.iter().any(|(watched, _)| watched == process) {
            return Ok(());
        }
        let end = match &self.end {
            Some(end) => Arc::clone(end),
            None => {
                let made = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
                self.pid = std::process::id();
                Arc::clone(self.end.insert(made))
            }
        };
        let (pidfd, area, bell) = (pidfd.try_clone_to_owned()?, area.clone(), bell.clone());
        let body = move || {
            if ends_first(pidfd.as_fd(), end.as_fd()) {
                area.bump_attention();
                bell.ring();
            }
        };
        let builder = std::thread::Builder::new().name("bowline-watch".to_owned());
        let thread = without_signals(|| builder.stack_size(64 << 10).spawn(body))?;
        self.threads.push((*process, thread));
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // Ending or joining them from a child would end the parent's.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        if let Some(end) = &self.end
            && let Err(error) = rustix::io::write(end, &1u64.to_ne_bytes())
        {
            // The threads then end with their processes; they hold what they use.
            tracing::warn!(%error, "cannot end the threads that watch foreign processes");
            return;
        }
        for (_, thread) in self.threads.drain(..) {
            // It does nothing that panics, and a panic there is no reason for one here.
            let _ = thread.join();
        }
    }
}

/// Sleeps until the process ends (true) or `end` is readable (false).
fn ends_first(pidfd: BorrowedFd<'_>, end: BorrowedFd<'_>) -> bool {
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() => return false,
            Ok(_) if !fds[0].revents().is_empty() => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot watch a foreign process");
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign;
    use crate::options::ShmOptions;
    use bowline_base::job::{JobMemory, JobSpec};

    /// A peer that has no entry free refuses each attempt to connect to it; the attempts must not leave
    /// a thread and a descriptor each.
    #[test]
    fn a_process_is_watched_once() {
        let area_bytes = ShmOptions::default().area_bytes();
        let spec = JobSpec { job_id: 1, ranks: 1, first_rank: 0, area_bytes };
        let job = JobMemory::create_private(&spec).expect("one rank fits");
        job.attach(0).expect("nobody else is there");
        let bell = Doorbell::of_job(&job, 0).expect("rank 0 has one");
        let iface = crate::ShmIface::open(job.clone(), 0, ShmOptions::default());
        let _iface = iface.expect("the memory is there");
        let area = Area::join(&job, 0).expect("it was laid out");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let mut process = Process::current().expect("this process runs");
        process.pid = child.id();
        process.start_time =
            crate::addr::start_time(child.id()).expect("readable").expect("it runs");
        let pidfd = foreign::watch(&process).expect("the child runs");
        let mut watch = Watch::default();
        for _ in 0..5 {
            watch.begin(&process, pidfd.as_fd(), &area, &bell).expect("a thread starts");
        }
        assert_eq!(watch.threads.len(), 1);
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        while !watch.threads[0].1.is_finished() {
            std::thread::yield_now();
        }
        // Another process takes the place of one that has ended.
        let me = Process::current().expect("this process runs");
        let pidfd = foreign::watch(&me).expect("this process runs");
        watch.begin(&me, pidfd.as_fd(), &area, &bell).expect("a thread starts");
        assert_eq!(watch.threads.len(), 1);
    }
}
