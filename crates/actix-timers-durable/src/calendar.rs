//! Times of cron expressions.

pub(super) use parsed::{is_known, next_after};

#[cfg(feature = "cron")]
mod parsed {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use crate::due_time::DueTime;
    use actix_timers::Cron;

    /// Maximum number of cached expressions. Few programs have more.
    const REMEMBERED: usize = 1024;
    /// Maximum length of a cached expression: an expression may be as long as a record.
    const MAX_LEN: usize = 1024;

    thread_local! {
        /// Parsed expressions by expression and zone; none if not understood. Each is parsed once, not for every timer.
        static SEEN: RefCell<HashMap<(String, String), Option<Cron>>> = RefCell::new(HashMap::new());
    }

    /// Returns whether this build supports expression and zone. Without the feature `cron` it supports none.
    pub(in super::super) fn is_known(expression: &str, zone: &str) -> bool {
        with(expression, zone, |cron| cron.is_some())
    }

    /// Returns the first time of the expression after `after`; none if there is none, or if it is not [known](is_known).
    pub(in super::super) fn next_after(expression: &str, zone: &str, after: DueTime) -> Option<DueTime> {
        let next = with(expression, zone, |cron| cron?.next_after(after.to_system_time()))?;
        DueTime::at_or_after(next).ok()
    }

    fn with<R>(expression: &str, zone: &str, ask: impl FnOnce(Option<&Cron>) -> R) -> R {
        let parse = || Cron::new(expression).and_then(|cron| cron.in_time_zone(zone)).ok();
        if expression.len() + zone.len() > MAX_LEN {
            return ask(parse().as_ref());
        }
        SEEN.with_borrow_mut(|seen| {
            let key = (expression.to_owned(), zone.to_owned());
            if seen.len() >= REMEMBERED && !seen.contains_key(&key) {
                seen.clear();
            }
            ask(seen.entry(key).or_insert_with(parse).as_ref())
        })
    }
}

#[cfg(not(feature = "cron"))]
mod parsed {
    use crate::due_time::DueTime;

    pub(in super::super) const fn is_known(_: &str, _: &str) -> bool {
        false
    }

    pub(in super::super) const fn next_after(_: &str, _: &str, _: DueTime) -> Option<DueTime> {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::due_time::DueTime;

    #[test]
    fn an_expression_is_known_if_this_build_understands_it() {
        let noon = ("0 12 * * *", "Europe/Berlin");
        let eleven_in_utc = DueTime::from_millis(11 * 3_600_000).unwrap();
        let is_built_in = cfg!(feature = "cron");
        assert_eq!(is_known(noon.0, noon.1), is_built_in);
        assert_eq!(next_after(noon.0, noon.1, DueTime::MIN), is_built_in.then_some(eleven_in_utc));
        for (expression, zone) in [("not one", "UTC"), ("0 12 * * *", "Nowhere/Else")] {
            assert!(!is_known(expression, zone));
            assert_eq!(next_after(expression, zone, DueTime::MIN), None);
        }
    }
}
