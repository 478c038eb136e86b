//! The rank's side of PMI-1, on an inherited descriptor; and values of any length on top of it.
//!
//! A value of PMI-1 is a short text. [`Client::put_bytes`] writes bytes as hexadecimal digits in
//! as many pieces as the manager's limit asks for, under keys derived from the one that is given.
//! Requests wait for their reply without a time limit: the manager's end closes the connection.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SendFlags;

use super::wire::{Fields, KEY_MAX, ParseError, take_line};

/// Why a request to the process manager failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PmiError {
    /// The connection.
    #[error("cannot talk to the process manager: {0}")]
    Io(#[from] io::Error),
    /// The manager has gone.
    #[error("the process manager has closed the connection: it has ended the job or died")]
    Closed,
    /// A reply that is not one.
    #[error("the process manager answered {asked:?} with {got:?}")]
    Unexpected {
        /// The request.
        asked: &'static str,
        /// The reply's beginning.
        got: String,
    },
    /// A damaged line.
    #[error("the process manager sent {0}")]
    Damaged(#[from] ParseError),
    /// The manager said no.
    #[error("the process manager refused {asked:?} of {what:?}: {why}")]
    Refused {
        /// The request.
        asked: &'static str,
        /// Its key, if it has one.
        what: String,
        /// The manager's word.
        why: String,
    },
    /// A key or value that cannot be sent.
    #[error("cannot publish under key {0:?}: {1}")]
    Argument(String, &'static str),
}

bowline_base::debug_by_display!(PmiError);

/// A connection to the process manager.
#[derive(Debug)]
pub struct Client {
    stream: File,
    received: Vec<u8>,
    kvsname: String,
    key_max: usize,
    value_max: usize,
}

impl Client {
    /// Greets the manager on `fd` and asks for the limits and the key-value space.
    ///
    /// # Errors
    /// When there is no PMI-1 manager of version 1 at the other end.
    pub fn connect(fd: OwnedFd) -> Result<Self, PmiError> {
        let mut client = Self {
            stream: File::from(fd),
            received: Vec::new(),
            kvsname: String::new(),
            key_max: 0,
            value_max: 0,
        };
        let init = "cmd=init pmi_version=1 pmi_subversion=1";
        client.ask("init", init, "response_to_init", "", |_| Some(()))?;
        let number = |fields: Fields<'_>, name| fields.number::<usize>(name)?.ok();
        let (key_max, value_max) =
            client.ask("get_maxes", "cmd=get_maxes", "maxes", "", |fields| {
                Some((number(fields, "keylen_max")?, number(fields, "vallen_max")?))
            })?;
        client.key_max = key_max.min(KEY_MAX);
        client.value_max = value_max;
        client.kvsname =
            client.ask("get_my_kvsname", "cmd=get_my_kvsname", "my_kvsname", "", |fields| {
                Some(String::from_utf8_lossy(fields.get("kvsname")?).into_owned())
            })?;
        Ok(client)
    }

    /// Sends a request and reads what `extract` finds in the reply `reply`.
    fn ask<T>(
        &mut self,
        asked: &'static str,
        line: &str,
        reply: &str,
        what: &str,
        extract: impl FnOnce(Fields<'_>) -> Option<T>,
    ) -> Result<T, PmiError> {
        self.send(format!("{line}\n").as_bytes())?;
        let line = self.read_line()?;
        let fields = Fields::of(&line)?;
        let unexpected = || {
            let got = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
            PmiError::Unexpected { asked, got }
        };
        if fields.get("cmd") != Some(reply.as_bytes()) {
            return Err(unexpected());
        }
        // Older managers leave `rc` out where nothing can fail.
        if fields.get("rc").is_some_and(|rc| rc != b"0") {
            let why = String::from_utf8_lossy(fields.get("msg").unwrap_or(b"no reason given"));
            return Err(PmiError::Refused { asked, what: what.into(), why: why.into_owned() });
        }
        extract(fields).ok_or_else(unexpected)
    }

    /// Writes all of `bytes`. A manager that has gone must be an error here, also in programs
    /// that did not ask for SIGPIPE to be ignored.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), PmiError> {
        while !bytes.is_empty() {
            match rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(PmiError::Closed),
                // A manager that passes a pipe or a terminal.
                Err(Errno::NOTSOCK) => return Ok(self.stream.write_all(bytes)?),
                Err(e) => return Err(PmiError::Io(e.into())),
            }
        }
        Ok(())
    }

    fn read_line(&mut self) -> Result<Vec<u8>, PmiError> {
        loop {
            if let Some(line) = take_line(&mut self.received)? {
                return Ok(line);
            }
            let mut bytes = [0; 2048];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(PmiError::Closed),
                Ok(n) => self.received.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(PmiError::Closed);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The name of the job's key-value space.
    pub fn kvsname(&self) -> &str {
        &self.kvsname
    }

    /// Publishes a short text without blanks.
    ///
    /// # Errors
    /// When the manager refuses it (the key exists, the limits are exceeded) or is gone.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        self.check_key(key)?;
        if value.len() > self.value_max || !value.bytes().all(|b| b.is_ascii_graphic()) {
            let why = "the value is too long for the process manager or has blanks";
            return Err(PmiError::Argument(key.into(), why));
        }
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.kvsname);
        self.ask("put", &line, "put_result", key, |_| Some(()))
    }

    /// The text under a key. What others have put is sure to be there after a barrier only.
    ///
    /// # Errors
    /// When there is no such key, or the manager is gone.
    pub fn get(&mut self, key: &str) -> Result<String, PmiError> {
        self.check_key(key)?;
        let line = format!("cmd=get kvsname={} key={key}", self.kvsname);
        self.ask("get", &line, "get_result", key, |fields| {
            Some(String::from_utf8_lossy(fields.get("value")?).into_owned())
        })
    }

    fn check_key(&self, key: &str) -> Result<(), PmiError> {
        if key.is_empty() || key.len() > self.key_max || !key.bytes().all(|b| b.is_ascii_graphic())
        {
            let why = "the key is empty, too long for the process manager, or has blanks";
            return Err(PmiError::Argument(key.into(), why));
        }
        Ok(())
    }

    /// Publishes bytes of any length.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_bytes(&mut self, key: &str, bytes: &[u8]) -> Result<(), PmiError> {
        // Slurm reads requests of 1024 bytes, whatever it says of values.
        let around = "cmd=put kvsname= key= value=\n".len() + self.kvsname.len() + self.key_max;
        let value_max = self.value_max.min(REQUEST_MAX.saturating_sub(around));
        let space = value_max.saturating_sub(HEAD) / 2;
        if space == 0 {
            return Err(PmiError::Argument(key.into(), "the manager's values are too short"));
        }
        let mut pieces = bytes.chunks(space);
        self.put(key, &first_piece(bytes, pieces.next().unwrap_or_default()))?;
        for (number, piece) in pieces.enumerate() {
            self.put(&piece_key(key, number + 1), &hex(piece))?;
        }
        Ok(())
    }

    /// The bytes under a key that [`put_bytes`](Self::put_bytes) wrote.
    ///
    /// # Errors
    /// As [`get`](Self::get), and when the value was not written so.
    pub fn get_bytes(&mut self, key: &str) -> Result<Vec<u8>, PmiError> {
        let damaged =
            |got: &str| PmiError::Unexpected { asked: "get", got: got.chars().take(120).collect() };
        let head = self.get(key)?;
        let (len, first) = head.split_once(':').ok_or_else(|| damaged(&head))?;
        let len: usize = len.parse().map_err(|_| damaged(&head))?;
        let mut bytes = unhex(first).ok_or_else(|| damaged(&head))?;
        let mut number = 1;
        while bytes.len() < len {
            let text = self.get(&piece_key(key, number))?;
            let piece = unhex(&text).filter(|p| !p.is_empty()).ok_or_else(|| damaged(&text))?;
            bytes.extend_from_slice(&piece);
            number += 1;
        }
        if bytes.len() == len { Ok(bytes) } else { Err(damaged(&head)) }
    }

    /// Waits until every rank of the job has called it; what was put before is visible after.
    ///
    /// # Errors
    /// When the manager is gone.
    pub fn barrier(&mut self) -> Result<(), PmiError> {
        self.ask("barrier_in", "cmd=barrier_in", "barrier_out", "", |_| Some(()))
    }

    /// The number of this rank's program among those that were started together.
    ///
    /// # Errors
    /// When the manager does not say, or is gone.
    pub fn app_number(&mut self) -> Result<i32, PmiError> {
        self.ask("get_appnum", "cmd=get_appnum", "appnum", "", |fields| {
            fields.number("appnum")?.ok()
        })
    }

    /// How many ranks the manager could run for the job, its own included.
    ///
    /// # Errors
    /// When the manager does not say, or is gone.
    pub fn universe_size(&mut self) -> Result<i32, PmiError> {
        self.ask("get_universe_size", "cmd=get_universe_size", "universe_size", "", |fields| {
            fields.number("size")?.ok()
        })
    }

    /// Reports to the manager that this rank ends in order.
    ///
    /// # Errors
    /// When the manager is gone.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        self.ask("finalize", "cmd=finalize", "finalize_ack", "", |_| Some(()))
    }

    /// Asks the manager to end the whole job. There is no reply; the caller ends itself.
    ///
    /// # Errors
    /// When the manager is gone.
    pub fn abort(&mut self, code: i32, message: &str) -> Result<(), PmiError> {
        let message = message.replace(['\n', '\r'], " ");
        let line = if message.is_empty() {
            format!("cmd=abort exitcode={code}\n")
        } else {
            format!("cmd=abort exitcode={code} message={message}\n")
        };
        self.send(line.as_bytes())
    }
}

/// Bytes of a request that every manager takes.
const REQUEST_MAX: usize = 1000;

/// Space for the length and the colon in front of the first piece.
const HEAD: usize = 24;

fn piece_key(key: &str, number: usize) -> String {
    format!("{key}.{number}")
}

/// The value under the key itself: how many bytes there are in all, and the first of them.
pub(super) fn first_piece(all: &[u8], first: &[u8]) -> String {
    format!("{}:{}", all.len(), hex(first))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests;
