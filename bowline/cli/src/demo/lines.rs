//! Reading the lines of one file by several ranks at once.
//!
//! The file is cut into ranges of equal size, one for each rank. A line belongs to the rank in
//! whose range its first byte lies, so every line has exactly one owner, however the cuts fall;
//! the owner reads on beyond its range to the end of its last line. A line longer than a range
//! leaves the ranges that it covers without lines.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read at a time where the length is not known before.
const CHUNK: u64 = 64 << 10;

/// Bytes between two reports of progress.
const REPORT: u64 = 16 << 20;

/// The lines of `path` that belong to `rank`, each with its newline; one that the file lacks at
/// its end is added. `progress` is called with how many bytes came with each step.
///
/// # Errors
/// Those of the file system, and when the file is shortened meanwhile.
pub(crate) fn read_part(
    path: &Path,
    rank: u64,
    ranks: u64,
    mut progress: impl FnMut(u64),
) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let (begin, end) = (cut(len, rank, ranks), cut(len, rank + 1, ranks));
    let Some(start) = first_line(&file, begin, end)? else {
        progress(end - begin);
        return Ok(Vec::new());
    };
    let length = usize::try_from(end - start).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
    let mut text = Vec::new();
    text.try_reserve_exact(length + 1).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
    text.resize(length, 0);
    let mut position = start;
    for piece in text.chunks_mut(REPORT as usize) {
        read_at(&file, piece, position)?;
        position += piece.len() as u64;
        progress(piece.len() as u64);
    }
    // The last line may reach into the ranges that follow.
    while text.last() != Some(&b'\n') && position < len {
        let next = (position + CHUNK).min(len);
        let known = text.len();
        text.resize(known + (next - position) as usize, 0);
        read_at(&file, &mut text[known..], position)?;
        position = next;
        if let Some(newline) = text[known..].iter().position(|&byte| byte == b'\n') {
            text.truncate(known + newline + 1);
        }
    }
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    Ok(text)
}

/// Where the range of `rank` begins in a file of `len` bytes.
fn cut(len: u64, rank: u64, ranks: u64) -> u64 {
    // The product of two 64-bit numbers fits into 128 bits; the quotient is at most `len`.
    (u128::from(len) * u128::from(rank) / u128::from(ranks)) as u64
}

/// Where the first line begins whose first byte is in `begin..end`.
fn first_line(file: &File, begin: u64, end: u64) -> Result<Option<u64>> {
    if begin == end {
        return Ok(None);
    }
    if begin == 0 {
        return Ok(Some(0));
    }
    // A line begins behind a newline, which may be the last byte of the range before.
    let (mut position, last) = (begin - 1, end - 1);
    let mut chunk = vec![0; CHUNK as usize];
    while position < last {
        let piece = &mut chunk[..(last - position).min(CHUNK) as usize];
        read_at(file, piece, position)?;
        if let Some(newline) = piece.iter().position(|&byte| byte == b'\n') {
            return Ok(Some(position + newline as u64 + 1));
        }
        position += piece.len() as u64;
    }
    Ok(None)
}

fn read_at(file: &File, into: &mut [u8], position: u64) -> Result<()> {
    file.read_exact_at(into, position).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::UnexpectedEof, "the file was shortened while it was read")
        }
        _ => error,
    })
}

/// The lines of a text in which every line ends with a newline, without the newlines.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of `text` for every number of ranks up to 9, put together, are `text`.
    fn check(text: &[u8], expected: &[u8]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        std::fs::write(&path, text).unwrap();
        for ranks in 1..=9 {
            let mut counted = 0;
            let parts: Vec<_> = (0..ranks)
                .map(|rank| read_part(&path, rank, ranks, |bytes| counted += bytes).unwrap())
                .collect();
            assert_eq!(parts.concat(), expected, "{ranks} ranks");
            assert!(parts.iter().all(|part| part.is_empty() || part.ends_with(b"\n")));
            assert!(counted <= text.len() as u64);
        }
    }

    #[test]
    fn every_line_has_one_owner() {
        check(b"", b"");
        check(b"\n", b"\n");
        check(b"a", b"a\n");
        check(b"\n\n\n\nx\n\n", b"\n\n\n\nx\n\n");
        check(b"one\ntwo\r\nthree\n\xff\x00four", b"one\ntwo\r\nthree\n\xff\x00four\n");
        let long = [vec![b'x'; 300_000], b"\nshort\n".to_vec(), vec![b'y'; 200_000]].concat();
        check(&long, &[&long[..], b"\n"].concat());
    }

    #[test]
    fn cuts_do_not_overflow() {
        assert_eq!(cut(u64::MAX, 3, 3), u64::MAX);
        assert_eq!(cut(10, 1, 4), 2);
    }

    #[test]
    fn lines_lose_their_newlines_only() {
        let found: Vec<_> = lines(b"a\r\n\nb\n").collect();
        assert_eq!(found, [&b"a\r"[..], b"", b"b"]);
        assert_eq!(lines(b"").count(), 0);
    }
}
