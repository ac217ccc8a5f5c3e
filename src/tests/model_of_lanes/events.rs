//! The events that are possible in a state, their effects, and what holds in every state.

use super::{Event, Failure, LATER, Mail, OWN, Place, Rule, State, TARGETS, Way, World};

#[derive(Default)]
struct Events(Vec<Event>);

impl Events {
    fn add(&mut self, event: Event, is_possible: bool) {
        self.0.extend(is_possible.then_some(event));
    }
}

impl World {
    /// The events that follow by themselves.
    pub(super) fn events_inside(&self, state: &State) -> Vec<Event> {
        let mut events = Events::default();
        let deadline = |index: &usize| match state.places[*index] {
            Place::Scheduled(deadline) => Some(deadline),
            _ => None,
        };
        let sender_is_free = state.outgoing.is_empty() || !self.keeps(Rule::OneSender);
        if let Some(next) = self.indices().filter(|index| deadline(index).is_some()).min_by_key(deadline) {
            let may_join = state.run.is_empty() || self.message(next).is_plain() || !self.keeps(Rule::RunBeforeJoin);
            events.add(Event::FallDue(next), sender_is_free && may_join);
        }
        for lane in [OWN, TARGETS] {
            events.add(Event::Step(lane), sender_is_free && state.lanes[lane].asks_for_step);
        }
        events.add(Event::PostRun, sender_is_free && !state.run.is_empty());
        let may_send = if self.keeps(Rule::OneSender) { 1 } else { 2 };
        (0..state.outgoing.len().min(may_send)).for_each(|position| events.add(Event::Send(position), true));
        let actor_is_free = !state.is_closed && !state.is_polled && state.bell.is_none();
        events.add(Event::Handle { endless: false }, actor_is_free && !state.mailbox.is_empty());
        let may_be_endless = state.budget.endless > 0 && state.mailbox.first().is_some_and(|mail| self.is_own(mail));
        events.add(Event::Handle { endless: true }, actor_is_free && may_be_endless);
        events.add(Event::PullForBell, self.bell_may_pull(state));
        events.add(Event::EndBell, state.bell.is_some());
        for index in self.indices() {
            events.add(Event::End(index), matches!(state.places[index], Place::Running | Place::TakenForEnded));
        }
        // A context polls its items once its mailbox is empty.
        let is_idle = actor_is_free && state.mailbox.is_empty() && !state.is_flooded;
        events.add(Event::Poll, is_idle && state.has_item && state.is_woken);
        events.add(Event::PullForItem, state.is_polled);
        events.add(Event::GiveWay, state.is_polled && !state.lanes[OWN].due.is_empty());
        let newest = self.own_posted(state).filter(|index| !state.outgoing.contains(&Mail::Message(*index)));
        let may_follow = newest.is_some() && !state.has_item && !state.is_followed;
        events.add(Event::LetFollow, may_follow && self.keeps(Rule::EndlessIsFollowed));
        let may_starve = state.has_item && !state.is_starved && !state.lanes[OWN].due.is_empty();
        events.add(Event::FindStarved, may_starve && self.keeps(Rule::Watchdog));
        let is_unfinished = |index: usize| match state.places[index] {
            Place::Posted | Place::Running if self.message(index).lane() == OWN => self.keeps(Rule::DrainWaits),
            place => matches!(place, Place::Due | Place::Posted | Place::Running | Place::Endless),
        };
        events.add(Event::EndDrain, state.is_draining && !self.indices().any(is_unfinished));
        events.0
    }

    /// The events of callers and surroundings, on which nothing may rely.
    pub(super) fn events_outside(&self, state: &State) -> Vec<Event> {
        let (mut events, left) = (Events::default(), state.budget);
        for index in self.indices().filter(|index| !self.message(*index).is_plain()) {
            let (place, next) = (state.places[index], self.message(index).next);
            let is_under_way = matches!(place, Place::Posted | Place::Running);
            let may_stop = next.is_some_and(|next| state.places[next] == Place::NotScheduled) && !state.is_stopped;
            let is_confirmed = place.waits() || (place == Place::Posted && !self.keeps(Rule::PostedHasLeft));
            events.add(Event::Cancel(index), left.cancels > 0 && (is_confirmed || (is_under_way && may_stop)));
            events.add(Event::Move(index), left.moves > 0 && place.waits());
        }
        events.add(Event::Close, left.closes > 0 && !state.is_closed);
        // An own message that is being sent is withdrawn afterwards.
        let is_sending = state.outgoing.iter().any(|mail| self.is_own(mail));
        events.add(Event::Restart, left.restarts > 0 && !state.is_closed && !is_sending);
        events.add(Event::Flood, left.floods > 0 && !state.is_flooded);
        events.add(Event::Calm, state.is_flooded);
        events.add(Event::Disconnect, left.departures > 0 && !state.is_disconnected && state.has_item);
        events.add(Event::Return, state.is_disconnected && !state.has_item && !state.is_closed);
        events.add(Event::Drain, left.drains > 0);
        events.0
    }

