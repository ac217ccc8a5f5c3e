//! Serving lanes: messages leave a lane as far as its [step](crate::service::lane::step) allows, when a message joins or
//! an answer makes room.

use std::task::Waker;
use std::time::Duration;

use crate::engine::OwnerId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::service::deliver::job::WINDOW_FULL;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::lane::lanes::{Item, LaneState, Progress};
use crate::service::lane::reply_waiter::Sent;
use crate::service::lane::step::Step;
use crate::service::state::{Service, Session, State};

/// Messages that leave one lane before other lanes have their turn.
const FROM_ONE_LANE: usize = 64;

impl State {
    /// Marks an own lane whose item will not look at it soon: the driver does, or the watchdog at once, since the
    /// driver may be on the thread of a starved actor.
    pub(crate) fn mark_without_item(&mut self, lane: OwnerId, wakeup: &mut Wakeup) {
        let Some(lane_state) = self.engine.owner(lane).filter(|lane_state| !lane_state.has_ended()) else { return };
        let is_starved = lane_state.progress == Progress::Starved && self.engine.inbox_len(lane) > 0;
        // One that has left may have been the last reason of its actor to live.
        if is_starved || lane_state.item == Item::Left {
            wakeup.poke = true;
            self.mark_ready(lane);
        }
        if is_starved {
            wakeup.first_deadline = Some(0);
            self.lanes.ready_since = Some(Duration::ZERO);
        }
    }
}

impl Session<'_> {
    /// Lets up to `most` messages of a lane leave, as far as possible. Returns the number of messages that have left it.
    pub(crate) fn serve(&mut self, lane: OwnerId, most: usize) -> usize {
        let mut sent = 0;
        let mut rests = false;
        while sent < most && !rests {
            let policy = self.service.settings.mailbox_policy;
            let Some((facts, next)) = self.state().lane(lane, policy) else { break };
            let step = facts.step();
            // Nothing joins meanwhile. With one message left, or a bell for each, nothing else is to be done.
            rests = match step {
                // An own lane has one bell.
                Step::Ring => next.actor.is_none() || facts.bells + 1 >= facts.due,
                Step::Post => facts.due == 1,
                Step::Discard => false,
                // An item that is there was woken when the message joined.
                Step::Rest | Step::Wake | Step::End => {
                    if !facts.has_item && facts.under_way > 0 {
                        self.follow_later(lane);
                    }
                    break;
                }
            };
            sent += 1;
            match (step, next.ways.post) {
                (Step::Ring, _) => self.ring(lane, &next),
                (Step::Discard, _) => self.discard_newest(lane),
                (_, Some(post)) => {
                    if let Some(due) = self.state().engine.send_off(next.key) {
                        post(self, lane, due);
                    }
                }
                (_, None) => break,
            }
        }
        let state = self.state();
        if sent == most && !rests {
            state.mark_ready(lane);
        }
        state.note_waiting(lane);
        if let Some(removed) = state.remove_lane(lane) {
            self.unlocked().drop_contained(removed);
        }
        sent
    }

    /// Makes a dead letter of the newest message of a lane, which does not fit into its window.
    fn discard_newest(&mut self, lane: OwnerId) {
        let service = self.service;
        let state = self.state();
        let newest = state.engine.last_due(lane);
        let payload = newest.and_then(|key| state.engine.payload(key));
        let policy = payload.and_then(|payload| state.stores.target_of(payload)).map(|target| target.policy);
        let policy = policy.map(|policy| policy.unwrap_or(service.settings.mailbox_policy));
        let (Some(key), Some(MailboxPolicy::Discard { .. })) = (newest, policy) else {
            // The one that was to be discarded was cancelled, and those before it may wait.
            if let Some(targets) = state.engine.owner_mut(lane).and_then(LaneState::targets_mut) {
                targets.discards = false;
            }
            return;
        };
        if let Some(due) = state.engine.send_off(key)
            && let Some(ways) = state.stores.ways(due.payload)
        {
            (ways.lose)(self, due, WINDOW_FULL);
        }
    }

    /// Serves the marked lanes, within a budget. Returns true if there are more.
    pub(crate) fn serve_ready(&mut self, now: Duration) -> bool {
        let mut budget = self.service.settings.expiry_budget;
        while budget > 0
            && let Some(lane) = self.state().take_ready()
        {
            let sent = if self.is_alive(lane, now) { self.serve(lane, budget.min(FROM_ONE_LANE)) } else { 0 };
            budget = budget.saturating_sub(sent.max(1));
            self.state().reports.published.ask_to_publish();
        }
        let state = self.state();
        let more = state.has_ready();
        if !more {
            state.lanes.ready_since = None;
        }
        more
    }
}

impl Service {
    /// Handles the end of a message or a bell that was under way from a lane, which may be able to move, or has ended.
    pub(super) fn has_ended(&self, mut state: StateGuard<'_>, lane: OwnerId, sent: Sent) {
        let mut wakeup = Wakeup::default();
        let pulled = match sent {
            Sent::Pulled { key, .. } => Some((key, state.finish_tracked(key, &mut wakeup))),
            Sent::Own(_) | Sent::Request | Sent::Bell => None,
        };
        let posted = if let Sent::Own(number) = sent { state.end_posted(lane, number) } else { None };
        state.uncount(lane, sent);
        // A bell ends no timer.
        wakeup.poke |= sent != Sent::Bell && state.reports.published.ask_to_publish();
        let waker = state.wake_inbox(lane);
        state.mark_without_item(lane, &mut wakeup);
        let may_move = state.is_for_targets(lane) && state.engine.inbox_len(lane) > 0 && state.mark_ready(lane);
        let removed = state.remove_lane(lane);
        drop(state);
        self.drop_contained((posted, removed));
        waker.into_iter().for_each(Waker::wake);
        self.notify(wakeup);
        if let Some((key, repeated)) = pulled {
            self.contain(|| self.handled(key, repeated));
        }
        if may_move {
            self.request_turn();
        }
        if self.is_stopped() && sent != Sent::Bell {
            // No turn follows that would. The recorder is foreign code.
            self.contain(|| self.publish());
        }
    }

    /// Wakes the driver to serve the marked lanes.
    pub(crate) fn request_turn(&self) {
        if self.has_watchdog() {
            let now = self.read_clock();
            self.state().lanes.ready_since.get_or_insert(now);
            self.announce(self.tick.round_down(now));
        }
        self.turns.wake_driver();
    }
}
