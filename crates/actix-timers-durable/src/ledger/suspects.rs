//! The message to blame for the death of a process.
//!
//! A claim on disk names the deliveries in progress. If the process dies, all of them have used an attempt, the
//! innocent as well as the one that killed it. A record whose attempts are used up in this way is a *suspect*
//! ([`Record::is_suspect`]). The dispatcher delivers suspects alone, with no other delivery in progress. If the process
//! dies again, and the claim of that delivery is the only one in the store, the record becomes a dead letter.
//!
//! The end of a process proves nothing if it was regular, or if a handler may still be running that timed out and is in
//! no claim. A claim without members records this: then a suspect's claim is not the only one.

use std::sync::Arc;

use super::internal_changes::InternalChange;
use super::{Horizon, Ledger};
use crate::record::{Record, RetryPolicy};
use crate::store::{Change, Claim};

/// Returns whether a process died during one delivery, given its claims.
pub(super) fn is_of_one_delivery(claims: &[Claim]) -> bool {
    matches!(claims, [claim] if claim.members.len() == 1)
}

/// Returns the reason for the dead letter of a suspect that was alone.
pub(super) fn reason(record: &Record, policy: RetryPolicy) -> Arc<str> {
    let (attempt, attempts) = (record.progress.attempt, policy.attempts);
    format!("the process ended during attempt {attempt}, with no other delivery under way ({attempts} allowed)").into()
}

impl<H: Horizon> Ledger<H> {
    /// Returns the policy whose attempts a record has used up, if any.
    pub(super) fn used_up(&self, record: &Record) -> Option<RetryPolicy> {
        let of_route = (self.policy_of)(&record.route, &record.message_type)?;
        record.is_suspect(of_route).then(|| record.retry_policy(of_route))
    }

    /// Records that the end of this process blames no message, from now on.
    pub(super) fn exonerate(&mut self) {
        if self.exoneration.is_none() {
            let number = self.table.next_claim();
            self.exoneration = Some(number);
            self.queue_internal(Change::Claim(Claim { number, members: Vec::new() }), InternalChange::Bookkeeping);
        }
    }

    /// Records at closing that deliveries in progress will be repeated, and their process has not died.
    pub(super) fn exonerate_at_close(&mut self) {
        if self.table.in_flight() > 0 {
            // After the shard was given up, only its owner may add a claim.
            if !self.is_former() {
                self.exonerate();
            }
        } else if let Some(number) = self.exoneration.take() {
            self.queue_internal(Change::EndClaim { number }, InternalChange::Bookkeeping);
        }
    }
}
