use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::*;

#[test]
fn texts_of_all_lengths_are_equal_however_they_were_made() {
    let hash_of = |text: &Text| BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
    let mut all: Vec<Text> = Vec::new();
    for length in 0..50 {
        let text: String = "aß€𝄞".chars().cycle().take(length).collect();
        let forms = [Text::new(&text), Text::shared(&text.as_str().into())];
        for form in &forms {
            assert_eq!((form, form.as_str(), hash_of(form)), (&forms[0], text.as_str(), hash_of(&forms[0])));
            assert_eq!(matches!(form, Text::Short { .. }), text.len() <= SHORT);
            assert!(all.iter().all(|other| other < form && hash_of(other) != hash_of(form)));
        }
        all.push(forms[0].clone());
    }
    assert_eq!(size_of::<Text>(), 24);
}
