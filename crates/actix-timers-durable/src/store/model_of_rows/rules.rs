//! Scenarios: with all rules they hold, and without each rule one fails.

use super::{Budget, Scenario, Start, Timer, World};

fn none() -> Budget {
    Budget::default()
}

fn timer() -> Timer {
    Timer::default()
}

fn claimed() -> Timer {
    Timer { start: Start::Claimed, ..timer() }
}

fn new() -> Timer {
    Timer { start: Start::Absent, ..timer() }
}

fn poisoned_timer() -> Timer {
    Timer { is_poisoned: true, ..timer() }
}

fn suspect() -> Timer {
    Timer { used: 1, ..timer() }
}

impl Scenario {
    /// One process does not fail.
    fn of(timers: &[Timer], processes: usize, end: u8, budget: Budget) -> Self {
        Self { timers: timers.to_vec(), processes, steady: 1, end, limit: 2, budget, ..Self::default() }
    }

    fn unsteady(self) -> Self {
        Self { steady: 0, ..self }
    }

    fn with_suspects(self) -> Self {
        Self { max_attempts: 1, ..self }
    }
}

/// Names scenarios.
macro_rules! scenarios {
    ($($name:ident: $scenario:expr;)*) => {
        $(fn $name() -> Scenario {
            $scenario
        })*
    };
}

scenarios! {
    crashing: Scenario::of(&[timer()], 2, 3, Budget { crashes: 1, ..none() });
    disconnected: Scenario::of(&[timer()], 2, 3, Budget { disconnects: 1, ..none() });
    slow_beats: Scenario { has_slow_beats: true, ..Scenario::of(&[claimed()], 2, 4, none()) };
    slow_beats_on_old_sessions: Scenario { has_slow_beats: true, end: 2, ..disconnected() };
    cut: Scenario::of(&[timer()], 2, 2, Budget { cuts: 1, ..none() });
    suspended: Scenario::of(&[claimed()], 2, 3, Budget { suspends: 2, ..none() });
    server_ahead: Scenario::of(&[claimed()], 2, 2, Budget { clock_forward: 1, ..none() });
    server_back: Scenario::of(&[new()], 1, 3, Budget { clock_back: 1, puts: 1, ..none() });
    server_back_after_claims: {
        let timers = [Timer { due: 4, ..claimed() }];
        Scenario { begin: 4, ..Scenario::of(&timers, 2, 3, Budget { clock_back: 1, ..none() }) }
    };
    server_ahead_and_back: {
        let budget = Budget { clock_forward: 1, clock_back: 1, ..none() };
        Scenario { begin: 4, ..Scenario::of(&[Timer { due: 7, ..timer() }], 2, 3, budget) }
    };
    cancelled_by_users: Scenario::of(&[claimed()], 2, 3, Budget { cancelling: 1, crashes: 1, ..none() });
    cancelled_beside: Scenario::of(&[claimed(); 2], 2, 3, Budget { cancelling: 1, ..none() });
    cancelled_after_lost_replies: {
        Scenario::of(&[timer()], 1, 2, Budget { cancelling: 1, disconnects: 1, ..none() }).unsteady()
    };
    repeating: {
        let budget = Budget { time_outs: 1, retries: 1, ..none() };
        Scenario::of(&[Timer { repetitions: 1, ..timer() }], 1, 2, budget)
    };
    changed: Scenario::of(&[timer(), new()], 1, 3, Budget { puts: 1, moves: 1, cancels: 1, ..none() });
    changed_by_hand: Scenario::of(&[Timer { due: 1, ..timer() }], 1, 3, Budget { hands: 1, ..none() });
    returning: {
        let timers = [Timer { start: Start::Parked, ..timer() }, Timer { start: Start::Letter, ..timer() }];
        Scenario::of(&timers, 1, 2, Budget { returns: 2, ..none() })
    };
    departing: Scenario { late: 1, steady: 0, ..Scenario::of(&[timer()], 2, 2, Budget { departures: 1, ..none() }) };
    inserted: Scenario::of(&[new()], 1, 3, Budget { inserts: 1, ..none() });
    claimed_and_changed_by_hand: Scenario::of(&[claimed()], 2, 3, Budget { hands: 1, ..none() });
    keys_and_two_processes: Scenario::of(&[Timer { has_key: true, ..timer() }], 2, 1, none());
    paused: Scenario::of(&[timer(), Timer { route: 1, ..timer() }], 1, 2, Budget { pauses: 1, ..none() });
    paused_in_short_looks: Scenario { limit: 1, ..paused() };
    with_effects: Scenario::of(&[Timer { has_effect: true, ..claimed() }], 2, 3, Budget { crashes: 1, ..none() });
    keys: {
        let timers = [Timer { has_key: true, ..timer() }, Timer { has_key: true, ..new() }];
        Scenario { limit: 1, ..Scenario::of(&timers, 1, 2, Budget { puts: 1, cancels: 1, moves: 1, ..none() }) }
    };
    keys_beside: {
        let timers = [Timer { has_key: true, ..timer() }, timer()];
        Scenario { limit: 1, ..Scenario::of(&timers, 1, 1, none()) }
    };
    poisoned: Scenario::of(&[poisoned_timer(), timer()], 1, 3, none()).with_suspects();
    poisoned_beside_a_suspect: {
        Scenario::of(&[poisoned_timer(), suspect()], 1, 2, Budget { cancels: 1, time_outs: 1, ..none() })
            .with_suspects()
    };
    poisoned_after_a_suspect: {
        let timers = [Timer { due: 1, ..poisoned_timer() }, Timer { repetitions: 1, ..suspect() }];
        Scenario::of(&timers, 1, 3, none()).with_suspects()
    };
}

