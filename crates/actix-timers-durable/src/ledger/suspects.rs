//! Which message is to blame when a process has died.
//!
//! A claim on disk names the deliveries that are under way. If the process dies, all of them have used an attempt, the innocent as
//! well as the one that killed it. A record whose attempts are used up in this way is a *suspect*
//! ([`Record::is_suspect`]). The dispatcher delivers suspects alone, with no other delivery under way. If the process dies once
//! more, and the claim of that delivery is the only one in the store, the record becomes a dead letter.
//!
//! The end of a process proves nothing if a handler may be running that no claim names, because it was given up, or if the
//! process ends by itself. A claim without members says so: then that of a suspect is not the only one.

use std::sync::Arc;

use super::internal_changes::InternalChange;
use super::{Horizon, Ledger};
use crate::record::{Record, RetryPolicy};
use crate::store::{Change, Claim};

/// Whether these are the claims of a process that died during one delivery.
pub(super) fn is_of_one_delivery(claims: &[Claim]) -> bool {
    matches!(claims, [claim] if claim.members.len() == 1)
}

/// Why a suspect that was alone is a dead letter.
pub(super) fn reason(record: &Record, policy: RetryPolicy) -> Arc<str> {
    let (attempt, attempts) = (record.progress.attempt, policy.attempts);
    format!("the process ended during attempt {attempt}, with no other delivery under way ({attempts} allowed)").into()
}

impl<H: Horizon> Ledger<H> {
    /// The policy whose attempts a record has used up, if it has.
    pub(super) fn used_up(&self, record: &Record) -> Option<RetryPolicy> {
        let of_route = (self.policy_of)(&record.route, &record.message_type)?;
        record.is_suspect(of_route).then(|| record.retry_policy(of_route))
    }

    /// From now on nobody is blamed for the end of this process.
    pub(super) fn exonerate(&mut self) {
        if self.exoneration.is_none() {
            let number = self.table.next_claim();
            self.exoneration = Some(number);
            self.queue_internal(Change::Claim(Claim { number, members: Vec::new() }), InternalChange::Bookkeeping);
        }
    }

    /// The shard is given up. Deliveries that are under way come again, and their process has not died.
    pub(super) fn exonerate_at_close(&mut self) {
        if self.table.in_flight() > 0 {
            self.exonerate();
        } else if let Some(number) = self.exoneration.take() {
            self.queue_internal(Change::EndClaim { number }, InternalChange::Bookkeeping);
        }
    }
}
