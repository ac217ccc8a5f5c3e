use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::*;

#[test]
fn equal_texts_and_equal_numbers_are_equal_keys() {
    let mut keys = HashSet::new();
    for key in [
        TimerKey::from("a"),
        TimerKey::from("a".to_owned()),
        TimerKey::from(Arc::<str>::from("a")),
        TimerKey::from(3_u8),
        TimerKey::from(3_isize),
        TimerKey::from(-3_i8),
        TimerKey::from(-3_i64),
        TimerKey::from(u64::MAX),
        TimerKey::from(0_u8),
        TimerKey::from(0_i8),
        TimerKey::from("3"),
        TimerKey::from(("a", 3)),
        TimerKey::from((String::from("a"), TimerKey::from(3_u8))),
        TimerKey::from((("a",), (3,))),
    ] {
        assert_eq!(key, key.clone());
        keys.insert(key);
    }
    assert_eq!(keys.len(), 7);
    assert_eq!((TimerKey::from("a").as_str(), TimerKey::from(3).as_str()), (Some("a"), None));
    let mut sorted: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    sorted.sort();
    let expected = [
        "TimerKey(\"3\")",
        "TimerKey(\"a\")",
        "TimerKey(-3)",
        "TimerKey(0)",
        "TimerKey(18446744073709551615)",
        "TimerKey(3)",
        "TimerKey([TimerKey(\"a\"), TimerKey(3)])",
    ];
    assert_eq!(sorted, expected);
}

#[test]
fn different_keys_have_different_hashes() {
    let tuples: [TimerKey; 4] = [("a", 3).into(), ("a", "3").into(), ("a/3",).into(), ("a", 3, 3).into()];
    let mut keys: Vec<TimerKey> = vec!["a".into(), "b".into(), "3".into(), 3.into(), (-3).into(), "a/3".into()];
    keys.extend(tuples);
    let hash_of = |key: &TimerKey| BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    assert_eq!(keys.iter().map(hash_of).collect::<HashSet<u64>>().len(), keys.len());
}

#[test]
fn numbers_come_before_texts_and_these_before_tuples() {
    let mut keys: Vec<TimerKey> =
        vec![("a", 1).into(), "b".into(), 5.into(), "a".into(), (1, "z").into(), (-1).into(), u64::MAX.into()];
    keys.sort();
    let shown: Vec<String> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["-1", "5", "18446744073709551615", "a", "b", "1/z", "a/1"]);
}
