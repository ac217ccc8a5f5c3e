//! The guarantees of the timer actor in virtual time, one module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod actor_timers;
mod all_arbiters;
mod batch;
mod bounds;
mod closures;
mod computed_times;
mod counters;
#[cfg(feature = "cron")]
mod cron;
mod dead_letters;
mod drain;
mod edges;
mod guard;
mod input;
mod installed;
mod jitter_and_slack;
mod key_types;
mod keyed;
mod lifecycle;
mod locations;
mod mailbox_policies;
mod order_and_cancel;
mod rejected;
mod repeating;
mod repeating_ends;
mod repeating_in_queues;
mod request_time;
mod scenarios_cancel;
mod scenarios_firing;
mod scenarios_service;
mod scenarios_targets;
mod scenarios_threads;
mod selection;
#[cfg(feature = "serde")]
mod serialized;
mod slow;
mod time;
mod tracked;
mod user_code;
mod virtual_time;