/// Scenarios with all rules; each has at least this many states.
macro_rules! holds {
    ($($scenario:ident, $states:literal;)*) => {
        mod holds {
            $(
                #[test]
                fn $scenario() {
                    super::holds(super::$scenario(), $states);
                }
            )*
        }
    };
}

fn holds(scenario: Scenario, least: usize) {
    let states = World { scenario, without: None }.search().unwrap_or_else(|found| panic!("{found}"));
    println!("{states} states");
    assert!(states >= least, "only {states} states");
}

/// Takes rules away: the search finds this failure in this scenario. `--nocapture` shows the way to it.
macro_rules! is_needed {
    ($($name:ident, $rule:ident, $scenario:ident, $failure:ident;)*) => {
        mod is_needed {
            use super::super::{Failure, Rule, World};

            $(
                #[test]
                fn $name() {
                    let world = World { scenario: super::$scenario(), without: Some(Rule::$rule) };
                    match world.search() {
                        Ok(states) => panic!("nothing fails in {states} states"),
                        Err(found) => {
                            println!("without {:?}: {found}", Rule::$rule);
                            assert!(matches!(found.failure, Failure::$failure { .. }));
                        }
                    }
                }
            )*

            #[allow(dead_code)]
            const fn each_rule_is_taken_away(rule: Rule) {
                match rule {
                    $(Rule::$rule => {})*
                }
            }
        }
    };
}

holds! {
    crashing, 19_000;
    cut, 3600;
    suspended, 5000;
    server_ahead, 13_000;
    server_back, 580;
    server_back_after_claims, 11_000;
    cancelled_by_users, 16_000;
    cancelled_after_lost_replies, 1400;
    repeating, 1100;
    changed, 13_000;
    changed_by_hand, 390;
    claimed_and_changed_by_hand, 7000;
    returning, 1300;
    departing, 80;
    inserted, 830;
    paused, 2100;
    paused_in_short_looks, 2600;
    keys, 2300;
    keys_and_two_processes, 370;
    keys_beside, 110;
    poisoned, 810;
    poisoned_beside_a_suspect, 16_000;
    poisoned_after_a_suspect, 2000;
}

