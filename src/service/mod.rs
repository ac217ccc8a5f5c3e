//! The service behind a timer actor: schedules, delivers, queues and describes timers, for callers on any thread.
//!
//! One lock guards the engine and the messages. Operations under it are short and bounded, and no user code runs under
//! it (see `deliver::message_stores`). Lists of subscribers, spans and the watchdog's services have
//! small locks of their own. The turn to send is a lock, too, for which no thread waits.
//!
//! The driver, on the timer actor's arbiter, delivers due messages; a request with an earlier deadline than its alarm
//! wakes it.
//!
//! In reading order:
//!
//! 1. `state`: a service, and the state behind its lock, whose parts lie in the rooms; and the session of work
//!    that gives up the lock in between.
//! 2. `schedule`: a request becomes an admitted timer.
//! 3. `deliver`: a due message leaves its store; driver, turns and watchdog.
//! 4. `lane`: due messages of one recipient, and the decision which may leave.
//! 5. `owner`: actors with timers of their own, and their inboxes; dead letters.
//! 6. `query`: descriptions, lists, cancels of many, drains and stops.
//! 7. `reports`: publications to make; spans, warnings and dead letters for a subscriber of `tracing`.

pub(crate) mod deliver;
pub(crate) mod lane;
pub(crate) mod owner;
pub(crate) mod query;
mod reports;
pub(crate) mod schedule;
pub(crate) mod state;
