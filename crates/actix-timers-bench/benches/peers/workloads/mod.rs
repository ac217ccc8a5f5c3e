//! What is measured.
//!
//! | words | file | what |
//! |---|---|---|
//! | `start` `churn` `stop` | `life` | nanoseconds per operation, with N timers pending, on three layers |
//! | `message-cost` | `message_cost` | an ordinary message to an actor with timers pending |
//! | `fire` | `fire` | how late messages come that are due within two seconds, and what that costs |
//! | `burst` | `burst` | all due at one moment, and how long others wait meanwhile |
//! | `idle` | `idle` | one timer an hour away: wake-ups and processor time |
//! | `memory` | `memory` | bytes per pending timer, and what is left when all are cancelled |
//! | `producers` | `producers` | two that schedule against one |
//! | `flood` | `flood` | how late is what falls due while timers are scheduled as fast as it goes |
//! | `expire` | `expire` | nanoseconds per entry that comes due in a bare wheel, cascades included |
//! | `wheel-sizes` | `wheel_sizes` | the four above for wheels of several sizes |

mod burst;
mod expire;
mod fire;
mod flood;
mod idle;
mod life;
mod memory;
mod message_cost;
mod producers;
mod stage;
mod wheel_sizes;

use crate::arguments::Arguments;
use crate::child::{Figures, Request};
use bench::rows::Rows;

/// Runs what is wanted of the workloads it is listed with.
type Run = fn(&Arguments, &mut Rows);

/// The words for the command line, and who runs them, in this order.
pub(crate) const ALL: [(&[&str], Run); 10] = [
    (&life::WORKLOADS, life::run),
    (&["message-cost"], message_cost::run),
    (&["fire"], fire::run),
    (&["burst"], burst::run),
    (&["idle"], idle::run),
    (&["memory"], memory::run),
    (&["producers"], producers::run),
    (&["flood"], flood::run),
    // These pause tokio's clock. From then on every reading of it takes a lock, in the whole process, so they come last.
    (&["expire"], expire::run),
    (&["wheel-sizes"], wheel_sizes::run),
];

/// Measures what a child is asked for.
pub(crate) fn in_child(request: &Request) -> Figures {
    let measure = match request.workload.as_str() {
        "fire" => fire::in_child,
        burst::TO_ONE | burst::TO_THOUSAND => burst::in_child,
        "idle" => idle::in_child,
        "memory" => memory::in_child,
        "producers" => producers::in_child,
        "flood" => flood::in_child,
        unknown => panic!("no child measures '{unknown}'"),
    };
    measure(request)
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().flat_map(|(names, _)| names.iter().copied())
}
