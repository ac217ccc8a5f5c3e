//! The exhaustive model: one timer actor, one recipient with two lanes, and a few messages, in every order of events.
//!
//! The holder of the turn acts on each step after unlocking: a decision and its effect on the mailbox are two events, and
//! the actor's thread and callers come between them. Lanes rely on *rules*, in the step and around it. Each can be taken
//! away, and then the search must find a failure.
//!
//! 1. This file: messages, rules, failures and the state.
//! 2. `lanes`: the effect of events on lanes, mailbox and item.
//! 3. `events`: the possible events, and the properties of every state.
//! 4. `search`: all states, breadth first.
//! 5. `rules`: the scenarios, with all rules and without each.

mod events;
mod lanes;
mod rules;
mod search;

/// The index of the lane of an incarnation's own messages.
const OWN: usize = 0;
/// The index of the lane of messages for targets.
const TARGETS: usize = 1;
/// The deadline of a message that was moved: after all others.
const LATER: u8 = 100;

/// The way of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// An own message: the item pulls it; late, it is posted or a bell pulls it.
    Own,
    /// An own message that is bound to its thread.
    Closure,
    /// A bell pulls it; its end is acknowledged.
    Tracked,
    /// It is posted as a request, and acknowledged.
    Request,
    /// It is posted in runs, without a lane.
    Plain,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    way: Way,
    window: u32,
    discards: bool,
    /// The next repetition of the same timer.
    next: Option<usize>,
    /// The incarnation that schedules it.
    incarnation: u8,
}

const fn message(way: Way) -> Message {
    let window = if matches!(way, Way::Own | Way::Closure) { 1 } else { u32::MAX };
    Message { way, window, discards: false, next: None, incarnation: 0 }
}

const OWN_MESSAGE: Message = message(Way::Own);
const CLOSURE: Message = message(Way::Closure);
const TRACKED: Message = message(Way::Tracked);
const PLAIN: Message = message(Way::Plain);

impl Message {
    const fn within(self, window: u32) -> Self {
        Self { window, ..self }
    }

    const fn then(self, next: usize) -> Self {
        Self { next: Some(next), ..self }
    }

    const fn of_the_next_incarnation(self) -> Self {
        Self { incarnation: 1, ..self }
    }

    const fn discarded_beyond(self) -> Self {
        Self { discards: true, ..self }
    }

    const fn lane(&self) -> usize {
        if matches!(self.way, Way::Own | Way::Closure) { OWN } else { TARGETS }
    }

    const fn is_plain(&self) -> bool {
        matches!(self.way, Way::Plain)
    }
}

/// The messages, due in this order, and what may happen besides.
#[derive(Debug, Clone, Default)]
struct Scenario {
    messages: Vec<Message>,
    /// Whether the actor accepts bells for its own messages.
    accepts_bells: bool,
    /// Whether a bell may pull more than one message.
    hands_over_runs: bool,
    budget: Budget,
}

/// How often each event from outside may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Budget {
    cancels: u8,
    moves: u8,
    closes: u8,
    restarts: u8,
    floods: u8,
    /// The actor loses its last address, and the item leaves.
    departures: u8,
    drains: u8,
    /// Handlers whose future never ends.
    endless: u8,
}

/// A rule on which the lanes rely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A bell pulls nothing that joined later.
    BellCarriesJoins,
    /// Each join rings, even if bells of cancelled messages are still in the mailbox.
    EachJoinRings,
    /// A window that has room again rings.
    RoomRings,
    /// The step runs at a join, before anything due later is posted.
    StepAtJoin,
    /// A run is posted before a message that is due later joins its lane.
    RunBeforeJoin,
    /// A bell that ends asks for a step.
    StepAfterBell,
    /// A message that ends asks for a step.
    StepAfterEnd,
    /// A bell that is dropped counts down, and asks for a step.
    DroppedBellCounts,
    /// A bell counts until its handler has ended: meanwhile it may pull more.
    BellCountsToItsEnd,
    /// Bells count against the window.
    BellsWithinWindow,
    /// A bell that pulls looks at the window again.
    WindowAtPull,
    /// A lane whose first message is cancelled or moved asks for a step: the next one may have another window.
    StepAfterCancel,
    /// Only one thread at a time acts on steps, and sends in the order of its decisions.
    OneSender,
    /// Nothing is posted from a lane that has a bell in the mailbox.
    PostBehindNoBell,
    /// Posts look at the window.
    WindowAtPost,
    /// The room in a window is never below zero.
    Saturates,
    /// Messages beyond the window of a discarding policy do not wait.
    Discards,
    /// The lane of a recipient that is gone is emptied.
    GoneEnds,
    /// The item is left alone only if it is starved.
    ItemFirst,
    /// The watchdog finds starved items.
    Watchdog,
    /// An item whose lane was empty is not starved.
    EmptyIsNotStarved,
    /// A closure is not posted: it is bound to its thread.
    BoundStays,
    /// The item overtakes no own message that was posted before its handler has begun.
    PostedFirst,
    /// The item takes such a message for begun when it sees it a second time, and not before.
    SeenTwice,
    /// The item takes such a message for ended although its future goes on.
    BegunIsEnough,
    /// The end of such a message counts once.
    EndCountsOnce,
    /// The item is woken once such a message is in the mailbox.
    WokenAfterPost,
    /// Without an item, another message may follow one whose handler does not end.
    EndlessIsFollowed,
    /// The item that gives way stays woken.
    GivesWayWoken,
    /// An item that leaves asks for a step.
    StepAfterLeaving,
    /// Posted own messages are withdrawn with their incarnation.
    WithdrawnAtRestart,
    /// A bell names the incarnation whose lane it is for.
    BellNamesIncarnation,
    /// A posted message cannot be cancelled.
    PostedHasLeft,
    /// A repeating message commits its next repetition before it is posted.
    CommitBeforePost,
    /// A tracked repeating message commits its next repetition when it ends.
    CommitAtEnd,
    /// A drain waits for own messages that were posted.
    DrainWaits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Nothing more can happen, and a due message has not ended.
    Lost(usize),
    /// Nothing from outside happens any more, and it does not come to rest.
    NeverRests,
    /// The message could leave its lane, and nothing is under way that would look.
    LostWakeUp(usize),
    /// It begins after a message that was due later.
    Overtaken(usize),
    WindowExceeded(usize),
    TooManyBells,
    /// More messages could leave: the threads of a `SyncContext` would handle them one after the other.
    TooFewBells(usize),
    /// The lane counts bells or messages under way that are not there, or the other way round.
    Miscounted,
    /// An own message was posted although its item was not starved: a cancel would not be exact.
    PostedTooSoon(usize),
    /// It was posted, and is bound to its thread, or to be tracked.
    BoundPosted(usize),
    /// A bell pulled it, and it can only be posted.
    PulledByBell(usize),
    /// It fits into the window, or its policy lets it wait.
    DiscardedTooSoon(usize),
    /// A cancel was confirmed, or its incarnation had ended, and it is handled.
    HandledAfterCancel(usize),
    RepeatsAfterCancel(usize),
    /// A repetition begins before the one before has ended.
    Overlaps(usize),
    HandledAfterDrain(usize),
    /// A message waits beyond the window of a discarding policy.
    KeptBeyondWindow(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// Not scheduled yet: a repetition that is not committed, or a message of the next incarnation.
    NotScheduled,
    /// Due at this time.
    Scheduled(u8),
    /// In its lane or run.
    Due,
    /// Out of its lane, and not begun.
    Posted,
    Running,
    /// Its future will never end.
    Endless,
    /// The item took it for ended, and its future goes on.
    TakenForEnded,
    Delivered,
    Cancelled,
    DeadLetter,
    Returned,
}

