//! Filters, and what a line says.

use std::sync::{Arc, Mutex};

use super::*;

/// Keeps lines in place of writing them.
struct Kept(Filter, Arc<Mutex<Vec<String>>>);

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.0.level_of(metadata.target())
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.1.lock().unwrap().push(line(event, Some(3)));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn lines(filter: &str, events: impl FnOnce()) -> Vec<String> {
    let kept = Arc::default();
    let subscriber = Kept(Filter::parse(filter).unwrap(), Arc::clone(&kept));
    dispatcher::with_default(&Dispatch::new(subscriber), events);
    let lines = kept.lock().unwrap();
    lines.clone()
}

#[test]
fn a_line_has_the_rank_the_target_the_message_and_the_fields() {
    let got = lines("warn", || {
        let error = "no such file";
        tracing::warn!(target: "bowline::x", peer = 7, %error, name = "a b", "cannot open {}", 1);
        tracing::info!(target: "bowline::x", "not wanted");
        tracing::error!(target: "bowline::x", "two\nlines");
    });
    assert_eq!(
        got,
        [
            " WARN rank 3 bowline::x: cannot open 1 peer=7 error=no such file name=\"a b\"\n",
            "ERROR rank 3 bowline::x: two; lines\n",
        ]
    );
}

#[test]
fn the_longest_target_decides() {
    let got = lines("error,bowline_ucp=info,bowline_ucp::engine=off", || {
        tracing::info!(target: "bowline_ucp", "a");
        tracing::debug!(target: "bowline_ucp::send", "b");
        tracing::info!(target: "bowline_ucp::send", "c");
        tracing::error!(target: "bowline_ucp::engine::arrive", "d");
        tracing::info!(target: "bowline_ucpx", "e");
        tracing::error!(target: "bowline_ucpx", "f");
    });
    let said: Vec<char> = got.iter().map(|l| l.trim_end().chars().last().unwrap()).collect();
    assert_eq!(said, ['a', 'c', 'f']);
}

#[test]
fn what_is_no_list_of_levels_is_an_error_that_names_the_setting() {
    for wrong in ["loud", "warn,loud", "a=b=c", "bowline_ucp", "=debug", "warn,debug", "[x]=warn"] {
        let config = Config::from_pairs([("BOWLINE_LOG", wrong)], crate::stack::SETTINGS).unwrap();
        let error = filter(&config).unwrap_err().to_string();
        assert!(error.contains("BOWLINE_LOG") && error.contains("expected off"), "{error}");
        assert!(start(&config).is_err(), "{wrong}");
    }
    for right in ["off", "WARN", "", " debug , bowline_tcp = trace", "bowline_ucp=debug"] {
        let config = Config::from_pairs([("BOWLINE_LOG", right)], crate::stack::SETTINGS).unwrap();
        filter(&config).unwrap();
    }
    assert_eq!(Filter::parse(LOG_DEFAULT), Filter::parse(""));
}

const LOG_DEFAULT: &str = "warn";