    /// The state after an event.
    pub(super) fn after(&self, before: &State, event: Event) -> Result<State, Failure> {
        let mut after = before.clone();
        let state = &mut after;
        match event {
            Event::FallDue(index) => self.fall_due(state, index)?,
            Event::Step(lane) => self.step(state, lane)?,
            Event::PostRun => {
                for index in std::mem::take(&mut state.run) {
                    state.places[index] = Place::Posted;
                    state.outgoing.push(Mail::Message(index));
                }
            }
            Event::Send(position) => self.send(state, position)?,
            Event::Handle { endless } => self.handle_mail(state, endless)?,
            Event::PullForBell => {
                if let Some((lane, _)) = state.bell {
                    self.pull(state, lane)?;
                }
            }
            Event::EndBell => self.end_bell(state),
            Event::End(index) => {
                self.end(state, index, Place::Delivered);
                if self.message(index).way == Way::Tracked && self.keeps(Rule::CommitAtEnd) {
                    self.commit(state, index)?;
                }
            }
            Event::Poll => {
                let is_kept = |index| self.message(index).way == Way::Closure && state.places[index].waits();
                let leaves = state.is_disconnected && !self.indices().any(is_kept);
                (state.is_woken, state.is_polled, state.has_item) = (false, !leaves, !leaves);
                state.lanes[OWN].asks_for_step |= leaves && self.keeps(Rule::StepAfterLeaving);
            }
            Event::PullForItem => self.pull_for_item(state)?,
            Event::GiveWay => (state.is_polled, state.is_woken) = (false, self.keeps(Rule::GivesWayWoken)),
            Event::LetFollow => {
                state.is_followed = true;
                let own = &mut state.lanes[OWN];
                (own.under_way, own.asks_for_step) = (own.under_way - 1, true);
            }
            Event::FindStarved => (state.is_starved, state.lanes[OWN].asks_for_step) = (true, true),
            Event::EndDrain => {
                (state.is_draining, state.is_drained) = (false, true);
                let scheduled = state.places.iter_mut().filter(|place| place.waits());
                scheduled.for_each(|place| *place = Place::Returned);
            }
            Event::Cancel(index) if state.places[index].waits() || !self.keeps(Rule::PostedHasLeft) => {
                state.budget.cancels -= 1;
                self.take_out(state, index, Place::Cancelled);
            }
            Event::Cancel(_) => {
                state.budget.cancels -= 1;
                state.is_stopped = true;
            }
            Event::Move(index) => {
                state.budget.moves -= 1;
                self.take_out(state, index, Place::Scheduled(LATER - state.budget.moves));
            }
            Event::Close => {
                state.budget.closes -= 1;
                self.end_incarnation(state);
                (state.is_closed, state.has_item) = (true, false);
                for mail in std::mem::take(&mut state.mailbox) {
                    self.lose(state, mail, Place::Delivered);
                }
            }
            Event::Restart => {
                state.budget.restarts -= 1;
                self.restart(state);
            }
            Event::Flood => {
                state.budget.floods -= 1;
                state.is_flooded = true;
            }
            Event::Calm => state.is_flooded = false,
            Event::Disconnect => {
                state.budget.departures -= 1;
                (state.is_disconnected, state.is_woken) = (true, true);
            }
            Event::Return => (state.has_item, state.is_woken, state.is_disconnected) = (true, true, false),
            Event::Drain => {
                state.budget.drains -= 1;
                state.is_draining = true;
            }
        }
        self.check(state)?;
        Ok(after)
    }

    pub(super) fn waits_beyond_window(&self, state: &State) -> bool {
        let lane = &state.lanes[TARGETS];
        let Some(last) = lane.due.last().map(|last| self.message(*last)) else { return false };
        last.discards && !state.is_closed && lane.due.len() as u32 > last.window.saturating_sub(lane.under_way)
    }

    /// Checks what holds in every state.
    fn check(&self, state: &State) -> Result<(), Failure> {
        for (index, lane) in state.lanes.iter().enumerate() {
            let is_its_bell = |mail: &&Mail| {
                matches!(mail, Mail::Bell { lane, incarnation, .. }
                    if *lane == index && (index == TARGETS || *incarnation == state.incarnation))
            };
            let runs = state.bell.is_some_and(|(rung, _)| rung == index);
            let waiting = state.outgoing.iter().chain(&state.mailbox).filter(is_its_bell).count();
            let bells = waiting + usize::from(runs && self.keeps(Rule::BellCountsToItsEnd));
            let under_way = self.under_way(state, index);
            if bells != lane.bells as usize || (index == TARGETS && under_way != lane.under_way) {
                return Err(Failure::Miscounted);
            }
            let Some(first) = lane.due.first() else { continue };
            let someone_looks = lane.asks_for_step
                || waiting > 0
                || runs
                || !state.outgoing.is_empty()
                || (index == OWN && state.has_item && (state.is_woken || state.is_polled));
            if !someone_looks && lane.under_way < self.message(*first).window {
                return Err(Failure::LostWakeUp(*first));
            }
            let rests = !lane.asks_for_step && !runs && state.outgoing.is_empty() && !state.is_closed;
            let room = self.message(*first).window.saturating_sub(lane.under_way);
            if rests && self.message(*first).way == Way::Tracked && lane.bells < room.min(lane.due.len() as u32) {
                return Err(Failure::TooFewBells(*first));
            }
        }
        let budget = self.scenario.budget;
        let is_undisturbed = budget.cancels + budget.moves == 0 && !self.scenario.hands_over_runs;
        let targets = &state.lanes[TARGETS];
        if is_undisturbed && targets.bells as usize > targets.due.len() {
            return Err(Failure::TooManyBells);
        }
        Ok(())
    }

    /// Returns a message that has not ended where nothing can happen any more.
    pub(super) fn unfinished(&self, state: &State) -> Option<usize> {
        // Only the item finds out that a posted own message has begun, and a flood keeps it from being polled.
        let is_blocked = state.is_flooded && state.places.contains(&Place::Endless);
        let is_finished = |index: usize| match state.places[index] {
            Place::Scheduled(_) | Place::Posted | Place::Running => false,
            Place::Due => {
                let waits = self.message(index).way == Way::Closure && !self.scenario.accepts_bells;
                state.is_flooded && waits || is_blocked && self.message(index).lane() == OWN
            }
            _ => true,
        };
        self.indices().find(|index| !is_finished(*index))
    }
}
