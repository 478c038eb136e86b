//! Real ranks that show which protocol carries a message: what is predicted is what happens, a
//! user's thresholds stand, and what was measured is remembered in the file that was named.

use crate::common::{command, finish};
use bowline_uct::conformance::skipped;
use serde_json::Value;

fn output(arguments: &[&str], settings: &[(&str, &str)]) -> Value {
    let mut command = command(arguments);
    command.arg("--json").envs(settings.iter().copied());
    serde_json::from_str(&finish(command).success()).unwrap()
}

/// What carried the message of the only size that was sent.
fn carried(size: &str, settings: &[(&str, &str)]) -> String {
    let all = output(&["explain", "--peer", "1", "--op", "tag_send", "--send", size], settings);
    all["sent"]["messages"][0]["counted"].to_string()
}

/// The ranges of tag_send over shared memory: protocol, first size.
fn ranges(settings: &[(&str, &str)]) -> Vec<(String, u64)> {
    let all = output(&["explain", "--peer", "1", "--op", "tag_send"], settings);
    let shm = all["protocols"].as_array().unwrap().iter().find(|p| p["transport"] == "shm");
    let ranges = shm.unwrap()["operations"][0]["ranges"].as_array().unwrap();
    let row = |r: &Value| (r["protocol"].as_str().unwrap().to_owned(), r["from"].as_u64().unwrap());
    ranges.iter().map(row).collect()
}

#[test]
fn messages_go_by_the_predicted_protocol() {
    let off = [("BOWLINE_CALIBRATION", "off")];
    let table = ranges(&off);
    assert_eq!(table[0], ("eager/short".to_owned(), 0));
    for (protocol, from) in &table {
        let counted = carried(&from.to_string(), &off);
        let expected = match protocol.as_str() {
            "eager/short" => "1 eager/short",
            "eager/bcopy" => "1 eager/bcopy",
            "eager/multi" => "1 eager/multi",
            "rndv/get" => "1 rndv/get",
            // Shared once reading was proven to work; here it is the first that is read.
            "rndv/shared" => "1 rndv",
            other => panic!("no protocol of shared memory: {other}"),
        };
        assert!(counted.contains(expected), "{protocol} from {from}: {counted}");
    }
}

/// Long messages begin by what is predicted to be the cheapest, and say how many pay for a trial of the others; nothing of that
/// where the choice is the user's.
#[test]
fn long_messages_begin_as_predicted() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skipped("ranks that share a processor measure nothing");
    }
    let off = [("BOWLINE_CALIBRATION", "off")];
    let measured = |settings: &[(&str, &str)]| {
        let all = output(&["explain", "--peer", "1", "--op", "tag_send"], settings);
        let shm = all["protocols"].as_array().unwrap().iter().find(|p| p["transport"] == "shm");
        shm.unwrap()["measured"].as_array().unwrap().clone()
    };
    let (rows, table) = (measured(&off), ranges(&off));
    assert!(rows.iter().any(|row| row["tried_after"].is_u64()), "there is a choice: {rows:?}");
    for first in rows.iter().filter(|row| row["tried_after"].is_null()) {
        let from = first["from"].as_u64().unwrap();
        let range = table.iter().rfind(|range| range.1 <= from).unwrap();
        assert_eq!(first["protocol"], range.0, "{from} bytes: {rows:?}");
        let same = rows.iter().filter(|row| row["from"] == first["from"]);
        assert!(same.filter(|row| row["tried_after"].is_null()).count() == 1, "{rows:?}");
    }
    assert!(measured(&[off[0], ("BOWLINE_SELECT", "static")]).is_empty());
    assert!(measured(&[off[0], ("BOWLINE_RNDV_THRESHOLD", "1m")]).is_empty());
}

/// Messages that are repeated are counted, and what was measured of them is shown: how often each means was taken.
#[test]
fn repeated_messages_show_what_was_measured() {
    let send = ["explain", "--peer", "1", "--op", "tag_send", "--send"];
    let of = |more: &[&str], settings: &[(&str, &str)]| -> Value {
        let all = output(&[&send[..], more].concat(), settings);
        all["sent"].clone()
    };
    let counted = |sent: &Value, word: &str| -> u64 {
        let all = sent["messages"][0]["counted"].as_array().unwrap().iter();
        let counts = all.filter_map(|text| text.as_str()?.strip_suffix(word)?.split(' ').next());
        counts.map(|count| count.parse::<u64>().unwrap()).sum()
    };
    assert!(of(&["64k"], &[]).get("estimates").is_none(), "one message measures nothing");
    let set = [("BOWLINE_SELECT", "static")];
    let none = of(&["64k", "--repeat", "30"], &set);
    assert!(none["estimates"].as_array().unwrap().is_empty(), "{none}");
    assert_eq!(counted(&none, " (sender)"), 30, "{none}");
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skipped("ranks that share a processor measure nothing");
    }
    for window in ["1", "7"] {
        let sent = of(&["64k", "--repeat", "300", "--window", window], &[]);
        assert_eq!(counted(&sent, " (sender)"), 300, "{sent}");
        let rows = sent["estimates"].as_array().unwrap();
        // Of a window the first or the last message may count as a single one, as its sender sees it.
        let wanted = |row: &&Value| row["window"] == (window != "1") && row["from"] == 65536;
        let of_class: Vec<&Value> = rows.iter().filter(wanted).collect();
        let came: u64 = of_class.iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert!((100..=300).contains(&came), "{sent}");
        assert!(of_class.iter().any(|row| row["used"] == true), "{sent}");
        let latest = of_class.iter().filter_map(|row| row["age"].as_u64()).min();
        assert_eq!(latest, Some(0), "one of them came last: {sent}");
    }
}

