//! Turns: one step of one look at a time, shared fairly among all looks.
//!
//! A *look* is a request that walks through timers or buckets. It does so in *steps*, each with the lock of the timer
//! actor held for some microseconds, and takes a turn for each step. Concurrent steps would multiply the load on that
//! lock.
//!
//! Short looks (the wheel, a bucket, the next timers) go before searches, but not more than [`SHORT_IN_A_ROW`] of their
//! steps while a search waits. Within each kind the order is round robin: a look that has taken a step queues up behind
//! the others. So a look waits for its next step for at most one step of each look in progress, and these are bounded:
//! further ones wait for the end of one, in order, and find nothing meanwhile that would fill memory; beyond
//! [`MAX_LOOKS`] they are rejected. Nothing here depends on the sender of a request, which is unknown behind a proxy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::error::Rejection;

/// Maximum number of looks of one kind in progress or waiting for that.
const MAX_LOOKS: usize = 1024;

/// Maximum number of looks of one kind in progress.
const MAX_IN_PROGRESS: usize = 16;

/// Maximum number of consecutive steps of short looks while a search waits.
const SHORT_IN_A_ROW: usize = 3;

/// Steps of a search in one answer, if no other search is in progress: a part of ten million timers, and a few
/// milliseconds.
const STEPS_ALONE: usize = 1024;

/// Minimum number of steps of a search in one answer, regardless of other searches.
const MIN_STEPS: usize = 16;

/// Number of steps of searches before they pause, and the length of the pause.
const STEPS_BEFORE_A_REST: usize = 32;
const REST: Duration = Duration::from_millis(1);

/// The kind of a look, by its amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Short,
    Search,
}

/// The queue of all looks of an inspector.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    /// One for each look in progress.
    short: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        let places = || Arc::new(Semaphore::new(MAX_IN_PROGRESS));
        Self { state: Mutex::default(), short: places(), searches: places() }
    }
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    short: Queue,
    searches: Queue,
    /// Steps of short looks since the last step of a search, while one waits.
    short_in_a_row: usize,
    steps_since_rest: usize,
    is_resting: bool,
}

#[derive(Debug, Default)]
struct Queue {
    looks: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

impl State {
    const fn queue(&mut self, kind: Kind) -> &mut Queue {
        match kind {
            Kind::Short => &mut self.short,
            Kind::Search => &mut self.searches,
        }
    }

    /// Returns the waiting look that takes the next step, if one may.
    fn next(&mut self) -> Option<(Kind, oneshot::Sender<Turn>)> {
        let search_waits = !self.is_resting && !self.searches.waiting.is_empty();
        let is_searches_turn = search_waits && self.short_in_a_row >= SHORT_IN_A_ROW;
        if !is_searches_turn && let Some(next) = self.short.waiting.pop_front() {
            self.short_in_a_row = if search_waits { self.short_in_a_row + 1 } else { 0 };
            return Some((Kind::Short, next));
        }
        if !search_waits {
            return None;
        }
        self.short_in_a_row = 0;
        self.searches.waiting.pop_front().map(|next| (Kind::Search, next))
    }
}

impl Turns {
    /// Begins a look once there is a place for it.
    ///
    /// # Errors
    /// [`Rejection::Busy`] if [`MAX_LOOKS`] of its kind are in progress or wait.
    pub(super) async fn look(self: &Arc<Self>, kind: Kind) -> Result<Look, Rejection> {
        let mut look = self.enter(kind)?;
        let places = match kind {
            Kind::Short => &self.short,
            Kind::Search => &self.searches,
        };
        look.place = Arc::clone(places).acquire_owned().await.ok();
        Ok(look)
    }

    /// Counts a look.
    fn enter(self: &Arc<Self>, kind: Kind) -> Result<Look, Rejection> {
        let mut state = self.state();
        let queue = state.queue(kind);
        if queue.looks >= MAX_LOOKS {
            return Err(Rejection::Busy);
        }
        queue.looks += 1;
        Ok(Look { turns: Arc::clone(self), kind, place: None })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn to the next look, unless it is taken.
    fn give(self: &Arc<Self>) {
        loop {
            let mut state = self.state();
            if state.is_taken {
                return;
            }
            let Some((kind, next)) = state.next() else { return };
            state.is_taken = true;
            // Sending may call a waker, which is foreign code.
            drop(state);
            match next.send(Turn { turns: Some(Arc::clone(self)), kind }) {
                Ok(()) => return,
                // The request was dropped while it waited.
                Err(mut turn) => {
                    turn.turns = None;
                    self.state().is_taken = false;
                }
            }
        }
    }
}

/// A request that walks through timers or buckets.
#[derive(Debug)]
pub(super) struct Look {
    turns: Arc<Turns>,
    kind: Kind,
    /// Absent as long as it waits.
    place: Option<OwnedSemaphorePermit>,
}

impl Drop for Look {
    fn drop(&mut self) {
        self.turns.state().queue(self.kind).looks -= 1;
    }
}

impl Look {
    /// Takes a step once it has the turn, and passes the turn on.
    ///
    /// # Errors
    /// [`Rejection::Busy`] if the turn never comes, which does not happen.
    pub(super) async fn step<T>(&self, work: impl FnOnce() -> T) -> Result<T, Rejection> {
        let turn = self.turn().await?;
        let done = work();
        if let Some(rest) = turn.end() {
            rest.pass();
        }
        tokio::task::yield_now().await;
        Ok(done)
    }

