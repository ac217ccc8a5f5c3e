//! Effects of handlers in the transactions that end their deliveries: both are kept, or neither is.

use std::cell::RefCell;
use std::rc::Rc;

use actix_timers::{CancelOutcome, ManualClock, Repeat, RescheduleOutcome};
use actix_timers_durable::rusqlite::{self, Connection, OpenFlags};
use actix_timers_durable::store::{FsyncOutcome, MemoryDisk, Reads};
use actix_timers_durable::{
    Durable, DurableFilter, DurableState, DurableTimers, EmbeddedStore, HandlerError, MemoryStore, RouteOptions,
    Schedule, Store, StoreError,
};
use tokio::sync::Notify;

use support::durable::{Files, Medium, Note, ROUTE, at, handled_by, life, ms, notes, on_every_store, quick, run_to};

on_every_store! {
    effect_and_end_are_kept_whatever_the_handler_does_then
    a_failed_effect_is_undone_and_the_message_comes_again
    a_failure_is_kept_with_its_effect
    a_delivery_that_has_ended_otherwise_has_no_effect
    a_delivery_ends_with_one_effect
    an_end_that_nobody_polls_is_none
    a_timer_moved_while_its_handler_goes_on_is_delivered_then
    a_stop_or_a_crash_keeps_effect_and_end_or_neither
    an_effect_cannot_touch_what_concerns_others
    a_violated_deferred_key_undoes_the_effect
    a_transaction_of_the_application_is_kept_or_undone
}

type Answer = Result<(), HandlerError>;

/// A medium with a table of the application.
trait Ledger: Medium<Store: Tables> {
    /// Returns notes and attempts with an effect.
    fn effects(&self) -> Vec<(u32, u32)>;

    fn open_with_table(&self) -> Self::Store {
        let mut store = self.open();
        let create = "CREATE TABLE IF NOT EXISTS effects (note INTEGER, attempt INTEGER);
            CREATE TABLE IF NOT EXISTS children (note INTEGER PRIMARY KEY,
                parent INTEGER REFERENCES children (note) DEFERRABLE INITIALLY DEFERRED)";
        store.transaction(|connection| connection.execute_batch(create)).unwrap();
        store
    }
}

