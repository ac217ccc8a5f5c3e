//! The exhaustive model of the protocol: a server with rows, nodes and sessions, a few processes, timers and faults, in
//! every order of events.
//!
//! A statement is one event, a claim several: its node's row is locked, rows are changed under a new snapshot, and the
//! transaction is committed. Locks, connections and processes may be lost between any two. The protocol relies on *rules*.
//! Each can be taken away, and then the search must find a failure.
//!
//! 1. This file: timers, rules, failures and events.
//! 2. `state`: the server's tables, the memory of processes, and what the properties remember.
//! 3. `statements`: requests of nodes at the server. `users`: clients, operators, and transactions of users.
//! 4. `nodes`: beats, looks, claims, handlers and releases in the memory of a process. `faults`: crashes, lost
//!    connections, clocks.
//! 5. `events`: the possible events. `recovery`: from every state, all promises are kept once faults end.
//! 6. `search`: all states, breadth first. `rules`: the scenarios, with all rules and without each.

mod events;
mod faults;
mod nodes;
mod recovery;
mod rules;
mod search;
mod state;
mod statements;
mod users;

use state::Next;

/// The duration of a lease.
const LEASE: u8 = 2;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Start {
    #[default]
    Pending,
    /// By process 0, which has not started its handler.
    Claimed,
    Parked,
    /// A dead letter.
    Letter,
    /// Not put yet.
    Absent,
}

#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    /// The first due time, with which its id begins.
    due: u8,
    route: usize,
    start: Start,
    /// Attempts used up by crashes before.
    used: u8,
    /// Its handler kills the process.
    is_poisoned: bool,
    /// The number of repetitions that follow.
    repetitions: u8,
    /// Its handler writes beside the end, in one transaction.
    has_effect: bool,
    /// All timers with a key have the same one, and it outlives them.
    has_key: bool,
}

/// The timers and processes, and what may happen besides.
#[derive(Debug, Clone, Default)]
struct Scenario {
    timers: Vec<Timer>,
    processes: usize,
    /// The last processes that join later.
    late: usize,
    /// The last processes that beat in each unit of time, and do not fail.
    steady: usize,
    /// The attempts after which a timer is a suspect.
    max_attempts: u8,
    /// The server's clock at the beginning.
    begin: u8,
    /// The last point in time, but for recovery.
    end: u8,
    /// The number of hints of a look.
    limit: usize,
    /// Whether beats and their replies take time.
    has_slow_beats: bool,
    budget: Budget,
}

/// How often each event from outside may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Budget {
    crashes: u8,
    /// Processes that start again, unless a poisoned timer has killed them.
    restarts: u8,
    disconnects: u8,
    cuts: u8,
    suspends: u8,
    clock_back: u8,
    clock_forward: u8,
    /// Processes that stop in good order.
    departures: u8,
    time_outs: u8,
    retries: u8,
    puts: u8,
    cancels: u8,
    moves: u8,
    /// Timers that are made claimable again: of dead letters, parked ones.
    returns: u8,
    pauses: u8,
    /// `UPDATE .. SET due` by hand.
    hands: u8,
    /// Transactions of users.
    inserts: u8,
    cancelling: u8,
}