    async fn turn(&self) -> Result<Turn, Rejection> {
        let (sender, turn) = oneshot::channel();
        self.turns.state().queue(self.kind).waiting.push_back(sender);
        self.turns.give();
        turn.await.map_err(|_| Rejection::Busy)
    }

    /// Returns the maximum number of steps of a search for one answer: fewer if more searches are in progress, so that
    /// each answer comes soon.
    pub(super) fn max_steps(&self) -> usize {
        (STEPS_ALONE / self.turns.state().searches.looks.max(1)).max(MIN_STEPS)
    }
}

/// The right to take a step. Passed on when it is dropped.
#[derive(Debug)]
struct Turn {
    /// None if there is nothing to pass on.
    turns: Option<Arc<Turns>>,
    kind: Kind,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.state().is_taken = false;
            turns.give();
        }
    }
}

impl Turn {
    /// Ends the step. Returns the pause of searches if it is due.
    fn end(self) -> Option<Rest> {
        let turns = self.turns.as_ref().filter(|_| self.kind == Kind::Search)?;
        let mut state = turns.state();
        state.steps_since_rest += 1;
        if state.steps_since_rest < STEPS_BEFORE_A_REST {
            return None;
        }
        state.steps_since_rest = 0;
        state.is_resting = true;
        drop(state);
        Some(Rest(Arc::clone(turns)))
    }
}

/// A pause in which no search takes a step. A thread that waits for the lock of the timer actor does not wake as fast
/// as a search would take the lock again.
#[derive(Debug)]
struct Rest(Arc<Turns>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.state().is_resting = false;
        self.0.give();
    }
}

