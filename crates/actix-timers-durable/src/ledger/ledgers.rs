//! The ledgers of a node: from a request to its shard, and one commit for all shards.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::closed::Closed;
use super::foreign::Foreign;
use super::health::Trouble;
use super::note::{self, Note};
use super::ownership::{Arrival, by_shard};
use super::queries::{InFlight, Queries};
use super::request::{Answer, Answered, Request};
use super::{Horizon, Ledger, LedgerConfig, PolicyOf, Reading, Replies};
use crate::id::DurableId;
use crate::metrics::{DurableCounters, DurableReport, ShardLoss, StoreOp};
use crate::new_timer::next_sequence;
use crate::store::{
    Arrivals, Change, Committed, Counts, Group, Node, ReadsOf, Right, Standing, StoreError, TimerReader, TimerStore,
};

/// Bytes of payload in one commit.
const GROUP_BYTES: usize = 4 << 20;

/// See the [module](self).
pub(crate) struct Ledgers<H: Horizon> {
    pub(super) store: Box<dyn TimerStore>,
    node: Node,
    config: LedgerConfig,
    policy_of: PolicyOf,
    new_horizon: Box<dyn FnMut() -> H + Send>,
    /// Ledgers of shards that this node owns.
    owned: BTreeMap<u16, Ledger<H>>,
    /// Ledgers of shards that this node has given up, until their deliveries have ended.
    former: Vec<Ledger<H>>,
    foreign: Foreign,
    /// Queries, answered when the changes of their turn are written.
    queries: Vec<Request>,
    closing: Option<Answer<()>>,
    /// Set when the store is closed, or its only shard is lost.
    end: Option<Arc<StoreError>>,
    sequence: u64,
    /// Paused routes and types, for ledgers to come.
    paused: Vec<(Arc<str>, Arc<str>)>,
    poll: Option<Poll<H>>,
    /// Counters of foreign changes and queries, and of ledgers that have ended.
    pub(super) counters: DurableCounters,
    notes: Vec<Note>,
}

/// The regular exchange with other nodes.
struct Poll<H> {
    every: Duration,
    /// Time of the next one, on the monotonic clock.
    next: Duration,
    horizon: H,
    has_joined: bool,
    is_leaving: bool,
    trouble: Option<Trouble>,
}

impl<H: Horizon> Ledgers<H> {
    /// Joins the nodes of the store: at once if it is the only one, else at the first [`maintain`](Self::maintain).
    /// Nothing is loaded or armed before that.
    ///
    /// # Errors
    /// The store cannot be acquired or read.
    pub(crate) fn open(
        store: Box<dyn TimerStore>,
        node: Node,
        config: LedgerConfig,
        policy_of: PolicyOf,
        mut new_horizon: impl FnMut() -> H + Send + 'static,
    ) -> Result<Self, StoreError> {
        let every = store.poll_interval();
        let poll = every.map(|every| Poll {
            every,
            next: Duration::ZERO,
            horizon: new_horizon(),
            has_joined: false,
            is_leaving: false,
            trouble: None,
        });
        let mut ledgers = Self {
            store,
            node,
            config,
            policy_of,
            new_horizon: Box::new(new_horizon),
            owned: BTreeMap::new(),
            former: Vec::new(),
            foreign: Foreign::default(),
            queries: Vec::new(),
            closing: None,
            end: None,
            sequence: 0,
            paused: Vec::new(),
            poll,
            counters: DurableCounters::default(),
            notes: Vec::new(),
        };
        if !ledgers.is_shared() {
            let standing = ledgers.store.join(&ledgers.node)?;
            ledgers.follow(standing);
        }
        Ok(ledgers)
    }

