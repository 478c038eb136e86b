//! How numbers, sizes and times are written. Pure functions between text and values; they know no
//! setting.

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A size as people write it: the largest of `g`, `m`, `k` that divides it, powers of 1024.
pub fn show_bytes(bytes: u64) -> String {
    for (unit, letter) in [(GIB, 'g'), (MIB, 'm'), (KIB, 'k')] {
        if bytes != 0 && bytes.is_multiple_of(unit) {
            return format!("{}{letter}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// A time as people write it: the largest unit that divides it.
pub fn show_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if nanos != 0 && nanos.is_multiple_of(unit) {
            return format!("{}{name}", nanos / unit);
        }
    }
    if nanos == 0 { "0s".to_owned() } else { format!("{nanos}ns") }
}

/// Splits `12kb` into 12 and `kb`, in lower case.
fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text.get(..digits)?.parse().ok()?;
    Some((number, text.get(digits..)?.trim_start().to_ascii_lowercase()))
}

/// Reads a size: a number with one of the letters `k`, `m`, `g`, or without.
pub(super) fn read_bytes(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let unit = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => MIB,
        "g" | "gb" | "gib" => GIB,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Reads a time: a number with one of `ns`, `us`, `ms`, `s`. Zero needs no unit.
pub(super) fn read_time(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    match unit.as_str() {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "" if number == 0 => Some(Duration::ZERO),
        _ => None,
    }
}

/// Reads a yes or a no.
pub(super) fn read_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "on" | "true" | "1" => Some(true),
        "n" | "no" | "off" | "false" | "0" => Some(false),
        _ => None,
    }
}
