//! Both homes of a normal build behave alike, and the mapped one stays inside its line.

use super::*;
use crate::sync::CacheLine;

/// Two lines of plain memory, with the view that `DirectWords` wants.
fn mapped(lines: &mut Box<[CacheLine<[u64; LINE_WORDS]>]>) -> DirectWords {
    let len = lines.len() * LINE;
    // SAFETY: the box is used only through the view from here on.
    let view = unsafe { View::from_raw(lines.as_mut_ptr().cast(), len) };
    // SAFETY: callers keep the box until the words are gone.
    unsafe { DirectWords::from_view(view) }.expect("a Line starts on a line")
}

fn exercise<W: Words>(words: &W) {
    let line = words.line(1);
    line.store(0, 5, Ordering::Release);
    assert_eq!(line.fetch_add(0, 3, Ordering::AcqRel), 5);
    line.add(0, 1, Ordering::Relaxed);
    assert_eq!(line.swap(0, 1, Ordering::AcqRel), 9);
    assert!(!line.replace(0, 2, 7));
    assert!(line.replace(0, 1, 7));
    assert_eq!(line.load(0, Ordering::Acquire), 7);
    line.write(1, u64::MAX);
    assert_eq!(line.read(1), u64::MAX);
    for len in 0..=24 {
        let bytes: Vec<u8> = (1..=len as u8).collect();
        line.put(5, &bytes);
        let mut out = vec![0; len];
        line.get(5, &mut out);
        assert_eq!(out, bytes);
    }
    line.prefetch_read();
    line.prefetch_write();
}

#[test]
fn homes_behave_alike() {
    exercise(&HeapWords::new(2 * LINE));
    let mut lines: Box<[CacheLine<[u64; LINE_WORDS]>]> =
        (0..2).map(|_| CacheLine::default()).collect();
    // SAFETY: the box is used only through the view from here on, and outlives it.
    let view = unsafe { View::from_raw(lines.as_mut_ptr().cast(), 2 * LINE) };
    exercise(&ViewWords::new(view).expect("a Line starts on a line"));
    assert!(ViewWords::new(view.slice(8, LINE).expect("inside")).is_none(), "not on a line");
    let mut lines: Box<[CacheLine<[u64; LINE_WORDS]>]> =
        (0..2).map(|_| CacheLine::default()).collect();
    exercise(&mapped(&mut lines));
}

#[test]
fn a_put_ends_with_its_line() {
    let mut lines: Box<[CacheLine<[u64; LINE_WORDS]>]> =
        (0..2).map(|_| CacheLine::default()).collect();
    let words = mapped(&mut lines);
    words.line(0).put(6, &[0xff; 64]);
    assert_eq!(words.line(0).read(7), u64::MAX);
    assert_eq!(words.line(1).read(0), 0, "the next line is untouched");
    assert_eq!(words.line(0).bytes(6, 100).len(), 16);
    assert!(words.bytes(1, LINE).is_some());
    assert!(words.bytes(1, LINE + 1).is_none());
    assert!(words.bytes(3, 0).is_none());
}

#[test]
fn a_crooked_start_is_refused() {
    let mut lines: Box<[CacheLine<[u64; LINE_WORDS]>]> =
        (0..2).map(|_| CacheLine::default()).collect();
    // SAFETY: the box is used only through the view.
    let view = unsafe { View::from_raw(lines.as_mut_ptr().cast(), 2 * LINE) };
    let crooked = view.slice(8, LINE).expect("inside");
    // SAFETY: the box outlives the attempt.
    assert!(unsafe { DirectWords::from_view(crooked) }.is_none());
}
