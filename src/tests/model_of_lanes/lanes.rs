//! The lanes: what each event does to them, as the code around the step is to do it.

use super::{Failure, LaneState, Mail, OWN, Place, Rule, State, TARGETS, Way, World};
use crate::service::lane::step::{Lane, Step};

impl World {
    /// The facts of a lane. Some rules are taken away by a false one.
    fn facts(&self, state: &State, lane: usize) -> Lane {
        let LaneState { due, joined, rung, bells, under_way, .. } = &state.lanes[lane];
        let can_be_pulled = |index: &usize| match self.message(*index).way {
            Way::Own | Way::Closure => self.scenario.accepts_bells,
            way => way == Way::Tracked,
        };
        let is_bound = |index: &usize| matches!(self.message(*index).way, Way::Closure | Way::Tracked);
        let first = due.first().map(|first| self.message(*first));
        let mut facts = Lane {
            due: due.len() as u32,
            first: if lane == OWN { 0 } else { due.first().map_or(0, |first| state.stamps[*first].into()) },
            joined: (*joined).into(),
            rung: (*rung).into(),
            bells: *bells,
            under_way: *under_way,
            window: first.map_or(1, |first| first.window),
            discards: due.last().is_some_and(|last| self.message(*last).discards),
            can_be_pulled: due.first().is_some_and(can_be_pulled),
            can_be_posted: self.postable(state, lane).is_some(),
            has_item: lane == OWN && state.has_item && !state.is_starved,
            is_gone: state.is_closed,
        };
        match self.without {
            Some(Rule::EachJoinRings) => facts.rung = facts.joined,
            Some(Rule::RoomRings) if facts.rung == facts.joined => facts.bells = facts.bells.max(facts.due),
            Some(Rule::PostBehindNoBell) if facts.can_be_posted => facts.bells = 0,
            Some(Rule::BellsWithinWindow) => facts.bells = facts.bells.min(facts.due.saturating_sub(1)),
            Some(Rule::WindowAtPost) if facts.can_be_posted => facts.window = u32::MAX,
            Some(Rule::Saturates) => facts.window = facts.under_way + facts.window.wrapping_sub(facts.under_way).min(9),
            Some(Rule::Discards) => facts.discards = false,
            Some(Rule::GoneEnds) => facts.is_gone = false,
            Some(Rule::ItemFirst) => facts.has_item = false,
            Some(Rule::BoundStays) => facts.can_be_posted |= due.first().is_some_and(is_bound),
            _ => {}
        }
        facts
    }

    /// The message that would be posted next. Late own messages go past closures.
    fn postable(&self, state: &State, lane: usize) -> Option<usize> {
        let due = &state.lanes[lane].due;
        let next = match lane {
            OWN => due.iter().find(|index| self.message(**index).way == Way::Own),
            _ => due.first().filter(|index| self.message(**index).way == Way::Request),
        };
        next.or(due.first().filter(|_| !self.keeps(Rule::BoundStays))).copied()
    }

    /// Takes one step for a lane, under the lock.
    pub(super) fn step(&self, state: &mut State, lane: usize) -> Result<(), Failure> {
        let step = self.facts(state, lane).step();
        state.lanes[lane].asks_for_step = !matches!(step, Step::Rest | Step::Wake);
        match step {
            Step::Rest => {}
            Step::Wake => state.is_woken = true,
            Step::Ring => {
                let here = &mut state.lanes[lane];
                here.bells += 1;
                here.rung = here.joined;
                if here.bells + here.under_way > self.message(here.due[0]).window {
                    return Err(Failure::TooManyBells);
                }
                let (incarnation, joined) = (state.incarnation, here.joined);
                state.outgoing.push(Mail::Bell { lane, incarnation, joined });
            }
            Step::Post => {
                let Some(index) = self.postable(state, lane) else { return Ok(()) };
                if matches!(self.message(index).way, Way::Closure | Way::Tracked) {
                    return Err(Failure::BoundPosted(index));
                }
                if lane == OWN && state.has_item && !state.is_starved {
                    return Err(Failure::PostedTooSoon(index));
                }
                state.lanes[lane].due.retain(|other| *other != index);
                if lane == OWN {
                    if self.own_posted(state).is_some() && !state.is_followed {
                        return Err(Failure::WindowExceeded(index));
                    }
                    (state.newest, state.is_followed) = (Some(index), false);
                }
                self.leave(state, index)?;
                if self.keeps(Rule::CommitBeforePost) {
                    self.commit(state, index)?;
                }
                state.has_seen = false;
                state.outgoing.push(Mail::Message(index));
            }
            Step::Discard => {
                if !self.waits_beyond_window(state) {
                    return Err(Failure::DiscardedTooSoon(state.lanes[lane].due[0]));
                }
                if let Some(last) = state.lanes[lane].due.pop() {
                    state.places[last] = Place::DeadLetter;
                }
            }
            Step::End => {
                let first = state.lanes[lane].due.remove(0);
                state.places[first] = if lane == OWN { Place::Cancelled } else { Place::DeadLetter };
            }
        }
        Ok(())
    }