/// A store in whose database an application has tables.
trait Tables: Store {
    fn transaction<T>(&mut self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError>;
}

impl Tables for EmbeddedStore {
    fn transaction<T>(&mut self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        Self::transaction(self, run)
    }
}

impl Tables for MemoryStore {
    fn transaction<T>(&mut self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        Self::transaction(self, run)
    }
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<(u32, u32)>> {
    let mut statement = connection.prepare("SELECT note, attempt FROM effects ORDER BY note, attempt")?;
    statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

impl Ledger for MemoryDisk {
    fn effects(&self) -> Vec<(u32, u32)> {
        Self::open(self).transaction(read).unwrap()
    }
}

impl Ledger for Files {
    fn effects(&self) -> Vec<(u32, u32)> {
        let file = self.directory().join("timers.db");
        read(&Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()).unwrap()
    }
}

/// The deliveries, and the errors of effects.
#[derive(Clone, Default)]
struct Log {
    attempts: Rc<RefCell<Vec<(u32, u32)>>>,
    errors: Rc<RefCell<Vec<String>>>,
}

impl Log {
    fn attempts(&self) -> Vec<(u32, u32)> {
        let mut attempts = self.attempts.borrow().clone();
        attempts.sort_unstable();
        attempts
    }

    fn errors(&self) -> Vec<String> {
        self.errors.borrow().clone()
    }

    /// Notes the error of an effect.
    fn note<T>(&self, made: Result<T, HandlerError>) -> Result<T, HandlerError> {
        made.inspect_err(|error| self.errors.borrow_mut().push(error.to_string()))
    }
}

/// Starts durable timers with a handler, whose time-out is a second.
fn start(
    medium: &impl Ledger,
    clock: &ManualClock,
    handle: impl AsyncFn(Durable<Note>, Log) -> Answer + 'static,
) -> (DurableTimers, Log) {
    let log = Log::default();
    let logs = log.clone();
    let bank = handled_by(async move |note: Durable<Note>| {
        logs.attempts.borrow_mut().push((note.0, note.attempt));
        handle(note, logs.clone()).await
    });
    let builder = DurableTimers::builder(medium.open_with_table()).clock(clock.clone());
    (builder.route_with::<Note>(ROUTE, bank, RouteOptions::new().retry(quick())).start().unwrap(), log)
}

async fn schedule(timers: &DurableTimers, numbers: std::ops::Range<u32>) {
    notes(timers, ROUTE, numbers.map(|note| (note, 10))).await;
}

fn effect(note: &Durable<Note>) -> impl FnOnce(&Connection) -> Answer + Send + use<> {
    let row = (note.0, note.attempt);
    move |connection| {
        connection.prepare_cached("INSERT INTO effects VALUES (?1, ?2)")?.execute(row)?;
        Ok(())
    }
}

async fn dead(timers: &DurableTimers) -> Vec<(u32, String)> {
    let letters = timers.list(DurableFilter::dead()).await.unwrap().timers;
    let letter = |info: &actix_timers_durable::DurableInfo| match &info.state {
        DurableState::Dead { reason, .. } => (info.message::<Note>().unwrap().0, reason.to_string()),
        state => panic!("{state:?}"),
    };
    letters.iter().map(letter).collect()
}

/// Lets all attempts end, and stops.
async fn finish(timers: &DurableTimers, clock: &ManualClock) {
    clock.advance(ms(10_000)).await;
    assert_eq!(timers.counts().await.unwrap().pending, 0);
    timers.stop().await.unwrap();
}

fn effect_and_end_are_kept_whatever_the_handler_does_then(medium: impl Ledger) {
    life(0, async |clock| {
        let seen = Rc::<RefCell<Vec<u32>>>::default();
        let sees = Rc::clone(&seen);
        let (timers, log) = start(&medium, &clock, async move |note, log| {
            let insert = effect(&note);
            let made = note.complete_with(move |connection| {
                insert(connection)?;
                Ok(connection.query_row("SELECT count(*) FROM effects", (), |row| row.get(0))?)
            });
            let count = log.note(made.await)?;
            sees.borrow_mut().push(count);
            match note.0 {
                0 => Ok(()),
                1 => Err(HandlerError::new("after it")),
                2 => Err(HandlerError::permanent("after it")),
                3 => panic!("after it"),
                _ => std::future::pending().await,
            }
        });
        schedule(&timers, 0..5).await;
        clock.advance(ms(10_000)).await;
        assert_eq!(dead(&timers).await, []);
        finish(&timers, &clock).await;
        let once: Vec<_> = (0..5).map(|note| (note, 1)).collect();
        assert_eq!((medium.effects(), log.attempts(), log.errors()), (once.clone(), once, vec![]));
        seen.borrow_mut().sort_unstable();
        assert_eq!(*seen.borrow(), [1, 2, 3, 4, 5], "an effect returns values, and sees the effects before it");
    });
}

fn a_failed_effect_is_undone_and_the_message_comes_again(medium: impl Ledger) {
    life(0, async |clock| {
        let (timers, log) = start(&medium, &clock, async |note, log| {
            let insert = effect(&note);
            let (number, is_first) = (note.0, note.attempt == 1);
            let made = note.complete_with(move |connection| {
                insert(connection)?;
                match number {
                    0 | 1 if is_first => Err(HandlerError::new("no money")),
                    3 => Err(HandlerError::permanent("there is no such account")),
                    4 if is_first => panic!("a bug"),
                    _ => Ok(()),
                }
            });
            // Without its effect no delivery is complete, whatever its handler answers.
            match (number, log.note(made.await)) {
                (0 | 2, _) => Err(HandlerError::new("failed")),
                (1, _) => Ok(()),
                (_, made) => made,
            }
        });
        schedule(&timers, 0..5).await;
        run_to(&clock, 10).await;
        assert_eq!(medium.effects(), [(2, 1)]);
        assert_eq!(dead(&timers).await, [(3, "there is no such account".to_owned())]);
        finish(&timers, &clock).await;
        assert_eq!(medium.effects(), [(0, 2), (1, 2), (2, 1), (4, 2)]);
        let mut errors = log.errors();
        errors.sort();
        assert_eq!(errors, ["no money", "no money", "the effect panicked: a bug", "there is no such account"]);
        assert_eq!(log.attempts().len(), 8);
    });
}

fn a_failure_is_kept_with_its_effect(medium: impl Ledger) {
    life(0, async |clock| {
        let (timers, log) = start(&medium, &clock, async |note, log| {
            let error = match (note.0, note.attempt) {
                (0, 1) => HandlerError::new("not yet"),
                (1, _) => HandlerError::permanent("never"),
                (2, 1..=5) => HandlerError::snooze_for(ms(20)),
                _ => return log.note(note.complete_with(effect(&note)).await),
            };
            log.note(note.fail_with(error, effect(&note)).await)
        });
        schedule(&timers, 0..3).await;
        clock.advance(ms(10_000)).await;
        assert_eq!(dead(&timers).await, [(1, "never".to_owned())]);
        finish(&timers, &clock).await;
        let snoozed = (1..=6).map(|attempt| (2, attempt));
        let expected: Vec<_> = [(0, 1), (0, 2), (1, 1)].into_iter().chain(snoozed).collect();
        assert_eq!((medium.effects(), log.attempts(), log.errors()), (expected.clone(), expected, vec![]));
    });
}

fn a_delivery_that_has_ended_otherwise_has_no_effect(medium: impl Ledger) {
    life(0, async |clock| {
        let goes_on = Rc::<Notify>::default();
        let waits = Rc::clone(&goes_on);
        let (timers, log) = start(&medium, &clock, async move |note, log| {
            if note.attempt == 1 {
                waits.notified().await;
            }
            log.note(note.complete_with(effect(&note)).await)
        });
        // Cancelled, and beyond its time-out.
        let cancelled = notes(&timers, ROUTE, [(0, 10), (1, 10)]).await[0];
        run_to(&clock, 20).await;
        assert_eq!(timers.cancel(cancelled).await.unwrap(), CancelOutcome::InProgress);
        run_to(&clock, 1050).await;
        assert_eq!(log.attempts(), [(0, 1), (1, 1)], "the time-out has passed");
        goes_on.notify_waiters();
        run_to(&clock, 1060).await;
        assert_eq!((medium.effects(), log.errors().len()), (vec![], 2));
        assert!(log.errors().iter().all(|error| error.contains("ended otherwise")), "{:?}", log.errors());
        finish(&timers, &clock).await;
        assert_eq!((medium.effects(), log.attempts().len()), (vec![(1, 2)], 3));
    });
}

fn a_delivery_ends_with_one_effect(medium: impl Ledger) {
    life(0, async |clock| {
        let (timers, log) = start(&medium, &clock, async |note, log| {
            // Each repetition fails once.
            if note.0 == 1 && note.attempt == 1 {
                return Err(HandlerError::new("not yet"));
            }
            log.note(note.complete_with(effect(&note)).await)?;
            log.note(note.complete_with(effect(&note)).await)
        });
        schedule(&timers, 0..1).await;
        let every = Repeat::every(ms(1000)).times(2);
        let _ = timers.schedule(Schedule::at_fixed_rate(ROUTE, every, Note(1))).await.unwrap();
        run_to(&clock, 1500).await;
        assert_eq!(medium.effects(), [(0, 1), (1, 2)]);
        finish(&timers, &clock).await;
        assert_eq!((medium.effects(), log.attempts().len()), (vec![(0, 1), (1, 2), (1, 2)], 5));
        assert!(log.errors().iter().all(|error| error.contains("ended otherwise")), "{:?}", log.errors());
        assert_eq!(log.errors().len(), 3);
    });
}

fn an_end_that_nobody_polls_is_none(medium: impl Ledger) {
    life(0, async |clock| {
        let (timers, log) = start(&medium, &clock, async |note, _| {
            drop(note.complete_with(effect(&note)));
            Ok(())
        });
        schedule(&timers, 0..1).await;
        finish(&timers, &clock).await;
        assert_eq!((medium.effects(), log.attempts()), (vec![], vec![(0, 1)]));
    });
}

fn a_timer_moved_while_its_handler_goes_on_is_delivered_then(medium: impl Ledger) {
    life(0, async |clock| {
        let goes_on = Rc::<Notify>::default();
        let waits = Rc::clone(&goes_on);
        let (timers, log) = start(&medium, &clock, async move |note, _| {
            let is_first = note.attempt == 1 && note.repetition == 1;
            if note.0 == 0 && is_first {
                note.fail_with(HandlerError::permanent("never"), effect(&note)).await?;
            } else {
                note.complete_with(effect(&note)).await?;
            }
            if is_first {
                waits.notified().await;
            }
            Ok(())
        });
        let letter = notes(&timers, ROUTE, [(0, 10)]).await[0];
        let mut series = vec![];
        for note in [1, 2] {
            let every = Repeat::every(ms(20_000)).first_after(ms(10));
            series.push(timers.schedule(Schedule::at_fixed_rate(ROUTE, every, Note(note))).await.unwrap().id());
        }
        run_to(&clock, 10).await;
        assert!(timers.requeue(letter).await.unwrap());
        for (id, time) in series.into_iter().zip([200, 5000]) {
            assert_eq!(timers.reschedule_at(id, at(time)).await.unwrap(), RescheduleOutcome::Rescheduled);
        }
        run_to(&clock, 300).await;
        assert_eq!(log.attempts(), [(0, 1), (1, 1), (2, 1)], "their handlers go on");
        goes_on.notify_waiters();
        run_to(&clock, 4999).await;
        assert_eq!(log.attempts(), [(0, 1), (0, 2), (1, 1), (1, 1), (2, 1)]);
        run_to(&clock, 5000).await;
        assert_eq!(log.attempts()[5..], [(2, 1)]);
        assert_eq!(medium.effects(), log.attempts());
        timers.stop().await.unwrap();
    });
}

/// An effect that is made while a stop waits is kept, and one after it is not.
fn a_stop_or_a_crash_keeps_effect_and_end_or_neither(mut medium: impl Ledger) {
    for (begin, first, crashes) in [(0, 0, false), (20_000, 2, true)] {
        life(begin, async |clock| {
            let goes_on = Rc::<Notify>::default();
            let waits = Rc::clone(&goes_on);
            let late = Rc::<RefCell<Option<Durable<Note>>>>::default();
            let keeps = Rc::clone(&late);
            let (timers, log) = start(&medium, &clock, async move |note, log| {
                if note.0 % 2 == 1 {
                    *keeps.borrow_mut() = Some(note);
                    return std::future::pending().await;
                }
                waits.notified().await;
                log.note(note.complete_with(effect(&note)).await)?;
                std::future::pending().await
            });
            schedule(&timers, first..first + 2).await;
            clock.advance(ms(10)).await;
            if crashes {
                goes_on.notify_one();
                clock.settle().await;
                return medium.crash();
            }
            let stopping = actix::spawn(async move { timers.stop_within(ms(500)).await });
            clock.settle().await;
            goes_on.notify_one();
            clock.advance(ms(500)).await;
            stopping.await.unwrap().unwrap();
            let late = late.take().unwrap();
            let error = late.complete_with(effect(&late)).await.unwrap_err();
            assert!(error.to_string().contains("stopped"), "{error}");
            assert_eq!(log.errors(), [] as [String; 0]);
        });
        let mut expected: Vec<_> = (0..=first).map(|note| (note, 1 + note % 2)).collect();
        assert_eq!(medium.effects(), expected);
        life(begin + 10_000, async |clock| {
            let (timers, log) =
                start(&medium, &clock, async |note, log| log.note(note.complete_with(effect(&note)).await));
            finish(&timers, &clock).await;
            expected.push((first + 1, 2));
            assert_eq!((medium.effects(), log.attempts()), (expected, vec![(first + 1, 2)]));
        });
    }
}

/// The texts that are refused, of which the store has run some itself.
const OTHERS: [&str; 23] = [
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "SAVEPOINT effect",
    "RELEASE effect",
    "ROLLBACK TO effect",
    "DELETE FROM timers",
    "UPDATE node SET number = 0",
    "INSERT INTO dead_letters (id) VALUES (x'00')",
    "DROP TABLE timers",
    "ALTER TABLE timers ADD COLUMN mine",
    "CREATE UNIQUE INDEX mine ON timers (payload)",
    "DROP INDEX moved",
    "DROP TRIGGER by_hand_claimable",
    "CREATE TRIGGER mine AFTER DELETE ON timers BEGIN SELECT 1; END",
    "CREATE TEMP TRIGGER mine AFTER DELETE ON timers BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE temp.timers USING dbstat",
    "CREATE TEMP TABLE timers (id)",
    "CREATE TEMP VIEW dead_letters AS SELECT 1",
    "CREATE TEMP TABLE IF NOT EXISTS mine (id); ALTER TABLE temp.mine RENAME TO pauses",
    "ATTACH ':memory:' AS other",
    "PRAGMA user_version = 7",
    "ANALYZE",
];

fn an_effect_cannot_touch_what_concerns_others(medium: impl Ledger) {
    let refuses = |connection: &Connection| {
        for sql in OTHERS {
            let error = connection.execute_batch(sql).unwrap_err();
            assert!(error.to_string().contains("not authorized"), "{sql}: {error}");
        }
        connection.pragma(None, "table_info", "timers", |_| Ok(())).unwrap();
        for sql in ["COMMIT", "ROLLBACK"] {
            assert!(connection.prepare_cached(sql).is_err(), "{sql}");
        }
    };
    life(0, async |clock| {
        let (timers, log) = start(&medium, &clock, async move |note, log| {
            let insert = effect(&note);
            let made = note.complete_with(move |connection| {
                refuses(connection);
                let timers: u32 = connection.query_row("SELECT count(*) FROM timers", (), |row| row.get(0))?;
                assert_eq!(timers, 0, "it has ended");
                insert(connection)
            });
            log.note(made.await)
        });
        schedule(&timers, 0..1).await;
        finish(&timers, &clock).await;
        assert_eq!((medium.effects(), log.errors()), (vec![(0, 1)], vec![]));
    });
    let mut store = medium.open();
    let refused = store.transaction(|connection| {
        refuses(connection);
        Ok(())
    });
    refused.unwrap();
}

fn a_violated_deferred_key_undoes_the_effect(medium: impl Ledger) {
    life(0, async |clock| {
        let (timers, log) = start(&medium, &clock, async |note, log| {
            let (insert, parent) = (effect(&note), if note.attempt == 1 { 1000 } else { note.0 });
            let child = (note.0, parent);
            let made = note.complete_with(move |connection| {
                connection.execute("INSERT INTO children VALUES (?1, ?2)", child)?;
                insert(connection)
            });
            log.note(made.await)
        });
        schedule(&timers, 0..2).await;
        run_to(&clock, 10).await;
        assert_eq!(medium.effects(), []);
        assert!(log.errors()[0].contains("nothing of the request was kept"), "{:?}", log.errors());
        finish(&timers, &clock).await;
        assert_eq!((medium.effects(), log.attempts().len()), (vec![(0, 2), (1, 2)], 4));
    });
}

fn a_transaction_of_the_application_is_kept_or_undone(medium: impl Ledger) {
    let mut store = medium.open_with_table();
    let insert = |connection: &Connection| connection.execute("INSERT INTO effects VALUES (1, 1)", ());
    assert_eq!(store.transaction(insert).unwrap(), 1);
    let failed = store.transaction(|connection| {
        insert(connection)?;
        connection.execute_batch("no statement")
    });
    let panicked = store.transaction(|connection| -> rusqlite::Result<()> {
        insert(connection)?;
        panic!("a bug")
    });
    for (result, reason) in [(failed, "syntax error"), (panicked, "a bug")] {
        let Err(StoreError::Rejected(cause)) = result else { panic!("{result:?}") };
        assert!(cause.to_string().contains(reason), "{cause}");
    }
    assert_eq!(store.transaction(read).unwrap(), [(1, 1)]);
}

#[test]
fn a_commit_that_kept_nothing_repeats_the_message() {
    let unknown = "may or may not have been kept";
    for (kept, error, attempt) in [
        (None, "nothing of the request was kept", 2),
        (Some(FsyncOutcome::All), unknown, 1),
        (Some(FsyncOutcome::Nothing), unknown, 2),
    ] {
        let disk = MemoryDisk::new();
        life(0, async |clock| {
            let failing = disk.clone();
            let (timers, log) = start(&disk, &clock, async move |note, log| {
                match kept {
                    Some(kept) if note.attempt == 1 => failing.fail_next_fsync(kept),
                    // Full.
                    None => failing.reject_commits(u64::from(note.attempt == 1)),
                    Some(_) => {}
                }
                log.note(note.complete_with(effect(&note)).await)
            });
            schedule(&timers, 0..1).await;
            finish(&timers, &clock).await;
            assert_eq!((disk.effects(), log.attempts().len()), (vec![(0, attempt)], attempt as usize), "{kept:?}");
            assert!(log.errors()[0].contains(error), "{:?}", log.errors());
        });
    }
}

/// The values that an effect has captured are the user's, also where it is dropped without having been made.
#[test]
fn a_destructor_that_panics_harms_no_other() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor");
        }
    }
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let (timers, log) = start(&disk, &clock, async |note, log| {
            log.note(note.complete_with(effect(&note)).await)?;
            let bomb = Bomb;
            let late = note.complete_with(move |_| {
                let _bomb = bomb;
                Ok(())
            });
            log.note(late.await)
        });
        schedule(&timers, 0..2).await;
        finish(&timers, &clock).await;
        assert_eq!((disk.effects(), log.errors().len()), (vec![(0, 1), (1, 1)], 2));
    });
}

