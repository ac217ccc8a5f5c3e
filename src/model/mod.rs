//! Plain data of the public API: ids, targets, options, repetitions, clocks, outcomes and descriptions of timers.
//!
//! Nothing here knows a service or schedules anything. In reading order:
//!
//! 1. Messages: `timer_message` is the bound for all of them, `handled_by` that with their actor; `source` produces the
//!    messages of repeating timers. `closure` is a message that runs itself; `returned_values` come back to their thread.
//! 2. Recipients: `target`, `mailbox_policy`; `due_timers` is the request of tracked delivery; `reply` the result of a
//!    handler.
//! 3. Time: `clock` with its `alarm`; `manual_clock` for tests; `request_time`, the creation time of a request.
//! 4. Schedules: `options`, `repeat`, `cron`; `duration_text` is the text form of durations.
//! 5. Ids: `id` with the keys of `secret`; `key_selector`, the timers that a call by key stands for; `actor_id`,
//!    `mailbox_id`; `shown` escapes untrusted text; `contain` catches the panics of user code.
//! 6. Replies: `error` has the outcomes and errors of all calls; `view` and `location` describe a timer; `filter`
//!    selects timers; `dead_letter` carries an undelivered message.

pub(crate) mod actor_id;
pub(crate) mod alarm;
pub(crate) mod clock;
pub(crate) mod closure;
pub(crate) mod contain;
#[cfg(feature = "cron")]
pub(crate) mod cron;
pub(crate) mod dead_letter;
pub(crate) mod due_timers;
#[cfg(feature = "serde")]
pub(crate) mod duration_text;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod handled_by;
pub(crate) mod id;
pub(crate) mod key_selector;
pub(crate) mod location;
pub(crate) mod mailbox_id;
pub(crate) mod mailbox_policy;
pub(crate) mod manual_clock;
pub(crate) mod options;
pub(crate) mod repeat;
pub(crate) mod reply;
pub(crate) mod request_time;
pub(crate) mod returned_values;
pub(crate) mod secret;
pub(crate) mod shown;
pub(crate) mod source;
pub(crate) mod target;
pub(crate) mod timer_message;
pub(crate) mod view;
