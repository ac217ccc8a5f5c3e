//! Idempotency keys as they are kept: together with the name of the route, so that two parts of a program that do not know
//! each other do not replace each other's timers.

/// Stands between the two. No name of a route contains it.
const BETWEEN: char = '\u{1f}';

/// The key as it is kept.
pub(super) fn kept(route: &str, key: &str) -> String {
    format!("{route}{BETWEEN}{key}")
}

/// The key as the user gave it.
pub(super) fn of_user(kept: &str) -> &str {
    kept.split_once(BETWEEN).map_or(kept, |(_, key)| key)
}

/// Whether routes can have this name.
pub(super) fn is_route_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_routes_differ_and_come_back_as_they_were() {
        for (route, key) in [("a", ""), ("a", "b"), ("a:b", "c"), ("é", "\u{1f}x\u{1f}")] {
            assert!(is_route_name(route));
            assert_eq!(of_user(&kept(route, key)), key);
        }
        assert_ne!(kept("a", "b"), kept("b", "b"));
        for name in ["", "a\u{1f}", "a\nb", &"x".repeat(256)] {
            assert!(!is_route_name(name), "{name:?}");
        }
    }
}