is_needed! {
    claim_locks_its_node, ClaimLocksItsNode, crashing, Orphaned;
    claim_locks_in_a_statement_of_its_own, ClaimLocksInAStatementOfItsOwn, paused, ClaimedAfterPause;
    claim_takes_only_pending, ClaimTakesOnlyPending, crashing, ClaimedFromAnother;
    claim_rechecks_due, ClaimRechecksDue, changed, ClaimedEarly;
    claim_within_claimed_until, ClaimWithinClaimedUntil, server_ahead_and_back, Orphaned;
    release_ends_sessions, ReleaseEndsSessions, crashing, Lost;
    release_locks_the_node, ReleaseLocksTheNode, crashing, Orphaned;
    release_tries_anew, ReleaseTriesAnew, crashing, Lost;
    release_rechecks_the_lease, ReleaseRechecksTheLease, server_ahead, StartedWithoutClaim;
    release_compares_the_lease, ReleaseComparesTheLease, server_ahead, StartedWithoutClaim;
    release_after_lease_seen_unchanged, ReleaseAfterLeaseSeenUnchanged, server_ahead, StartedWithoutClaim;
    deletes_only_the_unnamed, DeletesOnlyTheUnnamed, cancelled_by_users, Orphaned;
    marks_the_dead, MarksTheDead, cancelled_beside, StartedWithoutClaim;
    release_looks_to_claimed_until, ReleaseLooksToClaimedUntil, server_back_after_claims, Orphaned;
    beat_raises_claimed_until, BeatRaisesClaimedUntil, inserted, Lost;
    claimed_until_never_falls, ClaimedUntilNeverFalls, server_back_after_claims, Orphaned;
    renewal_leaves_the_dead, RenewalLeavesTheDead, cancelled_beside, StartedWithoutClaim;
    renewal_inserts_nothing, RenewalInsertsNothing, suspended, StartedWithoutClaim;
    renewed_where_it_claims, RenewedWhereItClaims, cut, Lost;
    lease_counts_from_before, LeaseCountsFromBefore, slow_beats, StartedWithoutClaim;
    lease_runs_during_suspend, LeaseRunsDuringSuspend, suspended, StartedWithoutClaim;
    lease_checked_before_handler, LeaseCheckedBeforeHandler, suspended, StartedWithoutClaim;
    joins_anew_with_nothing, JoinsAnewWithNothing, suspended, StartedWithoutClaim;
    clock_back_resets_bound, ClockBackResetsBound, server_back, Lost;
    clock_back_seen_by_own_clock, ClockBackSeenByOwnClock, server_back, Lost;
    new_session_ends_the_old, NewSessionEndsTheOld, cancelled_after_lost_replies, Lost;
    sweep_finds_unknown_claims, SweepFindsUnknownClaims, cancelled_after_lost_replies, Lost;
    sweeps_repeatedly, SweepsRepeatedly, cancelled_after_lost_replies, Lost;
    end_fenced_by_node, EndFencedByNode, suspended, StaleEnd;
    end_fenced_by_attempt, EndFencedByAttempt, repeating, StaleEnd;
    end_fenced_by_repetition, EndFencedByRepetition, repeating, StaleEnd;
    end_leaves_the_locked, EndLeavesTheLocked, crashing, Lost;
    suspect_with_nothing_running, SuspectWithNothingRunning, poisoned, BlamedWrongly;
    nothing_beside_a_suspect, NothingBesideASuspect, poisoned_after_a_suspect, BlamedWrongly;
    time_out_leaves_unmarked, TimeOutLeavesUnmarked, poisoned_beside_a_suspect, BlamedWrongly;
    cancelled_handlers_count, CancelledHandlersCount, poisoned_beside_a_suspect, BlamedWrongly;
    only_the_mark_blames, OnlyTheMarkBlames, poisoned_beside_a_suspect, BlamedWrongly;
    mark_is_cleared, MarkIsCleared, poisoned_after_a_suspect, BlamedWrongly;
    marked_is_blamed, MarkedIsBlamed, poisoned, Lost;
    look_reads_the_moved, LookReadsTheMoved, inserted, Lost;
    look_reads_the_unmoved, LookReadsTheUnmoved, departing, Lost;
    look_filters_as_claims, LookFiltersAsClaims, paused_in_short_looks, Lost;
    left_out_keeps_its_bound, LeftOutKeepsItsBound, paused, Lost;
    look_names_what_it_left_out, LookNamesWhatItLeftOut, paused, Lost;
    from_the_beginning_when_vanished, FromTheBeginningWhenVanished, poisoned, Lost;
    look_behind_open_transactions, LookBehindOpenTransactions, inserted, Lost;
    number_before_clock, NumberBeforeClock, inserted, Lost;
    pause_locks_nodes, PauseLocksNodes, paused, ClaimedAfterPause;
    return_writes_due, ReturnWritesDue, returning, Lost;
    give_back_writes_due, GiveBackWritesDue, cancelled_after_lost_replies, Lost;
    complete_takes_nodes_lock, CompleteTakesNodesLock, with_effects, Lost;
    complete_is_fenced, CompleteIsFenced, with_effects, Lost;
    complete_fails_without_row, CompleteFailsWithoutRow, with_effects, EffectTwice;
    verdict_retries_unless_gone, VerdictRetriesUnlessGone, with_effects, EndWithoutEffect;
    keys_in_the_same_table, KeysInTheSameTable, keys, Duplicate;
    claim_leaves_ended, ClaimLeavesEnded, keys_and_two_processes, ClaimedAfterEnd;
    look_leaves_ended, LookLeavesEnded, keys_beside, Lost;
    cancel_leaves_ended, CancelLeavesEnded, keys, Duplicate;
    move_leaves_ended, MoveLeavesEnded, keys, Lost;
    due_is_at_least_now, DueIsAtLeastNow, inserted, Lost;
    moved_is_written, MovedIsWritten, inserted, Lost;
    trigger_guards_hands, TriggerGuardsHands, changed_by_hand, Lost;
    hands_leave_the_claimed, HandsLeaveTheClaimed, claimed_and_changed_by_hand, Orphaned;
}

/// More of everything at once.
#[test]
#[ignore = "1.2 million states: a third of a minute if optimized"]
fn large_scenarios_hold() {
    holds(disconnected(), 70_000);
    holds(slow_beats(), 100_000);
    holds(slow_beats_on_old_sessions(), 50_000);
    holds(with_effects(), 90_000);
    holds(server_ahead_and_back(), 200_000);
    holds(cancelled_beside(), 200_000);
}