    /// Counts a message that leaves its lane, pulled or posted.
    fn leave(&self, state: &mut State, index: usize) -> Result<(), Failure> {
        let message = self.message(index);
        state.places[index] = Place::Posted;
        state.lanes[message.lane()].under_way += 1;
        match self.under_way(state, message.lane()) > message.window {
            true => Err(Failure::WindowExceeded(index)),
            false => Ok(()),
        }
    }

    /// The number of messages of a lane that are under way indeed.
    pub(super) fn under_way(&self, state: &State, lane: usize) -> u32 {
        let is_under_way = |index: &usize| {
            let is_out = matches!(state.places[*index], Place::Posted | Place::Running | Place::Endless);
            let is_awaited = lane == TARGETS || state.newest == Some(*index) && !state.is_followed;
            is_out && is_awaited && self.message(*index).lane() == lane && !self.message(*index).is_plain()
        };
        self.indices().filter(is_under_way).count() as u32
    }

    /// Schedules the next repetition.
    pub(super) fn commit(&self, state: &mut State, index: usize) -> Result<(), Failure> {
        let Some(next) = self.message(index).next else { return Ok(()) };
        if !state.is_stopped {
            state.places[next] = Place::Scheduled(next as u8);
        } else if self.message(index).way != Way::Tracked {
            return Err(Failure::RepeatsAfterCancel(next));
        }
        Ok(())
    }

    /// Pulls the first message of a lane, and begins its handler.
    pub(super) fn pull(&self, state: &mut State, lane: usize) -> Result<(), Failure> {
        let index = state.lanes[lane].due.remove(0);
        if lane == OWN {
            let is_posted = |index: &usize| state.places[*index] == Place::Posted && self.message(*index).lane() == OWN;
            if let Some(posted) = self.indices().find(is_posted) {
                return Err(Failure::Overtaken(posted));
            }
            self.commit(state, index)?;
            self.handle(state, index)?;
            state.places[index] = Place::Delivered;
        } else if self.message(index).way != Way::Tracked {
            return Err(Failure::PulledByBell(index));
        } else {
            self.leave(state, index)?;
            if !self.keeps(Rule::CommitAtEnd) {
                self.commit(state, index)?;
            }
            self.handle(state, index)?;
            state.places[index] = Place::Running;
        }
        Ok(())
    }

    /// Begins a handler.
    fn handle(&self, state: &mut State, index: usize) -> Result<(), Failure> {
        let message = self.message(index);
        if state.places[index] == Place::Cancelled || message.lane() == OWN && message.incarnation != state.incarnation
        {
            return Err(Failure::HandledAfterCancel(index));
        }
        if state.is_drained && message.lane() == OWN {
            return Err(Failure::HandledAfterDrain(index));
        }
        let overlaps = |other: usize| self.message(other).next == Some(index) && state.places[other] == Place::Running;
        if message.way == Way::Tracked && self.indices().any(overlaps) {
            return Err(Failure::Overlaps(index));
        }
        let orders: &[usize] = match message.way {
            Way::Own => &[0],
            Way::Closure => &[1],
            Way::Plain => &[2],
            _ if message.window == u32::MAX => &[2, 3],
            _ => &[3],
        };
        for order in orders {
            if state.stamps[index] < std::mem::replace(&mut state.last[*order], state.stamps[index]) {
                return Err(Failure::Overtaken(index));
            }
        }
        Ok(())
    }

