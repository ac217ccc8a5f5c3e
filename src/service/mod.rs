//! The service behind a timer actor: what may be asked of it, from any thread, and how it does it.
//!
//! One lock guards the engine and the messages. What is done under it is short and bounded, and no code of the user runs
//! meanwhile (see `message_stores`). The driver, on the timer actor's arbiter, turns time into deliveries; whoever schedules
//! something that is due earlier than the driver expects wakes it.
//!
//! In reading order:
//!
//! 1. `requests`: schedule, cancel, reschedule, look; `deadline`: when a message is wanted; `admission`: how a timer is taken
//!    in; `options`: schedule with options; `random`: what jitter is made of; `selection`: many timers at a time;
//!    `description`: what is known of one; `survey`: a look at the wheel in small steps.
//! 2. `message_stores`: where messages wait, and how each leaves; `slab`: the memory of one store; `carried`: how large messages are
//!    kept.
//! 3. `repeating`: timers that repeat; `series`: how their messages are made; `series_delivery`: how they leave.
//! 4. `driver`: the alarm, and what one turn does; `turns`: who takes one; `detached`: actors that have stopped.
//! 5. `inbox`: how an actor's own messages reach it; `wake_flag`: how it is called; `spare`: what brings it back if it is
//!    cancelled by mistake; `thread_registry`: which context is which owner; `mailbox_delivery`: the way through the mailbox.
//! 6. `recipient_queues`: where messages wait whose recipient does not keep up; `dispatch`: how they leave, and how tracked ones are
//!    withdrawn; `reply_waiter`: how recipients answer.
//! 7. `slow_recipients`: recipients that let what is due wait, and since when.
//! 8. `watchdog`: what happens when an arbiter is kept busy; `next_check`: how it is called.
//! 9. `closing`: drain and stop; `wind_down`: what happens before a drain that leaves time; `subscribers`: who hears of what was lost.
//! 10. `directory`: which service an id belongs to.
//! 11. `activity`: what is left to do at one moment, for tests in virtual time.
//! 12. `foreign_code`: a test that no code of the user runs under the lock.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod by_hand;
pub(crate) mod deliver;
#[cfg(test)]
mod foreign_code;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod handshakes;
pub(crate) mod owner;
pub(crate) mod query;
pub(crate) mod queue;
mod reports;
pub(crate) mod schedule;
#[cfg(test)]
mod simulated;
pub(crate) mod state;
