//! Figures, printed: no limits, since machines differ.

use std::sync::Arc;
use std::time::Instant;

use actix_timers_durable::store::{Change, Claim, Committed, Group, OnKey, Right};
use actix_timers_durable::{DurableId, Record, TimerStore};
use actix_timers_postgres::PostgresOptions;

use crate::records::{at, record};
use crate::server::{Member, connect, new_schema, serving};
use crate::with_server;

/// Returns the changes of records of a shard.
type Changes<'a> = dyn FnMut(u16, &[Arc<Record>]) -> Vec<Change> + 'a;

fn timer(shard: u16, number: u64, payload: usize) -> Arc<Record> {
    let id =
        DurableId::from_parts(shard, at(1_800_000_000_000 + number / 16), number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut record = record(1_800_000_000_000 + number / 16, number);
    record.id = id;
    record.payload = vec![7; payload].into();
    Arc::new(record)
}

with_server! {
    fn schedules_and_lifecycles_by_the_second() {
        let total = std::env::var("ACTIX_TIMERS_FIGURES").map_or(40_000, |total| total.parse().unwrap());
        for size in [1, 256, 4096] {
            let total = if size == 1 { total / 40 } else { total };
            let mut node = Member::join(connect(PostgresOptions::new().schema(&new_schema())).unwrap(), &serving());
            // About 120 bytes with names and columns.
            let records: Vec<_> = (0..total).map(|number| timer((number / 64 % 64) as u16, number as u64, 88)).collect();
            let mut groups_of = |changes: &mut Changes<'_>| {
                let began = Instant::now();
                for records in records.chunks(size) {
                    let by_shard: Vec<_> = records
                        .chunk_by(|a, b| a.id.shard() == b.id.shard())
                        .map(|records| (records[0].id.shard(), changes(records[0].id.shard(), records)))
                        .collect();
                    let mut merged: std::collections::BTreeMap<u16, Vec<Change>> = std::collections::BTreeMap::new();
                    for (shard, changes) in by_shard {
                        merged.entry(shard).or_default().extend(changes);
                    }
                    let groups: Vec<_> = merged
                        .iter()
                        .map(|(shard, changes)| Group { right: Right::Owner(node.lease(*shard).fence), changes })
                        .collect();
                    let committed = node.store.commit_groups(&groups).unwrap();
                    assert!(committed.iter().all(|committed| matches!(committed, Committed::Outcomes(_))));
                }
                total as f64 / began.elapsed().as_secs_f64()
            };
            let put = |record: &Arc<Record>| Change::Put { record: Arc::clone(record), on_key: OnKey::KeepExisting };
            let schedules = groups_of(&mut |_, records| records.iter().map(put).collect());
            let mut number = 0;
            let claims = groups_of(&mut |_, records| {
                number += 1;
                let members = records.iter().map(|record| (record.id, record.progress.due, 1)).collect();
                vec![Change::Claim(Claim { number, members })]
            });
            let mut number = 0;
            let ends = groups_of(&mut |_, records| {
                number += 1;
                let remove = |record: &Arc<Record>| Change::Remove { id: record.id, at: Some(record.progress.due) };
                let mut changes: Vec<_> = records.iter().map(remove).collect();
                changes.push(Change::EndClaim { number });
                changes
            });
            println!("groups of {size}: {schedules:.0} schedules/s, {claims:.0} claims/s, {ends:.0} ends/s, of {total}");
        }
    }
}