    /// Ends a message that was under way.
    pub(super) fn end(&self, state: &mut State, index: usize, place: Place) {
        let is_newest = state.newest == Some(index);
        let is_counted = match state.places[index] {
            Place::TakenForEnded => !self.keeps(Rule::EndCountsOnce),
            _ => self.message(index).lane() == TARGETS || is_newest && !state.is_followed,
        };
        if is_newest {
            (state.newest, state.is_followed) = (None, false);
        }
        state.places[index] = place;
        if is_counted {
            let lane = &mut state.lanes[self.message(index).lane()];
            lane.under_way = lane.under_way.saturating_sub(1);
            lane.asks_for_step |= self.keeps(Rule::StepAfterEnd);
        }
    }

    /// Drops mail of a closed mailbox. Messages for targets that had entered it have left, and count as delivered.
    pub(super) fn lose(&self, state: &mut State, mail: Mail, place: Place) {
        match mail {
            Mail::Bell { lane, incarnation, .. } if self.keeps(Rule::DroppedBellCounts) => {
                if lane == TARGETS || incarnation == state.incarnation {
                    state.lanes[lane].bells -= 1;
                    state.lanes[lane].asks_for_step = true;
                }
            }
            Mail::Bell { .. } => {}
            Mail::Message(index) if self.message(index).is_plain() => state.places[index] = place,
            Mail::Message(index) if self.is_own(&mail) => self.end(state, index, Place::Cancelled),
            Mail::Message(index) => self.end(state, index, place),
        }
    }

