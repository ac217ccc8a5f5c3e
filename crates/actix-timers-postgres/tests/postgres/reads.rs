//! Reads beside the commits: on another thread, of all shards.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use actix_timers_durable::store::{Change, Claim, Committed, Group, Newer, Part, Position, Right};
use actix_timers_durable::{DueTime, StoreError, TimerStore};
use actix_timers_postgres::PostgresOptions;

use crate::records::{at, keyed, put, record};
use crate::server::{Member, Session, connect, new_schema, scheduling, serving};
use crate::with_server;

with_server! {
    fn a_reader_of_any_node_sees_all_shards_and_the_deliveries_in_progress() {
        let store = connect(PostgresOptions::new().schema(&new_schema()).shards(4)).unwrap();
        let mut owner = Member::join(store.clone(), &serving());
        let mut web = Member::join(store, &scheduling());
        let (claimed, pending, parked) = (record(10, 1), keyed(11, 2, "k"), record(12, 3));
        let claim = Claim { number: 1, members: vec![(claimed.id, at(10), 1)] };
        let changes = [
            put(claimed.clone()),
            put(pending.clone()),
            put(parked.clone()),
            Change::Claim(claim),
            Change::Park { id: parked.id, at: None },
        ];
        let right = Right::Owner(owner.lease(0).fence);
        let committed = owner.store.commit_groups(&[Group { right, changes: &changes }]).unwrap();
        assert!(matches!(committed[..], [Committed::Outcomes(_)]));
        for member in [&mut owner, &mut web] {
            let mut reader = member.store.reader().unwrap().unwrap();
            let seen = thread::spawn(move || {
                let one = |id| reader.get(id).unwrap().map(|found| (found.part, found.is_claimed));
                let singles = [claimed.id, pending.id, parked.id].map(one);
                let page = reader.list(Part::Pending, None, DueTime::MAX, 10).unwrap();
                let listed: Vec<_> = page.found.iter().map(|found| (found.record.id, found.is_claimed)).collect();
                (singles, listed, reader.find_key("k").unwrap(), reader.total().unwrap())
            });
            let (singles, listed, key_holder, total) = seen.join().unwrap();
            assert_eq!(singles, [(Part::Pending, true), (Part::Pending, false), (Part::Parked, false)].map(Some));
            assert_eq!(listed, [(claimed.id, true), (pending.id, false)]);
            assert_eq!(key_holder, Some(pending.id));
            assert_eq!((total.pending, total.parked, total.dead), (2, 1, 0));
        }
    }

    fn a_record_of_a_newer_version_is_listed_as_such() {
        let schema = new_schema();
        let mut owner = Member::join(connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap(), &serving());
        let (newer, other) = (record(10, 1), record(11, 2));
        let right = Right::Owner(owner.lease(0).fence);
        owner.store.commit_groups(&[Group { right, changes: &[put(newer.clone()), put(other.clone())] }]).unwrap();
        Session::open().run(&format!("UPDATE {schema}.timers SET record = set_byte(record, 0, 9) WHERE due = 10"));
        let page = owner.store.list(Part::Pending, None, DueTime::MAX, 10).unwrap();
        assert_eq!(page.newer, [Newer { at: Position { due: at(10), id: newer.id }, version: 9 }]);
        assert_eq!(page.found.iter().map(|found| found.record.id).collect::<Vec<_>>(), [other.id]);
        assert!(page.damaged.is_empty());
        let error = owner.store.get(newer.id).unwrap_err();
        assert!(matches!(error, StoreError::NewerRecord { found: 9, .. }), "{error}");
    }

    fn a_reader_does_not_wait_for_a_commit() {
        let schema = new_schema();
        let mut store = connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let mut reader = store.reader().unwrap().unwrap();
        let mut owner = Member::join(store, &serving());
        let (first, second) = (record(10, 1), record(11, 2));
        let right = Right::Owner(owner.lease(0).fence);
        owner.store.commit_groups(&[Group { right, changes: &[put(first.clone())] }]).unwrap();
        let blocker = Session::open();
        blocker.run(&format!("BEGIN; SELECT FROM {schema}.shards FOR UPDATE"));
        let (done, committed) = channel();
        let writer = thread::spawn(move || {
            owner.store.commit_groups(&[Group { right, changes: &[put(second)] }]).unwrap();
            done.send(()).unwrap();
            owner
        });
        assert_eq!(committed.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout), "it waits");
        assert!(reader.get(first.id).unwrap().is_some());
        assert_eq!(reader.total().unwrap().pending, 1);
        assert_eq!(committed.try_recv().ok(), None, "it still waits");
        blocker.run("COMMIT");
        let _owner = writer.join().unwrap();
        assert_eq!(reader.total().unwrap().pending, 2);
    }
}