/// Its last transaction, if that was committed; a timer that was cancelled before has none.
#[test]
fn a_delivery_counts_as_what_its_transaction_has_made_of_it() {
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let goes_on = Rc::<Notify>::default();
        let waits = Rc::clone(&goes_on);
        let to = handled_by(async move |note: Durable<Note>| {
            if note.0 == 2 {
                waits.notified().await;
                return note.complete_with(effect(&note)).await;
            }
            let error = note.complete_with(|_| Err::<(), _>(HandlerError::new("no money"))).await.unwrap_err();
            note.fail_with(error, effect(&note)).await
        });
        let options = RouteOptions::new().retry(quick()).pause_after_failures(2);
        let builder = DurableTimers::builder(disk.open_with_table()).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, to, options).start().unwrap();
        let cancelled = notes(&timers, ROUTE, [(1, 10), (2, 10), (3, 30)]).await[1];
        run_to(&clock, 10).await;
        assert_eq!(timers.cancel(cancelled).await.unwrap(), CancelOutcome::InProgress);
        goes_on.notify_one();
        run_to(&clock, 29).await;
        assert_eq!(timers.pauses().await.unwrap(), []);
        run_to(&clock, 30).await;
        let pauses = timers.pauses().await.unwrap();
        assert_eq!(pauses[0].why.as_deref(), Some("failures in a row: 2, the last: no money"));
        timers.stop().await.unwrap();
    });
}