    /// Returns whether other nodes share the store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.poll.is_some()
    }

    /// Returns a reader for queries, if they are to be answered beside the commits.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn reader(&mut self) -> Result<Option<Box<dyn TimerReader>>, StoreError> {
        self.store.reader()
    }

    /// Takes a group of requests from the front of the queue, commits their changes together with pending internal
    /// ones, and puts the replies into `replies`.
    ///
    /// `clock` is read before and after a commit. Returns the number of callers' requests.
    pub(crate) fn commit(
        &mut self,
        clock: &dyn Fn() -> Reading,
        requests: &mut VecDeque<Request>,
        replies: &mut Replies,
    ) -> usize {
        let now = clock();
        for ledger in self.owned.values_mut() {
            ledger.renumber_interrupted(now, &mut *self.store);
        }
        let of_callers = self.prepare(now, requests, replies);
        if self.closing.is_some() {
            self.owned.values_mut().chain(&mut self.former).for_each(Ledger::exonerate_at_close);
        }
        self.write(now, clock, replies);
        // Requests in shards that turned out to be lost: any node may make them.
        if !self.foreign.changes.is_empty() {
            self.write(now, clock, replies);
        }
        for query in std::mem::take(&mut self.queries) {
            self.look_up(query, replies);
        }
        if let Some(answer) = self.closing.take() {
            while self.owned.values().chain(&self.former).any(Ledger::has_changes_to_write) {
                self.write(now, clock, replies);
            }
            let closed = self.close();
            replies.put(answer, closed);
        }
        of_callers
    }

    /// Takes requests from the front of the queue, as many as fit one commit. Returns the number of callers' requests.
    fn prepare(&mut self, now: Reading, requests: &mut VecDeque<Request>, replies: &mut Replies) -> usize {
        let (mut bytes, mut of_callers) = (0, 0);
        self.owned.values_mut().for_each(Ledger::begin_group);
        for _ in 0..self.config.group.max(1) {
            if bytes > GROUP_BYTES || self.closing.is_some() {
                break;
            }
            // The change after a delivery depends on whether the cancel before its end is written.
            if let Some(Request::Ended { id, .. }) = requests.front()
                && self.owned.get(&id.shard()).is_some_and(|ledger| ledger.is_cancelled_in_flight(*id))
            {
                break;
            }
            let Some(request) = requests.pop_front() else { break };
            of_callers += request.places();
            bytes += request.bytes();
            match &self.end {
                Some(error) => replies.reject(request, error),
                None => self.prepare_one(now, request, replies),
            }
        }
        of_callers
    }

    fn prepare_one(&mut self, now: Reading, mut request: Request, replies: &mut Replies) {
        match &mut request {
            Request::Schedule { record, .. } => {
                let of_shard = self.owned.get(&record.id.shard()).map_or(0, Ledger::sequence);
                Arc::make_mut(record).sequence = self.next_sequence(now, of_shard);
            }
            Request::ScheduleAll { timers, .. } => {
                for (record, _) in timers {
                    let of_shard = self.owned.get(&record.id.shard()).map_or(0, Ledger::sequence);
                    Arc::make_mut(record).sequence = self.next_sequence(now, of_shard);
                }
            }
            Request::Pause { route, message_type } => {
                let route = (Arc::clone(route), Arc::clone(message_type));
                self.owned.values_mut().for_each(|ledger| ledger.pause(&route.0, &route.1));
                return self.paused.push(route);
            }
            Request::Resume { route, message_type } => {
                self.paused.retain(|paused| (&paused.0, &paused.1) != (&*route, &*message_type));
                return self.owned.values_mut().for_each(|ledger| ledger.resume(route, message_type));
            }
            Request::Overrun => return self.owned.values_mut().for_each(Ledger::exonerate),
            Request::Recheck => return self.owned.values_mut().for_each(Ledger::recheck_now),
            Request::Leave => return self.leave(),
            _ => {}
        }
        match request {
            Request::Get { .. }
            | Request::FindKey { .. }
            | Request::List { .. }
            | Request::Counts { .. }
            | Request::BackUp { .. } => self.queries.push(request),
            Request::Close { answer } => self.closing = Some(answer),
            _ => {
                let ledger = match request.timer() {
                    _ if self.poll.is_none() => self.owned.values_mut().next(),
                    None => None,
                    Some(id) => {
                        let (is_end, is_claim) = (request.is_end(), matches!(request, Request::Claim { .. }));
                        let delivers = |ledger: &&mut Ledger<H>| is_end && ledger.is_delivering(id);
                        // A shard may be here again while its former ledger ends a delivery: its claim decides.
                        let is_former_s = !is_claim && self.former.iter().any(|ledger| ledger.is_delivering(id));
                        let former = self.former.iter_mut().find(delivers);
                        let owned = self.owned.get_mut(&id.shard());
                        former.or(owned.filter(|ledger| is_end || (ledger.may_change() && !is_former_s)))
                    }
                };
                match ledger {
                    Some(ledger) => ledger.prepare(now, request, &mut *self.store, replies),
                    None => self.foreign.prepare(now, request, &mut self.counters, &mut *self.store, replies),
                }
            }
        }
    }

    /// Returns a number larger than all earlier ones, also if the clock goes back; across processes only if it does
    /// not.
    fn next_sequence(&mut self, now: Reading, of_shard: u64) -> u64 {
        self.sequence = next_sequence(self.sequence.max(of_shard), now.wall);
        self.sequence
    }

    /// Commits callers' changes and internal ones of all shards.
    fn write(&mut self, now: Reading, clock: &dyn Fn() -> Reading, replies: &mut Replies) {
        let is_closing = self.closing.is_some();
        self.owned.values_mut().chain(&mut self.former).for_each(|ledger| ledger.collect(now, is_closing));
        let of_ledgers = self.owned.values().chain(&self.former);
        let mut groups: Vec<_> = of_ledgers.filter_map(Ledger::collected).collect();
        if !self.foreign.changes.is_empty() {
            groups.push(Group { right: Right::Anyone, changes: &self.foreign.changes });
        }
        if groups.is_empty() {
            return;
        }
        let before = clock().time;
        let committed = self.store.commit_groups(&groups).and_then(|committed| complete(&groups, committed));
        let is_request = |change: &&Change| !matches!(change, Change::Advance { .. } | Change::EndClaim { .. });
        let requests = groups.iter().flat_map(|group| group.changes).filter(is_request).count();
        replies.wrote(requests, clock().time.saturating_sub(before));
        let (is_shared, mut wanted) = (self.is_shared(), Vec::new());
        let ledgers = self.owned.values_mut().chain(&mut self.former).filter(|ledger| ledger.collected().is_some());
        match committed {
            Ok(committed) => {
                let mut committed = committed.into_iter();
                for (ledger, committed) in ledgers.zip(&mut committed) {
                    match committed {
                        Committed::Outcomes(outcomes) => ledger.written(outcomes, replies),
                        // The reply to giving it up was lost. If not, the right of its claims is lost, too.
                        Committed::Fenced if ledger.is_leaving() => {
                            wanted.extend(ledger.take_wanted());
                            let error = StoreError::Unavailable("the shard is being given up".to_owned());
                            ledger.not_written(now, &Arc::new(error), replies);
                            ledger.given_up();
                        }
                        Committed::Fenced => {
                            self.counters.fenced += 1;
                            if is_shared {
                                wanted.extend(ledger.take_wanted());
                            }
                            ledger.not_written(now, &Arc::new(ledger.fenced()), replies);
                        }
                    }
                }
                match committed.next() {
                    Some(Committed::Outcomes(outcomes)) => {
                        self.foreign.written(outcomes, &mut self.counters, replies);
                    }
                    Some(Committed::Fenced) => {
                        let error = Arc::new(StoreError::Unsupported("shards of other nodes"));
                        self.foreign.not_written(&error, replies);
                    }
                    None => {}
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                if !self.foreign.changes.is_empty() {
                    self.counters.failed(StoreOp::Commit);
                }
                ledgers.for_each(|ledger| ledger.not_written(now, &error, replies));
                self.foreign.not_written(&error, replies);
            }
        }
        self.foreign.adopt(now, wanted, &mut self.counters, &mut *self.store, replies);
        self.drop_lost();
    }

    /// Ends with a store that has no other shards, or goes on without the shards that were lost.
    fn drop_lost(&mut self) {
        if self.is_shared() {
            self.keep_former();
            let lost = self.owned.iter().filter(|(_, ledger)| ledger.is_lost());
            let lost: Vec<_> = lost.map(|(shard, _)| *shard).collect();
            self.counters.ceased(ShardLoss::Lost, lost.len() as u64);
            let mut ended: Vec<_> = lost.iter().filter_map(|shard| self.owned.remove(shard)).collect();
            ended.extend(self.former.extract_if(.., |ledger| ledger.is_lost()));
            ended.into_iter().for_each(|ledger| self.absorb(ledger));
        } else if let Some(why) = self.owned.values().find_map(|ledger| ledger.health.lost()) {
            self.end = Some(Arc::clone(why));
        }
    }

    /// Keeps the counters and log events of a ledger that ends.
    fn absorb(&mut self, mut ledger: Ledger<H>) {
        self.notes.extend(ledger.drain_notes());
        self.counters.add(&ledger.counters);
    }

    /// Arms new records of the near future, loads the next ones, continues the recovery, and follows the other nodes.
    /// Returns whether more can be done at once: a [`commit`](Self::commit), perhaps without requests, and then this
    /// again.
    pub(crate) fn maintain(&mut self, now: Reading) -> bool {
        if self.end.is_some() {
            return false;
        }
        self.exchange(now);
        let mut has_more = false;
        for ledger in self.owned.values_mut().chain(&mut self.former) {
            // A shard may have been gained since the last commit.
            ledger.renumber_interrupted(now, &mut *self.store);
            has_more |= ledger.maintain(now, &mut *self.store);
        }
        if self.is_shared() {
            self.hand_over();
        }
        has_more
    }

    /// Learns of shards gained and lost, and of the writes of other nodes.
    fn exchange(&mut self, now: Reading) {
        let Some(poll) = self.poll.as_mut().filter(|poll| now.time >= poll.next) else { return };
        let exchanged = if poll.has_joined {
            Ok(self.store.standing())
        } else {
            self.store.join(&self.node).inspect(|_| poll.has_joined = true)
        };
        let arrivals = exchanged.and_then(|standing| {
            self.follow(standing);
            self.store.arrivals()
        });
        match arrivals {
            Ok(arrivals) => self.receive(arrivals),
            Err(error) => {
                self.counters.failed(StoreOp::Load);
                let error = Arc::new(error);
                let before = self.poll.as_ref().and_then(|poll| poll.trouble.clone());
                if before.is_none() {
                    self.note(Note::CannotRead(Arc::clone(&error)));
                }
                let trouble = Trouble::after(before.as_ref(), error, now.time);
                return self.poll_at(trouble.again, now, Some(trouble));
            }
        }
        if let Some(poll) = &self.poll {
            self.poll_at(now.time.saturating_add(poll.every), now, None);
        }
    }

    fn poll_at(&mut self, next: Duration, now: Reading, trouble: Option<Trouble>) {
        if let Some(poll) = &mut self.poll {
            poll.next = next;
            poll.trouble = trouble;
            poll.horizon.recheck_after(next.saturating_sub(now.time));
        }
    }

    fn receive(&mut self, arrivals: Arrivals) {
        self.counters.arrivals += arrivals.records.len() as u64;
        for (shard, arrival) in by_shard(arrivals) {
            let Some(ledger) = self.owned.get_mut(&shard) else { continue };
            match arrival {
                Arrival::Released(id) => ledger.release(id),
                Arrival::Interrupted(claim) => ledger.interrupted_late(claim),
                Arrival::Record(record) => ledger.arrive(record),
            }
        }
    }

    /// Keeps ledgers of shards that were given up, until their deliveries have ended.
    fn keep_former(&mut self) {
        let former = self.owned.iter().filter(|(_, ledger)| ledger.is_former()).map(|(shard, _)| *shard);
        let former: Vec<_> = former.collect();
        self.counters.ceased(ShardLoss::GivenUp, former.len() as u64);
        self.former.extend(former.iter().filter_map(|shard| self.owned.remove(shard)));
    }

    /// Begins and ends ledgers.
    fn follow(&mut self, standing: Standing) {
        let Standing { gained, lost, wanted, has_expired } = standing;
        let is_other = !gained.is_empty() || !lost.is_empty();
        for shard in lost {
            // The reply to giving it up was lost.
            if let Some(ledger) = self.owned.get_mut(&shard).filter(|ledger| ledger.is_leaving() && !has_expired) {
                ledger.given_up();
                continue;
            }
            if let Some(mut ledger) = self.owned.remove(&shard) {
                self.counters.ceased(ShardLoss::Lost, 1);
                ledger.lose();
                self.absorb(ledger);
            }
            self.note(Note::ShardLost(shard));
        }
        self.keep_former();
        if has_expired {
            for mut ledger in std::mem::take(&mut self.former) {
                ledger.lose();
                self.absorb(ledger);
            }
        }
        let is_leaving = self.poll.as_ref().is_some_and(|poll| poll.is_leaving);
        self.counters.gained += gained.len() as u64;
        for lease in gained {
            let (shard, config) = (lease.fence.shard, self.config.clone());
            let (policy_of, horizon) = (Arc::clone(&self.policy_of), (self.new_horizon)());
            let mut ledger = Ledger::of(lease, self.poll.is_some(), config, policy_of, horizon);
            self.paused.iter().for_each(|(route, message_type)| ledger.pause(route, message_type));
            if is_leaving {
                ledger.leave();
            }
            self.owned.insert(shard, ledger);
        }
        // Also shards that were just gained, from a node that has died.
        for shard in wanted {
            if let Some(ledger) = self.owned.get_mut(&shard) {
                ledger.leave();
            }
        }
        if is_other {
            let shards = self.owned.len();
            self.owned.values_mut().for_each(|ledger| ledger.limit_to_share(&self.config, shards));
        }
    }

    /// Gives up all shards, and takes no others.
    fn leave(&mut self) {
        let Some(poll) = &mut self.poll else { return };
        poll.is_leaving = true;
        self.store.retire();
        self.owned.values_mut().for_each(Ledger::leave);
    }

    /// Gives up shards that this node is to leave, once all is written that only their owner may write.
    fn hand_over(&mut self) {
        let ready = self.owned.values().filter(|ledger| ledger.may_be_given_up());
        let shards: Vec<_> = ready.map(|ledger| ledger.fence.shard).collect();
        if !shards.is_empty() {
            match self.store.give_up(&shards) {
                Ok(()) => {
                    let ledgers = self.owned.iter_mut().filter(|(shard, _)| shards.contains(shard));
                    ledgers.for_each(|(_, ledger)| ledger.given_up());
                    self.keep_former();
                }
                // Tried again at the next turn, or lost by then.
                Err(_) => self.counters.failed(StoreOp::Lease),
            }
        }
        let finished: Vec<_> = self.former.extract_if(.., |ledger| ledger.is_finished()).collect();
        finished.into_iter().for_each(|ledger| self.absorb(ledger));
    }

    /// Gives up all shards and closes the store.
    fn close(&mut self) -> Answered<()> {
        let unsettled = self.owned.values().chain(&self.former).find_map(Ledger::unsettled);
        self.store.retire();
        let mut released = Ok(());
        for ledger in self.owned.values() {
            if let Err(error) = self.store.release(ledger.fence) {
                self.counters.failed(StoreOp::Lease);
                released = Err(Arc::new(error));
            }
        }
        self.store = Box::new(Closed);
        let why = Arc::new(StoreError::Closed);
        self.owned.values_mut().chain(&mut self.former).for_each(|ledger| ledger.end(&why));
        self.end = Some(why);
        unsettled.map_or(released, Err)
    }

    /// Returns the reason why all requests are rejected from now on: the store was closed, or its only shard has another
    /// owner.
    pub(crate) const fn end_reason(&self) -> Option<&Arc<StoreError>> {
        self.end.as_ref()
    }

    /// Returns the counters and gauges. The caller adds how long requests have been waiting.
    pub(crate) fn report(&mut self, now: Reading) -> DurableReport {
        let mut report = DurableReport {
            counters: self.counters,
            shards: self.owned.len() as u64,
            loaded_ahead: Duration::MAX,
            ..Default::default()
        };
        for (shard, ledger) in &self.owned {
            let Counts { pending, parked, dead } = self.store.counts(*shard).unwrap_or_default();
            report.add(&DurableReport { pending, parked, dead_letters: dead, ..ledger.report(now) });
        }
        for ledger in &self.former {
            report.add(&DurableReport { loaded_ahead: Duration::MAX, ..ledger.report(now) });
        }
        if self.owned.is_empty() {
            report.loaded_ahead = Duration::ZERO;
        }
        report
    }

    /// Returns the log events since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        self.owned.values_mut().chain(&mut self.former).for_each(|ledger| notes.extend(ledger.drain_notes()));
        if self.is_shared() {
            note::once_for_all_shards(&mut notes);
        }
        notes
    }

    fn note(&mut self, note: Note) {
        if cfg!(feature = "tracing") {
            self.notes.push(note);
        }
    }

    /// Answers queries between two commits.
    pub(super) fn queries<T>(&mut self, ask: impl FnOnce(Queries<'_>) -> T) -> T {
        // The ledger of a timer in memory, if its shard is here.
        let ledger_of = |id: DurableId| {
            let former = || self.former.iter().find(|ledger| ledger.is_delivering(id));
            self.owned.get(&id.shard()).or_else(former)
        };
        let in_flight = InFlight {
            is_busy: &|id| ledger_of(id).is_some_and(|ledger| ledger.is_busy(id)),
            removed: &|id| ledger_of(id)?.removed_in_flight(id),
        };
        ask(Queries { reader: &mut ReadsOf(&mut *self.store), counters: &mut self.counters, in_flight })
    }

    /// Returns the sums of the counters.
    #[cfg(test)]
    pub(super) fn counters(&self) -> DurableCounters {
        let mut sum = self.counters;
        self.owned.values().chain(&self.former).for_each(|ledger| sum.add(&ledger.counters));
        sum
    }

    /// Returns the shards that this node owns.
    #[cfg(test)]
    pub(super) fn owned(&self) -> impl Iterator<Item = u16> {
        self.owned.keys().copied()
    }

    /// Returns the only ledger.
    #[cfg(test)]
    pub(super) fn only(&mut self) -> &mut Ledger<H> {
        assert_eq!(self.owned.len(), 1);
        self.owned.values_mut().next().unwrap()
    }
}

/// Checks that the store returned one outcome for each change.
fn complete(groups: &[Group<'_>], committed: Vec<Committed>) -> Result<Vec<Committed>, StoreError> {
    let fits = |(group, committed): (&Group<'_>, &Committed)| match committed {
        Committed::Outcomes(outcomes) => outcomes.len() == group.changes.len(),
        Committed::Fenced => true,
    };
    if groups.len() == committed.len() && groups.iter().zip(&committed).all(fits) {
        return Ok(committed);
    }
    Err(StoreError::Failed(io::Error::other("the store did not return one outcome per change")))
}
