use super::*;

#[test]
fn it_is_in_proportion_to_the_random_number() {
    let span = Duration::from_secs(10);
    assert_eq!(jitter(span, 0), Duration::ZERO);
    assert_eq!(jitter(span, u64::MAX / 2).as_secs(), 5);
    assert_eq!(jitter(span, u64::MAX), span);
}

/// SplitMix64.
fn random(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |count: u64| {
        let mut mixed = seed.wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

#[test]
fn it_is_never_negative_and_never_more_than_the_span() {
    let nanos = Duration::from_nanos;
    let spans = [Duration::ZERO, nanos(1), nanos(2), nanos(u64::MAX), nanos(u64::MAX) + nanos(1), Duration::MAX];
    for span in spans {
        for random in random(7).take(10_000).chain([0, 1, u64::MAX - 1, u64::MAX]) {
            assert!(jitter(span, random) <= span, "{span:?} {random}");
        }
        assert_eq!(jitter(span, 0), Duration::ZERO);
    }
    for span in random(3).take(10_000).map(nanos) {
        assert!(jitter(span, u64::MAX) <= span, "{span:?}");
    }
    assert_eq!(jitter(nanos(1000), u64::MAX), nanos(1000));
}

#[test]
fn it_grows_with_the_number() {
    for span in [Duration::from_nanos(5), Duration::from_secs(60), Duration::MAX] {
        let mut numbers: Vec<u64> = random(1).take(1000).collect();
        numbers.sort_unstable();
        assert!(numbers.is_sorted_by_key(|random| jitter(span, *random)));
    }
}

/// Each tenth of the span gets a tenth of 100 000 values, within 5 %.
#[test]
fn it_spreads_evenly() {
    for span in [Duration::from_nanos(9), Duration::from_millis(10), Duration::from_secs(3600), Duration::MAX] {
        let mut tenths = [0u32; 10];
        for random in random(11).take(100_000) {
            let place = jitter(span, random).as_nanos() * 10 / (span.as_nanos() + 1);
            tenths[usize::try_from(place).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|tenth| (9_500..=10_500).contains(tenth)), "{span:?} {tenths:?}");
    }
}
