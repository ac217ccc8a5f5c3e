//! Idempotency keys as stored: prefixed with the name of the route, so that independent parts of a program do not
//! replace each other's timers.

/// The separator. No name of a route contains it.
const BETWEEN: char = '\u{1f}';

/// Returns the key as stored.
pub(super) fn kept(route: &str, key: &str) -> String {
    format!("{route}{BETWEEN}{key}")
}

/// Returns the user's key.
pub(super) fn of_user(kept: &str) -> &str {
    kept.split_once(BETWEEN).map_or(kept, |(_, key)| key)
}

/// Returns whether a route can have this name.
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
