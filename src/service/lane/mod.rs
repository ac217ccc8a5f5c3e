//! The room of lanes: the due messages of one recipient, first in, first out, and their ways to it.
//!
//! A message leaves its lane in one of two ways. It is *pulled* on the recipient's own thread, and a cancel is exact until
//! then; or it is *posted* into the mailbox, and has left. For messages that wait to be pulled the mailbox carries *bells*,
//! each a request to look at the lane. Plain messages for targets are posted in runs, without a lane.
//!
//! In reading order:
//!
//! 1. `step`: a lane's facts in, one decision out. `tests::model_of_lanes` acts on these decisions in every order of
//!    events, and again without each rule on which they rely.
//! 2. `lanes`: the lanes of a timer actor, and the facts of each.
//! 3. `serve`: each lane lets as many messages go as its recipient takes.
//! 4. `dispatch`: requests to recipients with a window; `bells`: messages that are pulled; `posted`: own messages on their
//!    way through the mailbox of their actor.
//! 5. `reply_waiter`: the answer of a recipient, awaited without a task, and the acknowledgement of the end.
//! 6. `slow_recipients`: recipients that let a message wait, and the longest wait.

pub(crate) mod bells;
pub(crate) mod dispatch;
pub(crate) mod lanes;
pub(crate) mod posted;
pub(crate) mod reply_waiter;
pub(crate) mod serve;
pub(crate) mod slow_recipients;
pub(crate) mod step;
