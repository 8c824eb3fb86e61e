use std::collections::BTreeMap;

use super::*;

/// An arena of its own.
fn arena() -> Box<Arena> {
    let mut arena = Box::new(Arena::new());
    arena.begin(system::reserve(ARENA).expect("addresses"));
    arena
}

pub(in super::super) fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a small one")
}

fn block(arena: &mut Arena, size: usize) -> *mut u8 {
    arena.alloc(layout(size)).expect("memory").0.as_ptr()
}

/// Pages of the arena that are in memory.
fn resident(arena: &Arena) -> usize {
    let mut pages = vec![0_u8; ARENA / system::page_len()];
    // SAFETY: reads nothing of the memory, and writes a byte for each page.
    assert_eq!(unsafe { libc::mincore(arena.base.cast(), ARENA, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|flags| **flags & 1 != 0).count()
}

/// Numbers that are the same each time.
pub(in super::super) fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    }
}

#[test]
fn every_size_has_the_least_class_that_has_room_for_it_and_is_aligned() {
    for size in 1..=MOST.min(3 * SMALL) {
        let class = class(layout(size)).map(|class| (class, SIZES[class]));
        match class {
            None => assert!(size > SMALL),
            Some((class, room)) => {
                assert!(room >= size && (class == 0 || SIZES[class - 1] < size), "{size}")
            }
        }
    }
    for (size, align) in [(1, 64), (65, 64), (24, 32), (1000, 256), (1, 2048), (1500, 1024)] {
        let found = class(Layout::from_size_align(size, align).unwrap()).map(|class| SIZES[class]).unwrap();
        assert!(
            found >= size && found.is_multiple_of(align) && PAGE.is_multiple_of(found),
            "{size} {align}: {found}"
        );
    }
    assert_eq!(class(Layout::from_size_align(8, 4096).unwrap()), None);
}

/// Whatever comes and goes, blocks do not overlap, and in the end nothing is left.
#[test]
fn blocks_keep_what_is_in_them_until_they_are_freed() {
    let mut arena = arena();
    let mut below = numbers(1);
    let mut held: BTreeMap<usize, (*mut u8, usize, u8)> = BTreeMap::new();
    for turn in 0..if cfg!(miri) { 600 } else { 60_000 } {
        if below(5) < 3 && held.len() < 4000 {
            let size = match below(20) {
                0 => 1 + below(100_000),
                1..4 => 1 + below(8000),
                _ => 1 + below(600),
            };
            let Some((block, is_zero)) = arena.alloc(layout(size)) else { continue };
            let (block, mark) = (block.as_ptr(), turn as u8);
            // SAFETY: as many bytes as were asked for.
            unsafe {
                assert!(!is_zero || (0..size).all(|at| *block.add(at) == 0));
                block.write_bytes(mark, size);
            }
            assert!(arena.room(block) >= size);
            held.insert(turn, (block, size, mark));
        } else if let Some((&first, _)) = held.range(below(turn + 1)..).next() {
            let (block, size, mark) = held.remove(&first).expect("it was there");
            // SAFETY: it is in use until it is freed.
            unsafe {
                assert!((0..size).all(|at| *block.add(at) == mark));
                arena.free(block);
            }
        }
        match below(3000) {
            0 => arena.give_back(),
            1 => arena.begin_anew(),
            _ => {}
        }
    }
    for (block, ..) in held.into_values() {
        // SAFETY: it is in use.
        unsafe { arena.free(block) };
    }
    assert_eq!((arena.shared, arena.used), (0, 0));
    arena.give_back();
    assert_eq!((arena.end, arena.closed), (0, 0));
    assert!(arena.lists.iter().all(|lists| *lists == [0, 0]));
}

#[test]
#[cfg_attr(miri, ignore = "asks which pages are in memory")]
fn what_is_left_of_much_keeps_little() {
    let mut arena = arena();
    let blocks: Vec<*mut u8> = (0..100_000).map(|at| block(&mut arena, 32 + at % 500)).collect();
    // SAFETY: it is in use.
    blocks.iter().for_each(|block| unsafe { block.write(1) });
    let all = resident(&arena);
    assert!(all > 5000);
    for (_, block) in blocks.iter().enumerate().filter(|(at, _)| at % 10_000 != 0) {
        // SAFETY: it is in use.
        unsafe { arena.free(*block) };
    }
    arena.give_back();
    // A page for each that is left, and one of notes for each chunk.
    assert!(resident(&arena) <= 10 + arena.end, "{} of {all}", resident(&arena));
    blocks.iter().step_by(10_000).for_each(|block| {
        // SAFETY: it is in use.
        unsafe { arena.free(*block) }
    });
    arena.give_back();
    assert_eq!(resident(&arena), 0);
}

#[test]
fn what_begins_anew_has_pages_of_its_own_unless_much_is_free_in_former_ones() {
    let mut arena = arena();
    let page = |block: *mut u8| block.addr() / PAGE;
    let former = [block(&mut arena, 100), block(&mut arena, 100)];
    assert_eq!(page(former[0]), page(former[1]));
    arena.begin_anew();
    let new = block(&mut arena, 100);
    assert_ne!(page(new), page(former[0]));
    // SAFETY: it is in use.
    unsafe { arena.free(former[1]) };
    assert_eq!(page(block(&mut arena, 100)), page(new));
    // One block of each page stays.
    let many: Vec<*mut u8> = (0..4096).map(|_| block(&mut arena, 1024)).collect();
    for block in many.iter().filter(|block| page(block.wrapping_sub(1024)) == page(**block)) {
        // SAFETY: it is in use.
        unsafe { arena.free(*block) };
    }
    arena.begin_anew();
    let again = block(&mut arena, 1024);
    assert!(many.iter().any(|former| page(*former) == page(again)));
}

#[test]
fn a_full_page_of_former_times_is_left_alone_when_it_gets_room() {
    let mut arena = arena();
    let former: Vec<*mut u8> = (0..PAGE / 2048).map(|_| block(&mut arena, 2048)).collect();
    arena.begin_anew();
    // SAFETY: it is in use.
    unsafe { arena.free(former[0]) };
    assert_ne!(block(&mut arena, 2048).addr() / PAGE, former[0].addr() / PAGE);
}
