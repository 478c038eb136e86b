//! Starts QEMU with the kernel and the files, shows what the guest prints, and brings its exit
//! status back. A guest that ends without a status has failed, whatever QEMU says.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;

/// What a guest is given.
#[derive(Debug)]
pub(super) struct Machine {
    /// Seconds after which it is ended.
    pub(super) limit: u64,
    /// Processors.
    pub(super) processors: u32,
    /// Whether the kernel's messages are shown.
    pub(super) verbose: bool,
}

/// What a guest has printed, and the status of its command.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) lines: Vec<String>,
    pub(super) status: i32,
}

/// Boots and waits for the end. `directory` is for the files of this boot.
pub(super) fn boot(
    kernel: &Kernel,
    files: &[u8],
    machine: &Machine,
    directory: &Path,
) -> Result<Ended> {
    let path = |name| directory.join(name);
    std::fs::write(path("files"), files).context("cannot write the guest's files")?;
    let (console, status) = (path("console"), path("status"));
    for file in [&console, &status] {
        File::create(file).context("cannot make a serial port's file")?;
    }
    // The files are held twice while they are unpacked, and their file system may take half of
    // the memory. Of the programs the conformance suite over libfabric takes most, 630 MB: 8 interfaces
    // with `ofi_rxm`'s buffers for each connection.
    let memory = 1024 + 3 * (files.len() >> 20);
    let loud = if machine.verbose { "loglevel=6" } else { "quiet loglevel=3" };
    let accelerator = if hardware_can() { "kvm" } else { "tcg,thread=multi,tb-size=256" };
    // The guest goes when this process does, however it ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(["-M", "q35", "-cpu", "max", "-accel", accelerator]);
    command.args(["-smp", &machine.processors.to_string(), "-m", &memory.to_string()]);
    command.arg("-kernel").arg(kernel.image()).arg("-initrd").arg(path("files"));
    command.arg("-append");
    command.arg(format!("console=ttyS0 {loud} panic=-1 mitigations=off audit=0"));
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-nic", "none"]);
    command.arg("-no-reboot");
    // Serial ports: the kernel's messages, what the command prints, its status.
    command.arg("-serial").arg(format!("file:{}", console.display()));
    command.args(["-serial", "stdio"]);
    command.arg("-serial").arg(format!("file:{}", status.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start QEMU")?;
    let printed = child.stdout.take().expect("it was asked for");
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in BufReader::new(printed).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            println!("{line}");
            lines.push(line);
        }
        lines
    });
    let end = Instant::now() + Duration::from_secs(machine.limit);
    let exit = loop {
        if let Some(exit) = child.try_wait().context("cannot wait for QEMU")? {
            break Some(exit);
        }
        if Instant::now() > end {
            child.kill().context("cannot end QEMU")?;
            child.wait().context("cannot wait for QEMU")?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let lines = reader.join().expect("the reader does not panic");
    let reported = std::fs::read_to_string(&status).context("cannot read the guest's status")?;
    let reported = reported.lines().rev().find_map(|line| line.trim().strip_prefix("status "));
    if machine.verbose {
        show_console(&console, usize::MAX);
    }
    match (exit, reported.and_then(|status| status.parse().ok())) {
        (Some(_), Some(status)) => Ok(Ended { lines, status }),
        (None, _) => {
            show_console(&console, 20);
            bail!("the guest did not end within {} s", machine.limit)
        }
        (Some(exit), None) => {
            show_console(&console, 40);
            bail!("the guest ended without a status (QEMU: {exit}); see the lines above")
        }
    }
}

/// Whether the processor runs guests by itself. A `/dev/kvm` alone says nothing: some of them only
/// take kernels made for them.
fn hardware_can() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let usable = File::options().read(true).write(true).open("/dev/kvm").is_ok();
    usable && flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm")
}

fn show_console(file: &Path, most: usize) {
    let bytes = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(most)..] {
        eprintln!("kernel: {}", line.trim_end());
    }
}
