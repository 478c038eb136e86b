//! The guest's kernel: Debian's, from its package, unpacked into the cache and nowhere else.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Modules that the guest needs, in the order of loading; what they depend on comes before them.
/// The soft-RoCE driver asks the crypto layer for a checksum by name, and nothing in the guest
/// could load that on demand.
const MODULES: &[&str] =
    &["crc32_generic", "configfs", "veth", "sch_netem", "ib_umad", "rdma_rxe", "rdma_ucm"];

/// An unpacked kernel package.
#[derive(Debug)]
pub(super) struct Kernel {
    root: PathBuf,
    release: String,
}

impl Kernel {
    /// The kernel that Debian's `linux-image-amd64` stands for now, downloaded into `cache` unless
    /// it is there. The cloud kernel has no soft-RoCE.
    pub(super) fn fetch(cache: &Path) -> Result<Self> {
        let depends = output(Command::new("apt-cache").args(["depends", "linux-image-amd64"]))
            .context("cannot ask apt for the current kernel")?;
        let release = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
            .context("apt does not know linux-image-amd64; run `apt-get update` first")?
            .to_owned();
        let root = cache.join("kernel").join(&release);
        let kernel = Self { root, release };
        if !kernel.image().exists() {
            kernel.unpack_package()?;
        }
        Ok(kernel)
    }

    /// Names the kernel.
    pub(super) fn release(&self) -> &str {
        &self.release
    }

    /// The kernel as an ELF file, which QEMU starts at once; unpacking itself would cost the guest
    /// seconds.
    pub(super) fn image(&self) -> PathBuf {
        self.root.join("vmlinux")
    }

    /// The modules' files in the order of loading.
    pub(super) fn modules(&self) -> Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        for module in MODULES {
            let mut command = Command::new("modprobe");
            command.arg("-d").arg(&self.root).args(["-S", &self.release, "-C", "/dev/null"]);
            let text = output(command.args(["--show-depends", module]))
                .with_context(|| format!("the kernel {} has no module {module}", self.release))?;
            for file in text.lines().filter_map(|line| line.strip_prefix("insmod ")) {
                let file = PathBuf::from(file.trim());
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    fn unpack_package(&self) -> Result<()> {
        let package = format!("linux-image-{}", self.release);
        println!("guest: downloading {package}");
        // Unpacked beside its place, so that an interrupted run leaves nothing half done there.
        let fresh = self.root.with_extension("fresh");
        if fresh.exists() {
            std::fs::remove_dir_all(&fresh).context("cannot remove an unfinished kernel")?;
        }
        let download = fresh.join("download");
        std::fs::create_dir_all(&download).context("cannot make the kernel's directory")?;
        output(Command::new("apt-get").args(["download", "-q", &package]).current_dir(&download))
            .with_context(|| format!("cannot download {package}"))?;
        let file = std::fs::read_dir(&download)
            .context("cannot list the download")?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .with_context(|| format!("apt-get brought no file of {package}"))?;
        output(Command::new("dpkg").arg("-x").arg(&file).arg(&fresh))
            .context("cannot unpack the kernel's package")?;
        std::fs::remove_dir_all(&download).context("cannot remove the download")?;
        output(Command::new("depmod").arg("-b").arg(&fresh).arg(&self.release))
            .context("cannot index the kernel's modules")?;
        let packed = fresh.join("boot").join(format!("vmlinuz-{}", self.release));
        let packed = std::fs::read(&packed).with_context(|| format!("cannot read {packed:?}"))?;
        let image = elf_of(&packed).context("cannot unpack the kernel itself")?;
        std::fs::write(fresh.join("vmlinux"), image).context("cannot write the kernel")?;
        if self.root.exists() {
            std::fs::remove_dir_all(&self.root).context("cannot remove the old kernel")?;
        }
        std::fs::rename(&fresh, &self.root).context("cannot put the kernel in its place")
    }
}

/// The ELF file inside a bzImage, found by the fields of the x86 boot protocol: sectors of set-up
/// code (offset 0x1f1), and the payload's offset behind them and its length (0x248).
fn elf_of(image: &[u8]) -> Result<Vec<u8>> {
    let word = |offset: usize| -> Result<usize> {
        let bytes = image.get(offset..offset + 4).context("the kernel's file is cut off")?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    let sectors = usize::from(*image.get(0x1f1).context("the kernel's file is cut off")?);
    let start = (sectors + 1) * 512 + word(0x248)?;
    let length = word(0x24c)?;
    // The last word is the unpacked length, written by the kernel's build.
    let payload = image
        .get(start..)
        .and_then(|rest| rest.get(..length.saturating_sub(4)))
        .context("the kernel's payload lies outside of its file")?;
    let unpacker = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [0x1f, 0x8b, ..] => "gzip",
        _ => bail!("the payload is packed in an unknown way"),
    };
    let elf = filter(unpacker, &["-dcq"], payload)?;
    ensure!(elf.starts_with(b"\x7fELF"), "the payload is no ELF file");
    Ok(elf)
}

/// The bytes of a module's file, unpacked.
pub(super) fn module_bytes(file: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {file:?}"))?;
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => filter("xz", &["-dcq"], &bytes),
        Some("zst") => filter("zstd", &["-dcq"], &bytes),
        _ => Ok(bytes),
    }
}

/// Runs a command to its end and returns what it printed.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What `program` makes of `bytes`. Trailing bytes behind the packed ones are no error.
fn filter(program: &str, arguments: &[&str], bytes: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // It may stop reading before the end; its output says whether it had enough.
            let _ = stdin.write_all(bytes);
        });
        let output = child.wait_with_output().with_context(|| format!("{program} was lost"))?;
        ensure!(!output.stdout.is_empty(), "{program} cannot unpack this");
        Ok(output.stdout)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_kernel_files_are_refused() {
        assert!(elf_of(&[]).is_err());
        assert!(elf_of(&[0; 0x250]).is_err());
        assert!(elf_of(&[0xff; 4096]).is_err());
    }
}