impl Rest {
    /// Ends the pause after [`REST`]. The search that took the last step queues up meanwhile, so that it does not lose
    /// its position.
    fn pass(self) {
        // By the machine's clock: the runtime's may be virtual, and must not move because of a look.
        tokio::task::spawn_blocking(move || {
            std::thread::sleep(REST);
            drop(self);
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Turn>>>;

    /// Looks whose turns are taken manually.
    struct Looks(Arc<Turns>);

    impl Looks {
        fn new() -> Self {
            Self(Arc::default())
        }

        fn queue_up(&self, kind: Kind) -> Waiting {
            let look = self.0.enter(kind).unwrap();
            let mut waiting: Waiting = Box::pin(async move { look.turn().await.unwrap() });
            assert!(poll(&mut waiting).is_none(), "the turn is taken");
            waiting
        }

        /// Takes the turn, which is free.
        fn first(&self, kind: Kind) -> Turn {
            let look = self.0.enter(kind).unwrap();
            poll(&mut (Box::pin(async move { look.turn().await.unwrap() }) as Waiting)).unwrap()
        }
    }

    fn poll(waiting: &mut Waiting) -> Option<Turn> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    /// Returns the one that has the turn, and removes it.
    fn served(waiting: &mut Vec<(usize, Waiting)>) -> Option<(usize, Turn)> {
        let at = waiting.iter_mut().enumerate().find_map(|(at, (_, one))| Some((at, poll(one)?)));
        at.map(|(at, turn)| (waiting.remove(at).0, turn))
    }

    #[test]
    fn a_short_look_waits_for_one_step_of_any_number_of_searches() {
        let looks = Looks::new();
        let first = looks.first(Kind::Search);
        let mut searches: Vec<_> = (0..200).map(|name| (name, looks.queue_up(Kind::Search))).collect();
        let mut short = looks.queue_up(Kind::Short);
        assert!(first.end().is_none());
        let turn = poll(&mut short).unwrap();
        assert!(served(&mut searches).is_none());
        drop(turn);
        assert_eq!(served(&mut searches).unwrap().0, 0);
    }

    #[test]
    fn searches_take_turns_step_by_step() {
        let looks = Looks::new();
        let first = looks.first(Kind::Search);
        let mut waiting: Vec<_> = (0..3).map(|name| (name, looks.queue_up(Kind::Search))).collect();
        drop(first);
        let mut order = Vec::new();
        for _ in 0..9 {
            let (name, turn) = served(&mut waiting).unwrap();
            waiting.push((name, looks.queue_up(Kind::Search)));
            order.push(name);
            assert!(turn.end().is_none());
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn short_looks_without_a_pause_do_not_starve_a_search() {
        let looks = Looks::new();
        let mut turn = looks.first(Kind::Short);
        let mut search = looks.queue_up(Kind::Search);
        let mut steps = 0;
        let found = loop {
            let mut short = looks.queue_up(Kind::Short);
            drop(turn);
            if let Some(turn) = poll(&mut search) {
                break turn;
            }
            turn = poll(&mut short).unwrap();
            steps += 1;
        };
        assert_eq!(steps, SHORT_IN_A_ROW);
        drop(found);
    }

    #[test]
    fn while_searches_rest_short_looks_go_on() {
        let looks = Looks::new();
        let mut turn = looks.first(Kind::Search);
        for _ in 1..STEPS_BEFORE_A_REST {
            let mut next = looks.queue_up(Kind::Search);
            assert!(turn.end().is_none());
            turn = poll(&mut next).unwrap();
        }
        let mut search = looks.queue_up(Kind::Search);
        let rest = turn.end().unwrap();
        assert!(poll(&mut search).is_none());
        for _ in 0..10 {
            drop(looks.first(Kind::Short));
            assert!(poll(&mut search).is_none());
        }
        drop(rest);
        assert!(poll(&mut search).is_some());
    }

    #[test]
    fn a_request_that_is_given_up_takes_nothing_with_it() {
        let looks = Looks::new();
        let first = looks.first(Kind::Search);
        let given_up = looks.queue_up(Kind::Search);
        let given_up_with_the_turn = looks.queue_up(Kind::Search);
        let mut last = looks.queue_up(Kind::Search);
        drop(given_up);
        drop(first);
        assert!(poll(&mut last).is_none());
        drop(given_up_with_the_turn);
        drop(poll(&mut last).unwrap());
        drop(last);
        let state = looks.0.state();
        assert_eq!((state.is_taken, state.searches.looks, state.searches.waiting.len()), (false, 0, 0));
    }

    #[test]
    fn looks_beyond_the_bound_are_rejected_until_one_has_ended() {
        let turns = Arc::new(Turns::default());
        let mut searches: Vec<Look> = (0..MAX_LOOKS).map(|_| turns.enter(Kind::Search).unwrap()).collect();
        assert_eq!(turns.enter(Kind::Search).err(), Some(Rejection::Busy));
        assert!(turns.enter(Kind::Short).is_ok(), "searches do not keep short looks out");
        searches.pop();
        assert!(turns.enter(Kind::Search).is_ok());
    }

    #[test]
    fn few_looks_are_in_progress_and_others_begin_in_order() {
        let turns = Arc::new(Turns::default());
        let mut in_progress: Vec<Look> = (0..MAX_IN_PROGRESS).map(|_| begun(&mut begin(&turns)).unwrap()).collect();
        let (mut first, mut second) = (begin(&turns), begin(&turns));
        assert!(begun(&mut first).is_none() && begun(&mut second).is_none());
        in_progress.pop();
        assert!(begun(&mut second).is_none());
        let first = begun(&mut first).unwrap();
        drop(first);
        assert!(begun(&mut second).is_some());
    }

    type Beginning = Pin<Box<dyn Future<Output = Look>>>;

    fn begin(turns: &Arc<Turns>) -> Beginning {
        let turns = Arc::clone(turns);
        Box::pin(async move { turns.look(Kind::Search).await.unwrap() })
    }

    fn begun(beginning: &mut Beginning) -> Option<Look> {
        match beginning.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(look) => Some(look),
            Poll::Pending => None,
        }
    }

    #[test]
    fn more_searches_under_way_give_each_fewer_steps() {
        let turns = Arc::new(Turns::default());
        let first = turns.enter(Kind::Search).unwrap();
        assert_eq!(first.max_steps(), 1024);
        let mut others: Vec<Look> = (1..4).map(|_| turns.enter(Kind::Search).unwrap()).collect();
        assert_eq!(first.max_steps(), 256);
        others.extend((4..MAX_LOOKS).map(|_| turns.enter(Kind::Search).unwrap()));
        assert_eq!(first.max_steps(), MIN_STEPS);
    }
}