impl Place {
    /// Whether it can be cancelled and moved.
    const fn waits(self) -> bool {
        matches!(self, Self::Scheduled(_) | Self::Due)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mail {
    Bell { lane: usize, incarnation: u8, joined: u8 },
    Message(usize),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct LaneState {
    due: Vec<usize>,
    joined: u8,
    rung: u8,
    bells: u32,
    under_way: u32,
    /// Whether it is on the agenda: the turn will take a step.
    asks_for_step: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct State {
    places: Vec<Place>,
    /// The order in which messages fell due.
    stamps: Vec<u8>,
    clock: u8,
    lanes: [LaneState; 2],
    /// The run of plain messages in the hands of the turn.
    run: Vec<usize>,
    /// Decided under the lock, and about to be sent by the turn.
    outgoing: Vec<Mail>,
    mailbox: Vec<Mail>,
    /// The bell whose handler runs.
    bell: Option<(usize, u8)>,
    is_closed: bool,
    is_flooded: bool,
    is_disconnected: bool,
    incarnation: u8,
    has_item: bool,
    is_woken: bool,
    /// Whether the item is being polled.
    is_polled: bool,
    /// The own message that was posted last, until its end.
    newest: Option<usize>,
    /// Whether another may be posted before its end.
    is_followed: bool,
    /// Whether the item has seen the posted own message.
    has_seen: bool,
    is_starved: bool,
    is_draining: bool,
    is_drained: bool,
    /// Whether a cancel has stopped the repeating message.
    is_stopped: bool,
    /// The stamps of the messages that began last: own, closures, targets without a window, lane of targets.
    last: [u8; 4],
    /// The events from outside that may still happen.
    budget: Budget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    FallDue(usize),
    Step(usize),
    PostRun,
    Send(usize),
    Handle { endless: bool },
    PullForBell,
    EndBell,
    End(usize),
    Poll,
    PullForItem,
    GiveWay,
    LetFollow,
    FindStarved,
    EndDrain,
    Cancel(usize),
    Move(usize),
    Close,
    Restart,
    Flood,
    Calm,
    Disconnect,
    Return,
    Drain,
}

/// A scenario, and the rule that is taken away.
struct World {
    scenario: Scenario,
    without: Option<Rule>,
}

impl World {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn message(&self, index: usize) -> &Message {
        &self.scenario.messages[index]
    }

    fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.scenario.messages.len()
    }

    /// Whether this is an own message on its way through the mailbox.
    fn is_own(&self, mail: &Mail) -> bool {
        matches!(mail, Mail::Message(index) if self.message(*index).lane() == OWN)
    }

    fn begin(&self) -> State {
        let scenario = &self.scenario;
        let is_next = |index| scenario.messages.iter().any(|message| message.next == Some(index));
        let place = |(index, message): (usize, &Message)| match message.incarnation == 0 && !is_next(index) {
            true => Place::Scheduled(index as u8),
            false => Place::NotScheduled,
        };
        let has_item = scenario.messages.iter().any(|message| message.lane() == OWN);
        State {
            places: scenario.messages.iter().enumerate().map(place).collect(),
            stamps: vec![0; scenario.messages.len()],
            has_item,
            is_woken: has_item,
            budget: scenario.budget,
            ..State::default()
        }
    }
}
