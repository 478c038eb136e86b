//! What names a process and no later one: its number and its start.

use std::io;

/// When a process started, clock ticks since boot: with the pid it names a process and no later one.
///
/// # Errors
/// When there is no such process or `/proc` is not mounted.
pub fn start_time_of(pid: u32) -> io::Result<u64> {
    // By number only where it must be: `/proc` may be that of another pid namespace.
    let stat = match pid == std::process::id() {
        true => std::fs::read("/proc/self/stat")?,
        false => std::fs::read(format!("/proc/{pid}/stat"))?,
    };
    parse_start_time(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat is malformed"))
}

/// The pid namespace of this process, within which its number and that of others mean something.
/// `None` where `/proc` belongs to another one, so that no process can be found by its number, or
/// is not there.
pub fn pid_namespace() -> Option<u64> {
    let own = std::fs::read_link("/proc/self").ok()?;
    let is_own = own.to_str().and_then(|text| text.parse().ok()) == Some(std::process::id());
    let namespace = rustix::fs::stat("/proc/self/ns/pid").ok()?;
    is_own.then_some(namespace.st_ino)
}

/// Field 22 of `/proc/PID/stat`. The second field is the program's name in parentheses and may
/// hold anything, so the count starts behind the last one.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let behind_name = stat.iter().rposition(|&b| b == b')')? + 1;
    let fields = std::str::from_utf8(&stat[behind_name..]).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_is_found_by_number_too() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        assert!(pid_namespace().is_some());
        assert!(start_time_of(own).unwrap() >= start_time_of(parent).unwrap());
    }

    #[test]
    fn names_with_parentheses_do_not_mislead() {
        let stat = b"42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 99 0";
        assert_eq!(parse_start_time(stat), Some(4711));
        assert_eq!(parse_start_time(b"42 (short) S 1"), None);
        assert_eq!(parse_start_time(b""), None);
    }
}
