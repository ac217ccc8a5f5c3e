use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::*;

#[test]
fn groups_compare_and_hash_by_their_names() {
    let hash_of = |group: &TimerGroup| BuildHasherDefault::<DefaultHasher>::default().hash_one(group);
    let forms = [
        TimerGroup::from("a"),
        TimerGroup::from("a".to_owned()),
        TimerGroup::from(Arc::<str>::from("a")),
        TimerGroup::from(Box::<str>::from("a")),
        TimerGroup::from(&"a"),
        TimerGroup::from(&"a".to_owned()),
        TimerGroup::from(Cow::from("a")),
    ];
    let other = TimerGroup::from("b");
    for group in &forms {
        assert_eq!((group, hash_of(group)), (&forms[0], hash_of(&forms[0])));
        assert_ne!(group, &other);
        assert_ne!(hash_of(group), hash_of(&other), "different groups spread over the tables");
        assert!(group < &other);
    }
}

#[test]
fn a_group_is_shown_by_its_name() {
    let group = TimerGroup::from("campaign \"7\"");
    assert_eq!(
        (group.to_string(), format!("{group:?}")),
        ("campaign \"7\"".into(), r#"TimerGroup("campaign \"7\"")"#.into())
    );
}
