//! Reading of values of every form, errors that help, warnings on misspelt names, origins.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

crate::choice! {
    /// Colours.
    enum Colour {
        /// Red.
        Red = "red",
        /// Green.
        Green = "green",
    }
}

crate::settings! {
    /// Settings of every form.
    const SETTINGS = [
        /// A size.
        SIZE: usize = Setting::<usize>::bytes("BOWLINE_TEST_SIZE", 8192, 64, 1 << 30)
            .cost("memory").change("never");
        /// A size or not.
        THRESHOLD: Option<usize> =
            Setting::<Option<usize>>::bytes_or_auto("BOWLINE_TEST_THRESHOLD", 0, 1 << 20)
            .cost("nothing").change("to compare");
        /// A number,
        /// described on two lines.
        COUNT: u32 = Setting::<u32>::integer("BOWLINE_TEST_COUNT", 3, 1, 10)
            .cost("time").change("sometimes");
        /// A large number.
        SEED: u32 = Setting::<u32>::integer("BOWLINE_TEST_SEED", 1, 0, u32::MAX)
            .cost("nothing").change("to vary");
        /// A switch.
        SWITCH: bool = Setting::<bool>::switch("BOWLINE_TEST_SWITCH", false)
            .cost("nothing").change("at will");
        /// A time.
        TIME: Duration = Setting::<Duration>::time(
            "BOWLINE_TEST_TIME",
            Duration::from_millis(10),
            Duration::ZERO,
            Duration::from_secs(60),
        ).cost("patience").change("on slow machines");
        /// A word.
        COLOUR: Colour = Setting::<Colour>::choice("BOWLINE_TEST_COLOUR", "green")
            .cost("nothing").change("by taste");
        /// A text.
        TEXT: String = Setting::<String>::text("BOWLINE_TEST_TEXT", "plain")
            .cost("nothing").change("at will");
    ];
}

const OTHER: &[Descriptor] = &[];

fn read(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::from_pairs(pairs.iter().copied(), &[SETTINGS, OTHER])
}

#[test]
fn defaults_are_what_was_declared() {
    let config = read(&[]).unwrap();
    assert_eq!(config.get(SIZE), 8192);
    assert_eq!(config.get(THRESHOLD), None);
    assert_eq!(config.get(COUNT), 3);
    assert_eq!(config.get(SEED), 1);
    assert!(!config.get(SWITCH));
    assert_eq!(config.get(TIME), Duration::from_millis(10));
    assert_eq!(config.get(COLOUR), Colour::Green);
    assert_eq!(config.get(TEXT), "plain");
    assert_eq!(config.origin(SIZE), Origin::Default);
    assert!(config.unknown().is_empty());
}

#[test]
fn the_environment_is_read_in_every_form() {
    let config = read(&[
        ("BOWLINE_TEST_SIZE", " 2M "),
        ("BOWLINE_TEST_THRESHOLD", "64kb"),
        ("BOWLINE_TEST_COUNT", "10"),
        ("BOWLINE_TEST_SEED", "4294967295"),
        ("BOWLINE_TEST_SWITCH", "Yes"),
        ("BOWLINE_TEST_TIME", "250us"),
        ("BOWLINE_TEST_COLOUR", "RED"),
        ("BOWLINE_TEST_TEXT", " kept as it is "),
        ("HOME", "somewhere"),
        ("BOWLINE_JOB_FD", "5"),
    ])
    .unwrap();
    assert_eq!(config.get(SIZE), 2 << 20);
    assert_eq!(config.get(THRESHOLD), Some(64 << 10));
    assert_eq!(config.get(COUNT), 10);
    assert_eq!(config.get(SEED), u32::MAX);
    assert!(config.get(SWITCH));
    assert_eq!(config.get(TIME), Duration::from_micros(250));
    assert_eq!(config.get(COLOUR), Colour::Red);
    assert_eq!(config.get(TEXT), " kept as it is ");
    assert_eq!(config.origin(COLOUR), Origin::Environment);
    assert!(config.unknown().is_empty(), "{:?}", config.unknown());
}

