//! Whether one rank may read another one's memory: tried with two processes that are to
//! each other what ranks are, children of one parent.
//!
//! One prints the address of a word and waits; the other one reads the word. A question to
//! the settings of the kernel would not do: namespaces, security modules, filters of system calls
//! and capabilities all have a say.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow, bail};

/// What the first process is asked to do; the second one is given a place to read.
const WAIT: &str = "wait";

/// What the word holds.
const WORD: u64 = 0x626f_776c_696e_6521;

static TARGET: u64 = WORD;

/// A process of the probe, which ends when this handle does.
struct Sibling(Child);

impl Sibling {
    fn start(role: &str) -> Result<Self> {
        let program = std::env::current_exe().context("this program's own file is not found")?;
        let mut command = Command::new(program);
        command.args(["info", "--probe", role]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        Ok(Self(command.spawn().context("a process cannot be started")?))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let out = self.0.stdout.take().context("the output of a process is taken once")?;
        BufReader::new(out)
            .read_line(&mut line)
            .context("a process of the probe does not answer")?;
        if line.is_empty() {
            bail!("a process of the probe ended without an answer");
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        // The process waits for the end of its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Lets one process read another one's memory.
///
/// # Errors
/// Why it cannot.
pub(super) fn between_siblings() -> Result<()> {
    let mut target = Sibling::start(WAIT)?;
    let place = target.line()?;
    let answer = Sibling::start(&place)?.line()?;
    match answer.as_str() {
        "ok" => Ok(()),
        other => Err(anyhow!("{other}")),
    }
}

/// What a process of the probe does.
///
/// # Errors
/// When its role is none.
pub(super) fn process(role: &str) -> Result<ExitCode> {
    let mut out = std::io::stdout();
    if role == WAIT {
        let address = (&raw const TARGET).expose_provenance();
        writeln!(out, "{}:{address}", std::process::id())?;
        out.flush()?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
    } else {
        let (pid, address) = role.split_once(':').context("a place to read is PID:ADDRESS")?;
        match read_word(pid.parse()?, address.parse()?) {
            Ok(WORD) => writeln!(out, "ok")?,
            Ok(other) => writeln!(out, "read {other:#x} where {WORD:#x} was")?,
            Err(error) => writeln!(out, "{error}")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read_word(pid: libc::pid_t, address: usize) -> std::io::Result<u64> {
    let mut word = 0u64;
    let local = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<u64>() };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address),
        iov_len: size_of::<u64>(),
    };
    // SAFETY: one local piece, which is `word`, alive and ours for the call; the remote address
    // belongs to the other process and is checked by the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    if read == -1 { Err(std::io::Error::last_os_error()) } else { Ok(word) }
}
