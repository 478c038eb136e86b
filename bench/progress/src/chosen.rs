//! Which tables there are, and over which lanes each of them can be measured: names only. The program and `cargo xtask bench
//! progress`, which refuses before it builds anything, have this file in common.

use anyhow::{Result, bail};

/// The lanes that can be asked for.
const LANES: [&str; 6] = ["carrier", "shm", "tcp", "hosts", "ofi", "verbs"];

/// The tables, and of those whose lanes can be asked for which. The other tables have lanes of their own.
const TABLES: [(&str, &[&str]); 8] = [
    ("overhead", &LANES),
    ("overlap", &LANES),
    ("waiting", &[]),
    // Lanes that carry data by themselves: of others the publication says nothing.
    ("schemes", &["carrier", "verbs"]),
    ("collectives", &[]),
    ("applications", &LANES),
    ("memory", &[]),
    ("locks", &[]),
];

/// The tables to be measured: all of `only`, each over all of `lanes`. Where no table is named, those that can be, and behind
/// them why the others are left out.
///
/// # Errors
/// When there is no such table or lane, or a table that is named cannot be measured over one of the lanes.
pub(crate) fn tables(
    only: &[String],
    lanes: &[String],
) -> Result<(Vec<&'static str>, Vec<String>)> {
    if let Some(lane) = lanes.iter().find(|lane| !LANES.contains(&lane.as_str())) {
        bail!("no lane {lane:?}; there are {}", LANES.join(", "));
    }
    if let Some(name) = only.iter().find(|name| !TABLES.iter().any(|(known, _)| known == name)) {
        bail!("no table {name:?}; there are {}", TABLES.map(|(name, _)| name).join(", "));
    }
    let (mut measured, mut left_out) = (Vec::new(), Vec::new());
    for (name, has) in TABLES {
        let named = only.iter().any(|wanted| wanted == name);
        if !named && !only.is_empty() {
            continue;
        }
        match lanes.iter().find(|lane| !has.contains(&lane.as_str())) {
            Some(lane) if named => bail!("{}", refusal(name, has, lane)),
            Some(lane) if !has.is_empty() => left_out.push(refusal(name, has, lane)),
            _ => measured.push(name),
        }
    }
    Ok((measured, left_out))
}

fn refusal(table: &str, has: &[&str], lane: &str) -> String {
    match has {
        [] => format!("table {table} has lanes of its own and cannot be measured over {lane}"),
        _ => format!(
            "table {table} cannot be measured over {lane}; its lanes are {}",
            has.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &[&str], lanes: &[&str]) -> Result<(Vec<&'static str>, Vec<String>)> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        tables(&owned(only), &owned(lanes))
    }

    fn refused(only: &[&str], lanes: &[&str]) -> String {
        chosen(only, lanes).expect_err("nothing can be measured so").to_string()
    }

    #[test]
    fn a_table_that_is_named_is_measured_over_the_lanes_that_are_named_or_not_at_all() {
        for lane in ["shm", "tcp", "hosts", "ofi"] {
            let expected = format!(
                "table schemes cannot be measured over {lane}; its lanes are carrier, verbs"
            );
            assert_eq!(refused(&["schemes"], &[lane]), expected);
            assert_eq!(refused(&["overhead", "schemes"], &["carrier", lane]), expected);
            assert_eq!(chosen(&["overhead"], &[lane]).unwrap().0, ["overhead"]);
        }
        for lane in ["carrier", "verbs"] {
            assert_eq!(chosen(&["schemes"], &[lane]).unwrap().0, ["schemes"]);
        }
        for table in ["waiting", "collectives", "memory", "locks"] {
            let refused = refused(&[table], &["tcp"]);
            assert!(refused.contains(table) && refused.contains("tcp"), "{refused}");
            assert_eq!(chosen(&[table], &[]).unwrap().0, [table]);
        }
    }

    #[test]
    fn where_no_table_is_named_those_that_cannot_be_measured_are_said() {
        let (all, left_out) = chosen(&[], &[]).unwrap();
        assert_eq!((all, left_out), (TABLES.map(|(name, _)| name).to_vec(), Vec::new()));
        let (measured, left_out) = chosen(&[], &["tcp", "hosts"]).unwrap();
        assert!(!measured.contains(&"schemes") && measured.contains(&"overlap"));
        assert!(measured.contains(&"memory"), "its lanes were not asked for");
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].contains("schemes") && left_out[0].contains("tcp"), "{left_out:?}");
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(refused(&["scheme"], &[]).contains("there are overhead, overlap"));
        assert!(refused(&[], &["ucx"]).contains("there are carrier, shm"));
    }
}
