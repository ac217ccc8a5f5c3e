//! The workloads.
//!
//! | words | file | measurement |
//! |---|---|---|
//! | `start` `churn` `stop` `steady-start` | `life` | nanoseconds per operation, with N timers pending, on three layers |
//! | `percentiles` | `life` | p50, p99 and p99.9 of single operations of the same |
//! | `message-cost` | `message_cost` | an ordinary message to an actor with timers pending |
//! | `fire` | `fire` | lateness and cost of messages due within two seconds |
//! | `burst` | `burst` | all due at one moment, and the delay of other messages meanwhile |
//! | `sessions` | `sessions` | actors with one heartbeat or idle time-out each: memory, CPU time, cost of a message |
//! | `idle` | `idle` | one timer an hour away: wake-ups and CPU time |
//! | `memory` | `memory` | bytes per pending timer, and bytes left after the cancel of all |
//! | `producers` | `producers` | two scheduling threads against one |
//! | `flood` | `flood` | lateness of due timers while others are scheduled as fast as possible |
//! | `expire` | `expire` | nanoseconds per entry that expires in a bare wheel, cascades included |
//! | `wheel-sizes` | `wheel_sizes` | `start`, `churn`, `stop` and `expire` for wheels of several sizes |

mod burst;
mod expire;
mod fire;
mod flood;
mod idle;
mod life;
mod memory;
mod message_cost;
mod producers;
mod sessions;
mod stage;
mod wheel_sizes;

use crate::arguments::Arguments;
use crate::child::Workload;
use bench::rows::Rows;

/// Runs the selected workloads of an entry.
type Run = fn(&Arguments, &mut Rows);

/// The names on the command line, with the function that runs them, in this order.
pub(crate) const ALL: [(&[&str], Run); 12] = [
    (&life::WORKLOADS, life::run),
    (&[life::PERCENTILES], life::percentiles),
    (&["message-cost"], message_cost::run),
    (&["fire"], fire::run),
    (&["burst"], burst::run),
    (&["sessions"], sessions::run),
    (&["idle"], idle::run),
    (&["memory"], memory::run),
    (&["producers"], producers::run),
    (&["flood"], flood::run),
    // These pause tokio's clock. Every later reading of it takes a lock, in the whole process, so they come last.
    (&["expire"], expire::run),
    (&["wheel-sizes"], wheel_sizes::run),
];

/// Returns the workloads in processes of their own.
pub(crate) fn in_children() -> impl Iterator<Item = &'static Workload> {
    let several = burst::WORKLOADS.iter().chain(&sessions::WORKLOADS);
    several.chain([&fire::WORKLOAD, &idle::WORKLOAD, &memory::WORKLOAD, &producers::WORKLOAD, &flood::WORKLOAD])
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().flat_map(|(names, _)| names.iter().copied())
}