/// A rule on which the protocol relies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    // 1: claims.
    /// A claim locks its node's row.
    ClaimLocksItsNode,
    /// It does so in a statement before the one that changes rows, which has a new snapshot.
    ClaimLocksInAStatementOfItsOwn,
    ClaimTakesOnlyPending,
    ClaimRechecksDue,
    /// Beyond the page: a claim takes nothing that is due after its node's `claimed_until`.
    ClaimWithinClaimedUntil,
    // 2: releases.
    ReleaseEndsSessions,
    ReleaseLocksTheNode,
    /// Beyond the page: a release that waits for the lock gives up, and ends sessions again.
    ReleaseTriesAnew,
    /// Under its lock, it looks at the lease.
    ReleaseRechecksTheLease,
    /// Beyond the page: and compares it with the one that was seen.
    ReleaseComparesTheLease,
    ReleaseAfterLeaseSeenUnchanged,
    /// A node's row is deleted only when no row names it.
    DeletesOnlyTheUnnamed,
    /// Otherwise it is marked as dead.
    MarksTheDead,
    ReleaseLooksToClaimedUntil,
    BeatRaisesClaimedUntil,
    ClaimedUntilNeverFalls,
    // 3: leases.
    RenewalLeavesTheDead,
    RenewalInsertsNothing,
    RenewedWhereItClaims,
    LeaseCountsFromBefore,
    LeaseRunsDuringSuspend,
    LeaseCheckedBeforeHandler,
    JoinsAnewWithNothing,
    ClockBackResetsBound,
    /// Beyond the page: a beat compares the progress of the server's clock with that of its own.
    ClockBackSeenByOwnClock,
    // 4: lost replies.
    NewSessionEndsTheOld,
    SweepFindsUnknownClaims,
    SweepsRepeatedly,
    EndFencedByNode,
    EndFencedByAttempt,
    EndFencedByRepetition,
    /// Of rule 6: the end of a locked row does not wait, since beats need its connection.
    EndLeavesTheLocked,
    // 5: suspects.
    SuspectWithNothingRunning,
    NothingBesideASuspect,
    TimeOutLeavesUnmarked,
    CancelledHandlersCount,
    OnlyTheMarkBlames,
    MarkIsCleared,
    MarkedIsBlamed,
    // 7: looks.
    LookReadsTheMoved,
    LookReadsTheUnmoved,
    LookFiltersAsClaims,
    LeftOutKeepsItsBound,
    /// Beyond the page: a look names the routes that its own snapshot left out.
    LookNamesWhatItLeftOut,
    FromTheBeginningWhenVanished,
    LookBehindOpenTransactions,
    /// Beyond the page: a transaction has its number before it reads the clock.
    NumberBeforeClock,
    // 8: pauses.
    PauseLocksNodes,
    ReturnWritesDue,
    /// Beyond the page: a give-back writes `due`, too.
    GiveBackWritesDue,
    // 9: complete_in.
    CompleteTakesNodesLock,
    CompleteIsFenced,
    CompleteFailsWithoutRow,
    VerdictRetriesUnlessGone,
    // 10: keys.
    KeysInTheSameTable,
    ClaimLeavesEnded,
    LookLeavesEnded,
    CancelLeavesEnded,
    MoveLeavesEnded,
    // 12: due times.
    DueIsAtLeastNow,
    MovedIsWritten,
    TriggerGuardsHands,
    /// Beyond the page: a hand changes no `due` of a claimed row.
    HandsLeaveTheClaimed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// A promise is not kept although a process lives, and nothing disturbs it any more.
    Lost(usize),
    /// A row names a node that has none.
    Orphaned(usize),
    /// A handler starts for a delivery that its node does not hold.
    StartedWithoutClaim(usize),
    /// A handler starts twice for one delivery, or for one before the last.
    StartedTwice(usize),
    StartedAfterCancel(usize),
    /// A timer that was handled is claimed again.
    ClaimedAfterEnd(usize),
    /// Its row names another living node.
    ClaimedFromAnother(usize),
    ClaimedEarly(usize),
    /// A pause was acknowledged before.
    ClaimedAfterPause(usize),
    /// The end of a delivery changed a row that is not in that delivery.
    StaleEnd(usize),
    /// A timer that kills nobody is a dead letter.
    BlamedWrongly(usize),
    /// A timer is complete without the writes of its handler.
    EndWithoutEffect(usize),
    EffectTwice(usize),
    /// A second timer with the key of one that was handled.
    Duplicate(usize),
    AttemptFell(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Tick,
    /// A request proceeds at the server, or its reply arrives.
    Proceed(usize),
    Join(usize),
    Beat(usize),
    /// A look, and a claim that follows it.
    Look(usize),
    StartHandler(usize, usize),
    End(usize, usize, Next),
    /// A node takes a handler for ended; it goes on.
    TimeOut(usize, usize),
    EndStray(usize),
    EndSessions(usize, u8),
    /// A session that was ended is gone.
    SessionEnds(usize),
    Release(usize),
    Reconnect(usize),
    Restart(usize),
    Leave(usize),
    Crash(usize),
    Poison(usize),
    Disconnect(usize),
    Cut(usize),
    Suspend(usize),
    ClockBack,
    ClockForward,
    Put(usize),
    Cancel(usize),
    Move(usize),
    /// A dead letter or parked timer becomes claimable.
    Return(usize),
    SetDue {
        timer: usize,
        later: bool,
    },
    Pause,
    Acknowledge,
    Resume,
    OpenPut(usize),
    OpenCancel(usize),
    OpenPutWithKey(usize),
    Complete(usize, usize),
    TakeNumber,
    Commit,
    RollBack,
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

    fn timers(&self) -> &[Timer] {
        &self.scenario.timers
    }
}