#[test]
fn thresholds_of_the_user_stand() {
    let set = [("BOWLINE_CALIBRATION", "off"), ("BOWLINE_RNDV_THRESHOLD", "1000")];
    assert!(carried("1000", &set).contains("1 eager/bcopy"));
    assert!(carried("1001", &set).contains("1 rndv"));
}

#[test]
fn what_was_measured_is_remembered_and_steers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("costs");
    let path = file.to_str().unwrap();
    let set = [("BOWLINE_CALIBRATION", path)];
    let two = std::thread::available_parallelism().unwrap().get() >= 2;
    if !two {
        return skipped("ranks that share a processor measure nothing");
    }
    ranges(&set);
    let shown = output(&["calibrate", "--show"], &set);
    let figures = shown["figures"].as_array().unwrap();
    assert!(figures.iter().any(|f| f["figure"] == "copy" && f["origin"] == "probed"), "{shown}");
    // A machine on which reading is free: nothing goes eagerly but what always does.
    let changed = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [transport, figure, _, "probed"] => {
            let value = if figure.starts_with("get.") { "0" } else { "1000" };
            format!("{transport} {figure} {value} calibrated\n")
        }
        _ => format!("{line}\n"),
    };
    let book = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, book.lines().map(changed).collect::<String>()).unwrap();
    let reading = ranges(&set);
    assert!(reading[2] == ("rndv/get".to_owned(), 4097), "{reading:?}");
    finish({
        let mut command = command(["calibrate", "--forget"]);
        command.envs(set);
        command
    })
    .success();
    assert_eq!(output(&["calibrate", "--show"], &set)["figures"], Value::Array(Vec::new()));
}

#[test]
fn wrong_words_are_named() {
    for (arguments, word) in [
        (&["explain", "--op", "nothing"][..], "tag_send"),
        (&["explain", "--send", "many"][..], "many"),
        (&["explain", "--repeat", "9"][..], "--send"),
        (&["explain", "--send", "8", "--window", "2"][..], "--repeat"),
        (&["calibrate", "--transport", "smoke"][..], "smoke"),
    ] {
        let ended = finish(command(arguments));
        assert!(ended.code != Some(0) && ended.err.contains(word), "{arguments:?}: {ended:?}");
    }
}

/// Which protocol carried what is shown at the end of each rank, where that is asked for.
#[test]
fn a_report_names_what_was_used() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report");
    let set = [("BOWLINE_CALIBRATION", "off"), ("BOWLINE_REPORT", file.to_str().unwrap())];
    output(&["explain", "--peer", "1", "--op", "tag_send", "--send", "8,8,4m"], &set);
    let text = std::fs::read_to_string(&file).unwrap();
    let count = |rank: &str, protocol: &str| -> u64 {
        let of = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[1] == rank && words[3] == protocol
        };
        let line = text.lines().find(of);
        line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
    };
    let senders = ["0", "1"].map(|rank| count(rank, "rndv"));
    assert_eq!(senders.iter().sum::<u64>(), 1, "one message was offered:\n{text}");
    let readers = ["0", "1"].map(|rank| count(rank, "rndv/get") + count(rank, "rndv/mapped"));
    assert_eq!(readers.iter().sum::<u64>(), 1, "and read:\n{text}");
    assert!(count("0", "eager/short") + count("1", "eager/short") > 0, "{text}");
}

/// Operations that no message carries are priced too.
#[test]
fn one_sided_operations_have_protocols() {
    let off = [("BOWLINE_CALIBRATION", "off")];
    for (op, first) in [("put", "put/short"), ("get", "get/zcopy"), ("atomic", "atomic/native")] {
        let all = output(&["explain", "--peer", "1", "--op", op], &off);
        let shm = all["protocols"].as_array().unwrap().iter().find(|p| p["transport"] == "shm");
        let ranges = shm.unwrap()["operations"][0]["ranges"].as_array().unwrap();
        assert_eq!(ranges[0]["protocol"], first, "{op}");
    }
}
