//! The guest's files: a shell, the network tools, the verbs library with its driver, and the
//! programs to be run, each with the shared libraries it was linked with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::archive::Archive;
use super::kernel::{Kernel, module_bytes, output};

/// Programs of this machine that are in every guest.
const PROGRAMS: &[&str] = &["ip", "tc", "rdma", "ib_send_lat", "ib_write_lat"];

/// Libraries that are opened by name at run time, so that no program names them.
const LIBRARIES: &[&str] = &["libibverbs.so.1", "libgcc_s.so.1"];

/// The same, of packages that only some of the programs under test want.
const LIBRARIES_IF_THERE: &[&str] = &["libfabric.so.1", "librdmacm.so.1"];

/// Builds the initial RAM file system. `payload` are files with their names below `/payload`,
/// `more` files that lie where they do here.
pub(super) fn build(
    kernel: &Kernel,
    payload: &[(String, PathBuf)],
    more: &[PathBuf],
    command: &str,
) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for directory in ["/proc", "/sys", "/dev", "/tmp", "/bin", "/usr/bin"] {
        archive.directory(directory);
    }
    archive.device("/dev/console", 5, 1);
    archive.file("/init", include_bytes!("init.sh"), 0o755);
    archive.copy("/bin/busybox", find_program("busybox")?)?;
    add_elf(&mut archive, Path::new("/bin/sh"), &find_program("dash")?)?;
    let users = "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n";
    archive.file("/etc/passwd", users.as_bytes(), 0o644);
    archive.file("/etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644);
    archive.file("/etc/hosts", b"127.0.0.1 localhost guest\n", 0o644);

    let mut order = String::new();
    for file in kernel.modules()? {
        let name = file.file_name().context("a module without a name")?.to_string_lossy();
        let name = name.trim_end_matches(".xz").trim_end_matches(".zst");
        archive.file(Path::new("/modules").join(name), &module_bytes(&file)?, 0o644);
        order.push_str(name);
        order.push('\n');
    }
    archive.file("/modules/order", order.as_bytes(), 0o644);

    for program in PROGRAMS {
        let path = find_program(program)?;
        add_elf(&mut archive, &Path::new("/usr/bin").join(program), &path)?;
    }
    for library in LIBRARIES {
        let path = find_library(library)?.with_context(|| format!("{library} is not installed"))?;
        add_elf(&mut archive, &path, &path)?;
    }
    for library in LIBRARIES_IF_THERE {
        if let Some(path) = find_library(library)? {
            add_elf(&mut archive, &path, &path)?;
        }
    }
    add_driver(&mut archive)?;
    for (name, path) in payload {
        add_elf(&mut archive, &Path::new("/payload").join(name), path)?;
    }
    for path in more {
        add_elf(&mut archive, path, path)?;
    }
    archive.file("/payload/command", command.as_bytes(), 0o755);
    archive.finish()
}

/// The soft-RoCE half of the verbs library, which it opens by the name in its configuration.
fn add_driver(archive: &mut Archive) -> Result<()> {
    const CONFIGURATION: &str = "/etc/libibverbs.d/rxe.driver";
    archive.copy(CONFIGURATION, CONFIGURATION)?;
    let library = find_library("libibverbs.so.1")?.context("libibverbs.so.1 is not installed")?;
    let directory = library.parent().context("a library lies in a directory")?;
    // The loader names the directory as `/lib/..`, the library got `/usr/lib/..`.
    let below = Path::new("/usr").join(directory.strip_prefix("/").unwrap_or(directory));
    let below = if directory.starts_with("/usr") { directory.to_owned() } else { below };
    let drivers = below.join("libibverbs");
    let mut found = false;
    let entries = std::fs::read_dir(&drivers)
        .with_context(|| format!("cannot list {drivers:?}; is ibverbs-providers installed?"))?;
    for entry in entries {
        let path = entry.context("cannot list the verbs drivers")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("librxe-") {
            add_elf(archive, &path, &path)?;
            found = true;
        }
    }
    ensure!(found, "no soft-RoCE driver in {drivers:?}");
    Ok(())
}

/// Adds an ELF file and the libraries it was linked with, each where the loader searches for it.
fn add_elf(archive: &mut Archive, at: &Path, from: &Path) -> Result<()> {
    if archive.has(at) {
        return Ok(());
    }
    archive.copy(at, from)?;
    // A static program makes `ldd` fail, which is no failure here.
    let Ok(text) = output(Command::new("ldd").arg(from)) else { return Ok(()) };
    for line in text.lines() {
        ensure!(!line.contains("not found"), "{}: {}", from.display(), line.trim());
        let path = match line.split_once("=>") {
            Some((_, path)) => path,
            None => line,
        };
        let path = path.trim().split(' ').next().unwrap_or_default();
        if path.starts_with('/') && !archive.has(path) {
            archive.copy(path, path)?;
        }
    }
    Ok(())
}

fn find_program(name: &str) -> Result<PathBuf> {
    crate::needs::find(name).with_context(|| format!("{name} is not installed"))
}

/// Where the loader finds a library.
fn find_library(name: &str) -> Result<Option<PathBuf>> {
    let cache = output(Command::new("/sbin/ldconfig").arg("-p"))
        .context("cannot ask the loader for its libraries")?;
    Ok(cache
        .lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .find(|(found, _)| found.split(' ').next() == Some(name) && found.contains("x86-64"))
        .map(|(_, path)| PathBuf::from(path)))
}
