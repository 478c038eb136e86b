//! Tables of lent memory: what is found in them, and that it is given back only when nobody copies it.

use super::*;

use bowline_base::sync::atomic::{AtomicBool, Ordering};

fn lend(table: &Lent, bytes: &[u8], writable: bool) -> Entered {
    // SAFETY: the tests keep the bytes until they have removed what is entered, and read them only.
    unsafe { table.enter(bytes.as_ptr().addr() as u64, bytes.len(), writable) }
}

#[test]
fn only_what_is_lent_is_held_and_only_for_what_it_is_lent() {
    let table = Lent::new(41);
    let bytes = vec![7u8; 100];
    let start = bytes.as_ptr().addr() as u64;
    assert_eq!(table.hold(start, 1, Direction::Read).unwrap_err(), NotHeld::Nothing);
    let whole = lend(&table, &bytes, false);
    assert_eq!(table.hold(start, 100, Direction::Read).unwrap().view().to_vec(), bytes);
    assert_eq!(table.hold(start + 99, 1, Direction::Read).unwrap().view().to_vec(), [7]);
    for (from, len) in [(start, 101), (start + 100, 1), (start - 1, 2), (u64::MAX - 2, 8)] {
        assert_eq!(table.hold(from, len, Direction::Read).unwrap_err(), NotHeld::Nothing);
    }
    assert_eq!(table.hold(start, 1, Direction::Write).unwrap_err(), NotHeld::Nothing);
    // A part of it that may be written lies inside, and does not hide the rest.
    let part = lend(&table, &bytes[10..20], true);
    assert!(table.hold(start + 10, 10, Direction::Write).is_ok());
    assert!(table.hold(start + 10, 50, Direction::Read).is_ok());
    assert!(table.hold(start + 10, 50, Direction::Write).is_err());
    table.remove(whole);
    assert!(table.hold(start, 1, Direction::Read).is_err());
    assert!(table.hold(start + 10, 10, Direction::Read).is_ok());
    table.remove(part);
    assert!(table.hold(start + 10, 10, Direction::Read).is_err());
}

#[test]
fn a_table_is_found_by_its_instance_while_it_lives() {
    let table = Lent::new(42);
    assert!(Arc::ptr_eq(&Lent::of(42).unwrap(), &table));
    assert!(Lent::of(43).is_none());
    drop(table);
    assert!(Lent::of(42).is_none());
}

/// Rule 3: the owner that removes a piece has it back only when nobody copies from it any more.
#[test]
fn removal_waits_for_the_copies_under_way() {
    let table = Lent::new(44);
    let bytes = vec![1u8; 64];
    let entered = lend(&table, &bytes, true);
    let held = table.hold(bytes.as_ptr().addr() as u64, 64, Direction::Write).unwrap();
    let removed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            table.remove(entered);
            removed.store(true, Ordering::SeqCst);
        });
        // Taken out of the table first: nobody else finds it.
        while table.hold(bytes.as_ptr().addr() as u64, 1, Direction::Read).is_ok() {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            assert!(!removed.load(Ordering::SeqCst), "a copy is under way");
            std::thread::yield_now();
        }
        held.view().copy_in(&[9; 64]);
        drop(held);
    });
    assert!(removed.load(Ordering::SeqCst));
    assert_eq!(bytes, [9; 64]);
}

/// Rule 4: a lookup does not wait for a thread that it has interrupted.
#[test]
fn a_search_does_not_wait_for_the_lock() {
    let table = Lent::new(45);
    let bytes = [1u8; 8];
    let start = bytes.as_ptr().addr() as u64;
    let entered = lend(&table, &bytes, false);
    let lock = table.lock();
    assert_eq!(table.hold(start, 8, Direction::Read).unwrap_err(), NotHeld::Busy);
    drop(lock);
    assert!(table.hold(start, 8, Direction::Read).is_ok());
    table.remove(entered);
}

/// Rule 5: there are as many pieces for handlers as are said, beside all others, and they come back when nobody holds them.
#[test]
fn pieces_of_handlers_are_found_and_come_back() {
    let table = Lent::new(46);
    let bytes = [3u8; 64];
    let start = bytes.as_ptr().addr() as u64;
    // SAFETY: the bytes are kept until what is entered is removed, and read only.
    let enter = |len| unsafe { table.enter_signal_safe(start, len) };
    for _ in 0..3 {
        let ordinary = lend(&table, &bytes[..8], false);
        let mut entered: Vec<_> = std::iter::from_fn(|| enter(64)).collect();
        assert_eq!(entered.len(), OF_HANDLERS);
        let held = table.hold(start + 1, 63, Direction::Write).expect("it may be written");
        drop(held);
        for (from, len) in [(start, 65), (start + 64, 1), (start - 1, 2)] {
            assert_eq!(table.hold(from, len, Direction::Read).unwrap_err(), NotHeld::Nothing);
        }
        table.remove(entered.pop().unwrap());
        // The length is that of the new one.
        let short = enter(10).expect("one has come back");
        entered.into_iter().for_each(|entered| table.remove(entered));
        assert!(table.hold(start, 10, Direction::Write).is_ok());
        assert!(table.hold(start, 11, Direction::Write).is_err());
        table.remove(short);
        assert!(table.hold(start, 8, Direction::Write).is_err());
        assert!(table.hold(start, 8, Direction::Read).is_ok());
        table.remove(ordinary);
        assert!(table.hold(start, 1, Direction::Read).is_err());
    }
    let lock = table.lock();
    assert!(enter(1).is_none(), "it waits for a thread that it has interrupted");
    drop(lock);
}

/// Rule 3, of a piece of a handler.
#[test]
fn removal_waits_for_the_copies_into_what_a_handler_has_lent() {
    let table = Lent::new(47);
    let bytes = [1u8; 64];
    let start = bytes.as_ptr().addr() as u64;
    // SAFETY: the bytes are kept until what is entered is removed, and reached by copies only.
    let entered = unsafe { table.enter_signal_safe(start, 64) }.expect("there is space");
    let held = table.hold(start, 64, Direction::Write).unwrap();
    let removed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            table.remove(entered);
            removed.store(true, Ordering::SeqCst);
        });
        while table.hold(start, 1, Direction::Read).is_ok() {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            assert!(!removed.load(Ordering::SeqCst), "a copy is under way");
            std::thread::yield_now();
        }
        drop(held);
    });
    assert!(removed.load(Ordering::SeqCst));
}