#[test]
fn bad_values_are_all_named_with_the_way_out() {
    let error = read(&[
        ("BOWLINE_TEST_SIZE", "2t"),
        ("BOWLINE_TEST_COUNT", "11"),
        ("BOWLINE_TEST_TIME", "5"),
        ("BOWLINE_TEST_SWITCH", "perhaps"),
        ("BOWLINE_TEST_COLOUR", "blue"),
        ("BOWLINE_TEST_THRESHOLD", "-1"),
    ])
    .unwrap_err();
    let ConfigError::BadValues(bad) = &error else { panic!("{error}") };
    assert_eq!(bad.len(), 6);
    let text = error.to_string();
    for part in [
        "BOWLINE_TEST_COUNT=\"11\"",
        "a whole number from 1 to 10",
        "without the variable it is 3",
        "one of red, green",
        "from 64 to 1g",
        "auto, or a size in bytes",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let broken = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let error = Config::from_pairs([("BOWLINE_TEST_TEXT", broken)], &[SETTINGS]).unwrap_err();
    assert!(matches!(error, ConfigError::BadValues(_)));
}

#[test]
fn sizes_that_overflow_are_refused() {
    assert!(read(&[("BOWLINE_TEST_SIZE", "18446744073709551615g")]).is_err());
    assert!(read(&[("BOWLINE_TEST_SIZE", "99999999999999999999")]).is_err());
}

#[test]
fn misspelt_names_are_reported_with_the_nearest_one() {
    let config = read(&[("BOWLINE_TEST_COLOR", "red"), ("BOWLINE_QQ", "1")]).unwrap();
    let [first, second] = config.unknown() else { panic!("{:?}", config.unknown()) };
    assert_eq!(first.name, "BOWLINE_QQ");
    assert_eq!(first.nearest, None);
    assert_eq!(second.nearest, Some("BOWLINE_TEST_COLOUR"));
    assert!(second.to_string().contains("nearest one is BOWLINE_TEST_COLOUR"));
    assert_eq!(config.get(COLOUR), Colour::Green);
}

#[test]
fn the_program_has_the_last_word_within_the_bounds() {
    let mut config = read(&[("BOWLINE_TEST_COUNT", "5")]).unwrap();
    config.set(COUNT, 7).unwrap();
    assert_eq!((config.get(COUNT), config.origin(COUNT)), (7, Origin::Program));
    assert!(config.set(COUNT, 11).is_err());
    assert_eq!(config.get(COUNT), 7);
    config.set(COLOUR, Colour::Red).unwrap();
    assert_eq!(config.get(COLOUR), Colour::Red);
    config.set(THRESHOLD, Some(77)).unwrap();
    assert_eq!(config.get(THRESHOLD), Some(77));
    config.set_text("BOWLINE_TEST_THRESHOLD", "auto").unwrap();
    assert_eq!(config.get(THRESHOLD), None);
    let error = config.set_text("BOWLINE_TEST_CUONT", "1").unwrap_err();
    assert!(error.to_string().contains("BOWLINE_TEST_COUNT"), "{error}");
}

#[test]
fn rows_say_everything_and_can_be_written_back() {
    let config = read(&[("BOWLINE_TEST_SIZE", "3k")]).unwrap();
    let rows: Vec<SettingRow> = config.rows().collect();
    assert_eq!(rows.len(), SETTINGS.len());
    assert!(rows.is_sorted_by_key(|row| row.name));
    let size = rows.iter().find(|row| row.name == "BOWLINE_TEST_SIZE").unwrap();
    assert_eq!((size.value.as_str(), size.default.as_str()), ("3k", "8k"));
    assert_eq!(size.origin, Origin::Environment);
    let count = rows.iter().find(|row| row.name == "BOWLINE_TEST_COUNT").unwrap();
    assert_eq!(count.doc, "A number, described on two lines.");
    let again =
        Config::from_pairs(rows.iter().map(|row| (row.name, row.value.clone())), &[SETTINGS]);
    let again: Vec<String> = again.unwrap().rows().map(|row| row.value).collect();
    assert_eq!(again, rows.iter().map(|row| row.value.clone()).collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "was not given to this configuration")]
fn a_setting_of_a_table_that_was_left_out_is_noticed() {
    let _ = Config::defaults(&[OTHER]).get(SIZE);
}

#[test]
#[should_panic(expected = "two tables declare")]
fn a_name_declared_twice_is_noticed() {
    let _ = Config::defaults(&[SETTINGS, SETTINGS]);
}

proptest! {
    #[test]
    fn sizes_and_times_come_back_as_written(bytes: u64, nanos: u64) {
        prop_assert_eq!(text::read_bytes(&show_bytes(bytes)), Some(bytes));
        let time = Duration::from_nanos(nanos);
        prop_assert_eq!(text::read_time(&show_time(time)), Some(time));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".*") {
        for descriptor in SETTINGS {
            let _ = Config::from_pairs([(descriptor.name(), text.as_str())], &[SETTINGS]);
        }
    }
}
