use std::alloc::System;

use super::arena::tests::{layout, numbers};
use super::*;

/// The arenas are those of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn who_asks_for_none_gets_none() {
    let _alone = alone();
    let dense = Dense(System);
    // SAFETY: the layout is not empty; the block came from there with it.
    unsafe {
        let block = dense.alloc(layout(100));
        assert_eq!(purpose_of(block), None);
        let kept = densely(|| dense.alloc(layout(100)));
        assert_eq!(purpose_of(kept), Some(Purpose::Kept));
        let larger = dense.realloc(kept, layout(100), 5000);
        assert_eq!(purpose_of(larger), None);
        dense.dealloc(larger, layout(5000));
        dense.dealloc(block, layout(100));
        let huge = densely(|| dense.alloc(layout(MOST + 1)));
        assert_eq!(purpose_of(huge), None);
        dense.dealloc(huge, layout(MOST + 1));
    }
    assert_eq!(PURPOSE.get(), None);
    assert!(std::panic::catch_unwind(|| densely(|| panic!("as it has to"))).is_err());
    assert_eq!(PURPOSE.get(), None);
}

#[test]
fn what_is_resized_keeps_what_is_in_it() {
    let _alone = alone();
    let dense = Dense(System);
    allocate_densely();
    // SAFETY: the layouts are those that the blocks have.
    unsafe {
        let mut block = dense.alloc_zeroed(layout(10));
        assert_eq!(std::slice::from_raw_parts(block, 10), [0; 10]);
        block.write_bytes(7, 10);
        let mut size = 10;
        for next in [30, 32, 33, 500, 5000, 4097, 70_000, MOST, MOST + 1, 2 * MOST, 5000, 12] {
            block = dense.realloc(block, layout(size), next);
            assert_eq!(purpose_of(block).is_some(), next <= MOST, "{next}");
            assert_eq!(std::slice::from_raw_parts(block, 10), [7; 10], "{next}");
            size = next;
        }
        dense.dealloc(block, layout(size));
        // What was used before is zeros again.
        let block = dense.alloc_zeroed(layout(12));
        assert_eq!(std::slice::from_raw_parts(block, 12), [0; 12]);
        dense.dealloc(block, layout(12));
    }
}

/// Some allocate aside, others free what they are given and allocate what they keep.
#[test]
fn threads_free_what_others_allocated() {
    let _alone = alone();
    const THREADS: usize = 3;
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    std::thread::scope(|scope| {
        let ends: Vec<_> = (0..THREADS).map(|_| std::sync::mpsc::channel::<(usize, usize)>()).collect();
        let (gives, takes): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        for (number, takes) in takes.into_iter().enumerate() {
            scope.spawn(move || {
                let mut below = numbers(number as u64);
                for (block, size) in takes {
                    let block = ptr::with_exposed_provenance_mut::<u8>(block);
                    // SAFETY: it was given with its layout, and nobody else has it.
                    unsafe {
                        assert!((0..size).all(|at| *block.add(at) == size as u8));
                        Dense(System).dealloc(block, layout(size));
                        let size = 1 + below(300);
                        let own = densely(|| Dense(System).alloc(layout(size)));
                        own.write_bytes(1, size);
                        Dense(System).dealloc(own, layout(size));
                    }
                }
            });
        }
        for number in 0..2 {
            let gives = gives.clone();
            scope.spawn(move || {
                allocate_densely();
                let mut below = numbers(10 + number);
                for round in 0..rounds {
                    let size = 1 + below(3000);
                    // SAFETY: the layout is not empty.
                    let block = unsafe { Dense(System).alloc(layout(size)) };
                    // SAFETY: as many bytes as were asked for.
                    unsafe { block.write_bytes(size as u8, size) };
                    gives[round % THREADS].send((block.expose_provenance(), size)).expect("they listen");
                    if round % 500 == 499 {
                        begin_anew();
                        give_back();
                    }
                }
            });
        }
        drop(gives);
    });
    // By a thread that gives back what others leave.
    allocate_densely();
    give_back();
    for purpose in [Purpose::Aside, Purpose::Kept] {
        // Blocks that were left are freed by whoever has the lock next.
        assert!(LEFT[purpose as usize].load(Ordering::Relaxed).is_null());
    }
}

/// Whoever has the arenas, a thread that serves does not wait for it, whatever it does.
#[test]
fn who_serves_waits_for_nobody() {
    let _alone = alone();
    let dense = Dense(System);
    // SAFETY: the layout is not empty.
    let kept = densely(|| unsafe { dense.alloc(layout(100)) });
    assert_eq!(purpose_of(kept), Some(Purpose::Kept));
    let kept = kept.expose_provenance();
    let held = [locked(Purpose::Aside), locked(Purpose::Kept)];
    let (tell, told) = std::sync::mpsc::channel();
    let serves = std::thread::spawn(move || {
        give_back();
        let kept = ptr::with_exposed_provenance_mut::<u8>(kept);
        // SAFETY: the block has that layout, and nobody else has it; the other one comes from there.
        unsafe {
            let other = densely(|| dense.alloc(layout(100)));
            tell.send(purpose_of(other)).expect("the test waits");
            dense.dealloc(other, layout(100));
            dense.dealloc(kept, layout(100));
        }
        tell.send(None).expect("the test waits");
    });
    let wait = || told.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!((wait(), wait()), (Ok(None), Ok(None)));
    serves.join().expect("it is done");
    assert!(!LEFT[Purpose::Kept as usize].load(Ordering::Relaxed).is_null());
    drop(held);
    drop(locked(Purpose::Kept));
    assert!(LEFT[Purpose::Kept as usize].load(Ordering::Relaxed).is_null());
}
