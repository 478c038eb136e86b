//! One end of the stream between a launcher and an agent: whole frames in and out, without
//! waiting, and the time since the other side was heard.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::wire::{Frame, WireError, next_frame};

/// Bytes that may wait to be sent before the other side counts as gone: what a barrier of a large
/// job exchanges passes here, a side that reads nothing does not.
const UNSENT_MAX: usize = 512 << 20;

/// A pair of descriptors that do not block.
#[derive(Debug)]
pub(crate) struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    received: Vec<u8>,
    /// Bytes of `received` that were read as frames.
    used: usize,
    /// Never empty ones; each is sent before the next.
    unsent: VecDeque<Frames>,
    unsent_bytes: usize,
    /// Bytes of the first of `unsent` that were sent.
    sent: usize,
    heard: Instant,
    spoke: Instant,
    silence: Duration,
    patient: bool,
}

/// Whole frames that wait to be sent.
#[derive(Debug)]
enum Frames {
    Own(Vec<u8>),
    /// The same for several channels.
    Shared(Arc<[u8]>),
}

impl Frames {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A time that does not come.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Why a channel is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The other side has closed it.
    #[error("the connection was closed")]
    Closed,
    /// It does not say anything.
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    /// It does not take anything.
    #[error("it takes nothing that is sent")]
    Full,
    /// The system.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// Bytes that are no messages.
    #[error("it sent {0}")]
    Wire(#[from] WireError),
    /// A message at the wrong time.
    #[error("it sent {0}")]
    Unexpected(&'static str),
}

impl Channel {
    /// `silence` is the time without a message after which the other side counts as gone.
    pub(crate) fn new(input: OwnedFd, output: OwnedFd, silence: Duration) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let now = Instant::now();
        Ok(Self {
            input,
            output,
            received: Vec::new(),
            used: 0,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            sent: 0,
            heard: now,
            spoke: now,
            silence,
            patient: false,
        })
    }

    pub(crate) fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// What to wait for.
    pub(crate) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.input, PollFlags::IN));
        if !self.unsent.is_empty() {
            fds.push(PollFd::new(&self.output, PollFlags::OUT));
        }
    }

    /// Queues a frame, which `encode` appends.
    pub(crate) fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if !matches!(self.unsent.back(), Some(Frames::Own(_))) {
            self.unsent.push_back(Frames::Own(Vec::new()));
        }
        if let Some(Frames::Own(bytes)) = self.unsent.back_mut() {
            let before = bytes.len();
            encode(bytes);
            self.unsent_bytes += bytes.len() - before;
        }
    }

    /// Queues frames that other channels send, too.
    pub(crate) fn send_shared(&mut self, frames: &Arc<[u8]>) {
        if !frames.is_empty() {
            self.unsent_bytes += frames.len();
            self.unsent.push_back(Frames::Shared(Arc::clone(frames)));
        }
    }

    /// Writes what the other side takes now.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        while let Some(frames) = self.unsent.front() {
            let bytes = frames.bytes();
            match rustix::io::write(&self.output, &bytes[self.sent..]) {
                Ok(n) => {
                    self.sent += n;
                    self.unsent_bytes -= n;
                    self.spoke = Instant::now();
                    if self.sent == bytes.len() {
                        self.sent = 0;
                        self.unsent.pop_front();
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.unsent_bytes > UNSENT_MAX => return Err(Broken::Full),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Broken::Closed),
                Err(error) => return Err(Broken::Io(error.into())),
            }
        }
        Ok(())
    }

    /// Whether everything was written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Reads what is there, a bounded part of it at once. The end of the stream is an error only
    /// when nothing came before it.
    pub(crate) fn fill(&mut self) -> Result<(), Broken> {
        if self.used > 0 {
            self.received.drain(..self.used);
            self.used = 0;
        }
        let mut space = [0; 16 << 10];
        for _ in 0..16 {
            match rustix::io::read(&self.input, &mut space) {
                Ok(0) if self.received.is_empty() => return Err(Broken::Closed),
                // What came before the end is read first; the next call reports the end.
                Ok(0) => return if self.has_frame() { Ok(()) } else { Err(Broken::Closed) },
                Ok(n) => {
                    self.received.extend_from_slice(&space[..n]);
                    self.heard = Instant::now();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::CONNRESET | Errno::IO) => return Err(Broken::Closed),
                Err(error) => return Err(Broken::Io(error.into())),
            }
        }
        Ok(())
    }

    fn has_frame(&self) -> bool {
        !matches!(next_frame(&self.received[self.used..]), Ok(None))
    }

    /// The next whole frame, decoded.
    pub(crate) fn next<M>(
        &mut self,
        decode: impl FnOnce(u8, &[u8]) -> Result<M, WireError>,
    ) -> Result<Option<M>, Broken> {
        match next_frame(&self.received[self.used..])? {
            None => Ok(None),
            Some(Frame { kind, body, length }) => {
                let message = decode(kind, body)?;
                self.used += length;
                Ok(Some(message))
            }
        }
    }

    /// The start of what was received and not understood, for an error's text.
    pub(crate) fn excerpt(&self) -> String {
        let rest = &self.received[self.used..];
        String::from_utf8_lossy(&rest[..rest.len().min(80)]).into_owned()
    }

    /// When to read the clock again: to speak, or because the other side is silent.
    pub(crate) fn next_poll(&self) -> Instant {
        let silent = self.heard + if self.patient { FOREVER } else { self.silence };
        match self.unsent.is_empty() {
            true => silent.min(self.spoke + self.silence / 4),
            false => silent,
        }
    }

    /// Whether it is time to say that this side lives.
    pub(crate) fn should_speak(&self, now: Instant) -> bool {
        // What waits to be sent will say it.
        self.unsent.is_empty() && now >= self.spoke + self.silence / 4
    }

    /// An error when the other side has been silent for too long.
    pub(crate) fn check_silence(&self, now: Instant) -> Result<(), Broken> {
        match !self.patient && now.saturating_duration_since(self.heard) >= self.silence {
            true => Err(Broken::Silent(self.silence)),
            false => Ok(()),
        }
    }

    /// Whether silence means nothing for now: the other side has announced it.
    pub(crate) fn be_patient(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// Begins the time of silence anew: this side could not listen.
    pub(crate) fn forgive(&mut self) {
        self.heard = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::ToAgent;

    #[test]
    fn own_and_shared_frames_keep_their_order() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (other, _unused) = rustix::pipe::pipe().unwrap();
        let mut channel = Channel::new(other, writer, FOREVER).unwrap();
        let mut shared = Vec::new();
        for key in 0..3000_u32 {
            let (key, value) = (key.to_le_bytes().to_vec(), vec![7; 100]);
            ToAgent::Put { key, value }.encode(&mut shared);
        }
        let shared: Arc<[u8]> = shared.into();
        let mut expected = Vec::new();
        for _ in 0..3 {
            channel.send(|out| ToAgent::Alive.encode(out));
            channel.send(|out| ToAgent::BarrierOut.encode(out));
            channel.send_shared(&shared);
            ToAgent::Alive.encode(&mut expected);
            ToAgent::BarrierOut.encode(&mut expected);
            expected.extend_from_slice(&shared);
        }
        assert_eq!(Arc::strong_count(&shared), 4, "none was copied");
        assert_eq!(channel.unsent_bytes, expected.len());
        let mut read = Vec::new();
        let mut space = vec![0; 5000];
        while !channel.is_flushed() {
            channel.flush().unwrap();
            let n = rustix::io::read(&reader, &mut space[..]).unwrap();
            read.extend_from_slice(&space[..n]);
        }
        drop(channel);
        while let Ok(n @ 1..) = rustix::io::read(&reader, &mut space[..]) {
            read.extend_from_slice(&space[..n]);
        }
        assert_eq!(read, expected);
    }
}