/// The answer of its handler counts.
#[test]
fn a_snooze_after_a_refused_effect_is_no_failure() {
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let to = handled_by(async |note: Durable<Note>| {
            note.complete_with(|_| Err::<(), _>(HandlerError::new("no money"))).await.unwrap_err();
            if note.0 == 1 { Err(HandlerError::snooze_for(ms(20))) } else { Err(HandlerError::new("too bad")) }
        });
        let options = RouteOptions::new().retry(quick()).pause_after_failures(1);
        let builder = DurableTimers::builder(disk.open_with_table()).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, to, options).start().unwrap();
        notes(&timers, ROUTE, [(1, 10), (2, 300)]).await;
        run_to(&clock, 200).await;
        assert_eq!(timers.pauses().await.unwrap(), []);
        run_to(&clock, 300).await;
        let pauses = timers.pauses().await.unwrap();
        assert_eq!(pauses[0].why.as_deref(), Some("failures in a row: 1, the last: too bad"));
        timers.stop().await.unwrap();
    });
}

/// Apart from the effect it is as an error that the handler returns.
#[test]
fn a_failure_with_an_effect_during_a_stop_uses_up_no_attempt() {
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let to = handled_by(async |note: Durable<Note>| {
            note.cancelled().await;
            note.fail_with(HandlerError::new("given up"), effect(&note)).await
        });
        let options = RouteOptions::new().retry(quick().max_attempts(1));
        let builder = DurableTimers::builder(disk.open_with_table()).clock(clock.clone());
        let timers = builder.route_with::<Note>(ROUTE, to, options).start().unwrap();
        schedule(&timers, 0..1).await;
        run_to(&clock, 10).await;
        timers.stop().await.unwrap();
    });
    let counts = disk.open().counts(None).unwrap();
    assert_eq!((counts.pending, counts.dead, disk.effects()), (1, 0, vec![(0, 1)]));
}

#[test]
fn a_snooze_with_an_effect_is_not_early() {
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let goes_on = Rc::<Notify>::default();
        let waits = Rc::clone(&goes_on);
        let (timers, log) = start(&disk, &clock, async move |note, _| {
            if note.attempt > 1 {
                return Ok(());
            }
            waits.notified().await;
            note.fail_with(HandlerError::snooze_for(ms(1)), effect(&note)).await
        });
        schedule(&timers, 0..1).await;
        run_to(&clock, 10).await;
        let part = std::time::Duration::from_micros(900);
        clock.advance(part).await;
        goes_on.notify_one();
        clock.settle().await;
        clock.advance(part).await;
        assert_eq!(log.attempts(), [(0, 1)]);
        clock.advance(ms(1)).await;
        assert_eq!(log.attempts(), [(0, 1), (0, 2)]);
        timers.stop().await.unwrap();
    });
}