    /// Begins the handler of the first mail.
    pub(super) fn handle_mail(&self, state: &mut State, endless: bool) -> Result<(), Failure> {
        match (!state.mailbox.is_empty()).then(|| state.mailbox.remove(0)) {
            None => {}
            Some(Mail::Message(index)) => {
                self.handle(state, index)?;
                state.budget.endless -= u8::from(endless);
                state.places[index] = match self.message(index).way {
                    Way::Plain => Place::Delivered,
                    _ if endless => Place::Endless,
                    _ => Place::Running,
                };
            }
            Some(Mail::Bell { lane, incarnation, joined }) => {
                let is_known = lane == TARGETS || incarnation == state.incarnation;
                if is_known || !self.keeps(Rule::BellNamesIncarnation) {
                    state.bell = Some((lane, joined));
                    if !self.keeps(Rule::BellCountsToItsEnd) {
                        state.lanes[lane].bells -= 1;
                    }
                    if self.bell_may_pull(state) {
                        self.pull(state, lane)?;
                    }
                    if !self.scenario.hands_over_runs {
                        self.end_bell(state);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn bell_may_pull(&self, state: &State) -> bool {
        let Some((lane, joined)) = state.bell else { return false };
        let mut facts = self.facts(state, lane);
        if !self.keeps(Rule::WindowAtPull) {
            facts.window = u32::MAX;
        }
        let joined = if self.keeps(Rule::BellCarriesJoins) { joined.into() } else { u64::MAX };
        facts.may_pull(joined)
    }

    pub(super) fn end_bell(&self, state: &mut State) {
        if let Some((lane, _)) = state.bell.take() {
            if self.keeps(Rule::BellCountsToItsEnd) {
                state.lanes[lane].bells = state.lanes[lane].bells.saturating_sub(1);
            }
            state.lanes[lane].asks_for_step |= self.keeps(Rule::StepAfterBell);
        }
    }

    /// Lets the item that is polled pull a message, or end its poll.
    pub(super) fn pull_for_item(&self, state: &mut State) -> Result<(), Failure> {
        let mut facts = self.facts(state, OWN);
        if !self.keeps(Rule::PostedFirst) {
            facts.under_way = 0;
        }
        let is_first = self.own_posted(state).is_none() || !self.keeps(Rule::PostedFirst);
        if facts.due > 0 && facts.room() > 0 && is_first {
            state.is_starved = false;
            return self.pull(state, OWN);
        }
        match self.own_posted(state) {
            Some(index) if state.outgoing.contains(&Mail::Message(index)) => state.is_polled = false,
            Some(_) if !state.has_seen && self.keeps(Rule::SeenTwice) || !self.keeps(Rule::BegunIsEnough) => {
                (state.has_seen, state.is_woken, state.is_polled) = (true, true, false);
            }
            Some(index) => {
                let is_endless = state.places[index] == Place::Endless;
                self.end(state, index, if is_endless { Place::Delivered } else { Place::TakenForEnded });
            }
            None => state.is_polled = false,
        }
        Ok(())
    }

    /// Returns the own message that was posted last, if it has not ended.
    pub(super) fn own_posted(&self, state: &State) -> Option<usize> {
        state.newest.filter(|index| matches!(state.places[*index], Place::Posted | Place::Running | Place::Endless))
    }

    /// Ends the incarnation, whose items are dropped, and withdraws its messages.
    pub(super) fn end_incarnation(&self, state: &mut State) {
        self.end_bell(state);
        state.is_polled = false;
        for index in self.indices() {
            let is_own = self.message(index).lane() == OWN && self.message(index).incarnation == state.incarnation;
            state.places[index] = match state.places[index] {
                Place::Scheduled(_) | Place::Due if is_own => Place::Cancelled,
                Place::Running | Place::Endless | Place::TakenForEnded if is_own => Place::Delivered,
                Place::Posted if is_own && state.mailbox.contains(&Mail::Message(index)) => Place::Cancelled,
                place => place,
            };
        }
        if self.keeps(Rule::WithdrawnAtRestart) {
            state.mailbox.retain(|mail| !self.is_own(mail));
        }
        let outgoing = state.outgoing.iter().filter(|mail| self.is_own(mail)).count() as u32;
        state.newest = state.newest.filter(|index| state.outgoing.contains(&Mail::Message(*index)));
        state.is_followed = false;
        let bells = state.lanes[OWN].bells;
        state.lanes[OWN] = LaneState { bells, under_way: outgoing, ..LaneState::default() };
    }

    /// Restarts the actor: the next incarnation has the same mailbox.
    pub(super) fn restart(&self, state: &mut State) {
        self.end_incarnation(state);
        state.lanes[OWN].bells = 0;
        state.incarnation += 1;
        (state.has_item, state.is_woken, state.is_disconnected, state.is_starved) = (true, true, false, false);
        for index in self.indices() {
            let is_closed = state.is_draining || state.is_drained;
            if self.message(index).incarnation == state.incarnation && !is_closed {
                state.places[index] = Place::Scheduled(index as u8);
            }
        }
    }

    pub(super) fn fall_due(&self, state: &mut State, index: usize) -> Result<(), Failure> {
        state.clock += 1;
        state.stamps[index] = state.clock;
        state.places[index] = Place::Due;
        if self.message(index).is_plain() {
            state.run.push(index);
            return Ok(());
        }
        let lane = self.message(index).lane();
        state.is_starved &= lane != OWN || !state.lanes[OWN].due.is_empty() || !self.keeps(Rule::EmptyIsNotStarved);
        let joined = &mut state.lanes[lane];
        joined.due.push(index);
        (joined.joined, joined.asks_for_step) = (state.clock, true);
        if self.keeps(Rule::StepAtJoin) {
            self.step(state, lane)?;
        }
        if self.waits_beyond_window(state) { Err(Failure::KeptBeyondWindow(index)) } else { Ok(()) }
    }

    pub(super) fn send(&self, state: &mut State, position: usize) -> Result<(), Failure> {
        let mail = state.outgoing.remove(position);
        if let Mail::Message(index) = mail
            && !self.keeps(Rule::CommitBeforePost)
        {
            self.commit(state, index)?;
        }
        if state.is_closed {
            self.lose(state, mail, Place::DeadLetter);
        } else {
            state.mailbox.push(mail);
            state.is_woken |= self.is_own(&mail) && self.keeps(Rule::WokenAfterPost);
        }
        Ok(())
    }

    /// Takes a message out of its lane, for a cancel or a move.
    pub(super) fn take_out(&self, state: &mut State, index: usize, place: Place) {
        state.places[index] = place;
        let lane = &mut state.lanes[self.message(index).lane()];
        lane.asks_for_step |= lane.due.first() == Some(&index) && self.keeps(Rule::StepAfterCancel);
        lane.due.retain(|other| *other != index);
    }
}
