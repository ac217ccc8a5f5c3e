//! Tests of levels: sizes, slots, turns, the end of the range.

use super::super::tick::MAX_TICK;
use super::*;

#[test]
fn a_wheel_size_is_at_least_two_and_at_most_the_maximum() {
    for refused in [0, 1, MAX_WHEEL_SIZE + 1, usize::MAX] {
        assert_eq!(WheelSize::new(refused), Err(TimingError::WheelSize(refused)));
    }
    for accepted in [2, 3, 20, 256, MAX_WHEEL_SIZE] {
        let size = WheelSize::new(accepted).unwrap();
        assert_eq!((size.get(), size.ring()), (accepted, 2 * accepted));
    }
}

#[test]
fn a_slot_covers_width_ticks_and_the_ring_comes_round() {
    for (size, width) in [(2usize, 1u64), (3, 1), (3, 3), (8, 64), (20, 400)] {
        let ring = 2 * size;
        let grid = Grid::new(0, width, ring);
        for tick in 0..4 * ring as u64 * width {
            let slot = grid.slot(tick);
            assert!(slot < ring);
            let next = grid.slot(tick + 1);
            let expected = if (tick + 1) % width == 0 { (slot + 1) % ring } else { slot };
            assert_eq!(next, expected, "size {size} width {width} tick {tick}");
            for distance in 0..ring {
                let start = grid.start(tick, distance);
                assert_eq!(start, (tick / width + distance as u64) * width);
                assert_eq!(grid.slot(start), grid.wrap(slot + distance));
            }
        }
        assert_eq!(grid.slot(0), 0);
    }
}

#[test]
fn a_turn_ends_after_its_last_tick() {
    for span in [1, 2, 3, 8, 20, 400] {
        for tick in 0..5 * span {
            let end = turn_end(tick, span);
            assert!(end > tick && end - tick <= span && end.is_multiple_of(span));
            let start = turn_start_from(tick, span);
            assert!(start >= tick && start - tick < span && start.is_multiple_of(span));
        }
    }
}

#[test]
fn the_arithmetic_saturates_at_the_end_of_the_range() {
    let size = WheelSize::new(20).unwrap();
    assert_eq!(span_of(u64::MAX / 20, size), u64::MAX / 20 * 20);
    assert_eq!(span_of(u64::MAX / 20 + 1, size), u64::MAX);
    assert_eq!(turn_end(MAX_TICK, u64::MAX), u64::MAX);
    assert_eq!(turn_end(MAX_TICK, 1 << 63), u64::MAX);
    assert_eq!(turn_end(0, 1 << 63), 1 << 63);
    assert_eq!(turn_start_from(MAX_TICK, 1 << 63), u64::MAX);
    assert_eq!(turn_start_from(1 << 63, 1 << 63), 1 << 63);
    for width in [1 << 63, u64::MAX] {
        let grid = Grid::new(0, width, size.ring());
        assert_eq!((grid.slot(MAX_TICK), grid.start(MAX_TICK, 1)), ((MAX_TICK / width) as usize, u64::MAX));
    }
    let grid = Grid::new(3, 1 << 63, 4);
    assert_eq!((grid.slot(MAX_TICK), grid.bucket(MAX_TICK)), (1, BucketNumber(13)));
}
