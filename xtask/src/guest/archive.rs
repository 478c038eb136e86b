//! An initial RAM file system as the kernel unpacks it: the "newc" form of cpio, written from
//! memory, so that no directory tree has to be made (device nodes would need root).
//!
//! The form is described in the kernel's `Documentation/driver-api/early-userspace`.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const DIRECTORY: u32 = 0o040_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
const FILE: u32 = 0o100_000;

/// An archive that grows at its end. A path is added once; the directories above it come by
/// themselves.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    there: BTreeSet<PathBuf>,
    entries: u32,
}

impl Archive {
    /// Makes a directory and those above it.
    pub(super) fn directory(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if path == Path::new("/") || self.there.contains(path) {
            return;
        }
        if let Some(above) = path.parent() {
            self.directory(above);
        }
        self.entry(path, DIRECTORY, (0, 0), &[]);
    }

    /// Adds a file with these bytes and permission bits; nothing if the path is there already.
    pub(super) fn file(&mut self, path: impl AsRef<Path>, bytes: &[u8], permissions: u32) {
        self.below_its_directory(path.as_ref(), FILE | permissions, (0, 0), bytes);
    }

    /// Adds a file of this machine under a path of the guest.
    pub(super) fn copy(&mut self, path: impl AsRef<Path>, from: impl AsRef<Path>) -> Result<()> {
        let from = from.as_ref();
        let bytes = std::fs::read(from).with_context(|| format!("cannot read {from:?}"))?;
        let mode =
            std::fs::metadata(from).with_context(|| format!("cannot read the mode of {from:?}"))?;
        self.file(path, &bytes, mode.permissions().mode() & 0o777);
        Ok(())
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, path: impl AsRef<Path>, major: u32, minor: u32) {
        self.below_its_directory(path.as_ref(), CHARACTER_DEVICE, (major, minor), &[]);
    }

    /// Whether the path is there.
    pub(super) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.there.contains(path.as_ref())
    }

    /// The whole archive.
    ///
    /// # Errors
    /// When it is longer than the form can say, which no guest's memory would hold.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry(Path::new("/TRAILER!!!"), 0, (0, 0), &[]);
        ensure!(u32::try_from(self.bytes.len()).is_ok(), "the guest's files exceed 4 GiB");
        Ok(self.bytes)
    }

    fn below_its_directory(&mut self, path: &Path, mode: u32, device: (u32, u32), bytes: &[u8]) {
        if self.there.contains(path) {
            return;
        }
        if let Some(above) = path.parent() {
            self.directory(above);
        }
        self.entry(path, mode, device, bytes);
    }

    fn entry(&mut self, path: &Path, mode: u32, (major, minor): (u32, u32), bytes: &[u8]) {
        self.there.insert(path.to_owned());
        self.entries += 1;
        let name = path.to_string_lossy();
        let name = name.trim_start_matches('/');
        // Number, mode, owner, group, links, time, length, device (2), device node (2), length of
        // the name with its end mark, checksum (unused in this form).
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            bytes.len() as u32,
            0,
            0,
            major,
            minor,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_before_what_is_in_them_and_once() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", b"hello", 0o644);
        archive.file("/a/b/d", b"", 0o755);
        archive.file("/a/b/c", b"again", 0o644);
        archive.device("/a/e", 5, 1);
        let bytes = archive.finish().expect("it is small");
        assert_eq!(bytes.len() % 4, 0);
        let mut names = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            assert_eq!(&rest[..6], b"070701");
            let field = |index: usize| {
                let text = std::str::from_utf8(&rest[6 + 8 * index..][..8]).expect("digits");
                usize::from_str_radix(text, 16).expect("hexadecimal")
            };
            let (length, name_length) = (field(6), field(11));
            let name = &rest[110..110 + name_length - 1];
            names.push(String::from_utf8(name.to_vec()).expect("text"));
            let body = (110 + name_length).next_multiple_of(4);
            rest = &rest[(body + length).next_multiple_of(4)..];
        }
        assert_eq!(names, ["a", "a/b", "a/b/c", "a/b/d", "a/e", "TRAILER!!!"]);
    }
}
