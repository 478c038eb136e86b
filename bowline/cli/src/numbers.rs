//! Numbers as people write and read them on the command line.

use std::time::Duration;

/// The longest size, a terabyte.
const LONGEST: usize = 1 << 40;

/// Reads a size in bytes: digits and perhaps `k`, `m` or `g` (powers of 1024).
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let lower = text.trim().to_ascii_lowercase();
    let no_size = || format!("`{text}` is no number of bytes, such as 8, 64k or 1m");
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    // Without a number there is no unit to judge either.
    if digits.is_empty() {
        return Err(no_size());
    }
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        unit => return Err(format!("`{unit}` is no unit of bytes; there are k, m and g")),
    };
    let number: usize = digits.parse().map_err(|_| no_size())?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes <= LONGEST);
    bytes.ok_or_else(|| {
        format!("`{text}` is more than a terabyte (1024g), the most that is possible")
    })
}

/// Reads sizes: `8`, `8,4k,1m`, or `8..64k` for 8 and its doubles up to 64k.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn sizes(text: &str) -> Result<Vec<usize>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((first, last)) = part.split_once("..") else {
            all.push(size(part)?);
            continue;
        };
        let (first, last) = (size(first)?, size(last)?);
        if first == 0 || first > last {
            return Err(format!("`{part}` must go from a size of 1 or more to a larger one"));
        }
        let doubles = std::iter::successors(Some(first), |size| size.checked_mul(2));
        all.extend(doubles.take_while(|size| *size <= last));
    }
    Ok(all)
}

/// Bytes for people: three digits or more, in the unit that fits (powers of 1024).
pub(crate) fn about(bytes: u64) -> String {
    let units = ["", "k", "m", "g", "t"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() >= 0.05 && value < 100.0);
    format!("{value:.digits$}{}", units[unit])
}

/// So many ranks, in words.
pub(crate) fn ranks(count: u32) -> String {
    format!("{count} rank{}", if count == 1 { "" } else { "s" })
}

/// Reads a time in seconds, fractions allowed.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    match Duration::try_from_secs_f64(number) {
        Ok(time) if !time.is_zero() => Ok(time),
        Err(_) if number > 0.0 => Err(format!(
            "`{text}` seconds is longer than time is counted here; without the option there is no limit"
        )),
        _ => Err(format!("`{text}` seconds is no time limit: it must be above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(sizes("8"), Ok(vec![8]));
        assert_eq!(sizes("0,1,4K,2m"), Ok(vec![0, 1, 4096, 2 << 20]));
        assert_eq!(sizes("8..64,1g"), Ok(vec![8, 16, 32, 64, 1 << 30]));
        assert_eq!(sizes("3..3"), Ok(vec![3]));
    }

    #[test]
    fn wrong_sizes_are_refused_with_the_reason() {
        assert!(sizes("8,x").unwrap_err().contains("`x`"));
        assert!(sizes("").is_err());
        assert!(sizes("-1").is_err());
        assert!(sizes("8q").unwrap_err().contains("unit"));
        for word in ["abc", "x", "k", ""] {
            let said = sizes(word).unwrap_err();
            assert!(said.contains("such as 8, 64k or 1m") && !said.contains("unit"), "{said}");
        }
        assert!(sizes("0..8").is_err());
        assert!(sizes("16..8").is_err());
        assert_eq!(size("1024g"), Ok(1 << 40));
        for long in ["1025g", "99999999999g"] {
            assert!(size(long).unwrap_err().contains("terabyte"), "{long}");
        }
    }

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let shown = [0, 96, 1023, 1024, 3_213_568, 550_912, 1 << 30, 24_684_084 << 10].map(about);
        assert_eq!(shown, ["0", "96", "1023", "1k", "3.1m", "538k", "1g", "23.5g"]);
    }

    #[test]
    fn one_rank_is_no_ranks() {
        assert_eq!([0, 1, 2].map(ranks), ["0 ranks", "1 rank", "2 ranks"]);
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["0", "-1", "x", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        for long in ["inf", "1e40", "1e400"] {
            assert!(seconds(long).unwrap_err().contains("longer"), "{long}");
        }
        assert!(seconds("-1e400").unwrap_err().contains("above 0"));
    }
}
