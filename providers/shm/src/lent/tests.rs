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
