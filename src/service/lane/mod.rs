//! The decision who may leave a lane: the due messages of one recipient, first in, first out.
//!
//! A message leaves in one of two ways. It is *pulled* on the recipient's own thread, and a cancel is exact until then; or
//! it is *posted* into the mailbox, and has left. For messages that wait to be pulled the mailbox carries *bells*, each a
//! request to look at the lane.
//!
//! 1. `step`: a lane's facts in, one decision out. The queues of recipients act on it.
//! 2. `model_of_lanes`: a small world that acts on these decisions, in every order of events; and again without each rule on which
//!    they rely.

#[cfg(test)]
mod model_of_lanes;
pub(crate) mod step;
