//! The arguments of the function `commit`: one array for each column of each kind of change.

use std::collections::BTreeMap;

use actix_timers_durable::{DueTime, Record, RecordState};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::steps::{Step, kind};
use super::{Chain, encode, right};

/// See the [module](self). Names are those of the function.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    pub(crate) is_lowering: bool,
    pub(super) is_loose: bool,
    pub(super) g_right: Vec<i16>,
    g_shard: Vec<i16>,
    g_epoch: Vec<i64>,
    a_shard: Vec<i16>,
    a_cursor: Vec<i64>,
    a_seen: Vec<String>,
    pub(super) s_flags: Vec<i32>,
    pub(super) s_p: Vec<i32>,
    pub(super) s_k: Vec<i32>,
    pub(super) s_o: Vec<i32>,
    pub(super) s_c: Vec<i32>,
    pub(super) s_e: Vec<i32>,
    pub(super) p: Rows,
    pub(super) k_ord: Vec<i32>,
    pub(super) k_first: Vec<i32>,
    pub(super) k: Rows,
    k_key: Vec<Vec<u8>>,
    pub(super) k_replace: Vec<bool>,
    pub(super) o_ord: Vec<i32>,
    pub(super) o_kind: Vec<i16>,
    o_right: Vec<i16>,
    o_shard: Vec<i16>,
    pub(super) o_id: Vec<Uuid>,
    o_first: Vec<i64>,
    o_at: Vec<Option<i64>>,
    o_due: Vec<Option<i64>>,
    o_nominal: Vec<Option<i64>>,
    o_attempt: Vec<Option<i32>>,
    o_repetition: Vec<Option<i64>>,
    o_dead_at: Vec<Option<i64>>,
    o_reason: Vec<Option<Vec<u8>>>,
    pub(super) c_ord: Vec<i32>,
    c_shard: Vec<i16>,
    c_number: Vec<i64>,
    c_last: Vec<i32>,
    c_is_loose: Vec<bool>,
    m_id: Vec<Uuid>,
    m_due: Vec<i64>,
    m_attempt: Vec<i32>,
    e_right: Vec<i16>,
    e_shard: Vec<i16>,
    e_number: Vec<i64>,
}

/// Columns of new timers.
#[derive(Debug, Default)]
pub(super) struct Rows {
    right: Vec<i16>,
    shard: Vec<i16>,
    pub(super) id: Vec<Uuid>,
    due: Vec<i64>,
    nominal: Vec<Option<i64>>,
    attempt: Vec<Option<i32>>,
    repetition: Vec<Option<i64>>,
    moved: Vec<bool>,
    record: Vec<Vec<u8>>,
}

/// Returns a due time as a column.
pub(crate) fn time(due: DueTime) -> i64 {
    i64::try_from(due.as_millis()).unwrap_or(i64::MAX)
}

/// Returns a shard as a column.
pub(crate) fn shard(shard: u16) -> i16 {
    i16::try_from(shard).unwrap_or(i16::MAX)
}

/// Returns a state as columns: nominal due time, attempt, repetition. Null stands for the default.
fn state(state: &RecordState) -> (Option<i64>, Option<i32>, Option<i64>) {
    (
        (state.nominal != state.due).then(|| time(state.nominal)),
        (state.attempt != 1).then_some(state.attempt.cast_signed()),
        (state.repetition != 1).then_some(state.repetition.cast_signed()),
    )
}

impl Rows {
    fn push(&mut self, right: i16, record: &Record) {
        let (nominal, attempt, repetition) = state(&record.progress);
        self.right.push(right);
        self.shard.push(shard(record.id.shard()));
        self.id.push(record.id.into());
        self.due.push(time(record.progress.due));
        self.nominal.push(nominal);
        self.attempt.push(attempt);
        self.repetition.push(repetition);
        self.moved.push(record.progress.due != record.id.first_due());
        self.record.push(encode(record));
    }

    fn shrink(&mut self) {
        shrink_rights(&mut self.right);
        shrink(&mut self.nominal);
        shrink(&mut self.attempt);
        shrink(&mut self.repetition);
        if self.moved.iter().all(|moved| !moved) {
            self.moved.clear();
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            sent(&self.right),
            sent(&self.shard),
            sent(&self.id),
            sent(&self.due),
            sent(&self.nominal),
            sent(&self.attempt),
            sent(&self.repetition),
            sent(&self.moved),
            sent(&self.record),
        ]
    }
}

/// Returns a column as an argument: null if it is empty.
fn sent<T: ToSql + Sync + 'static>(column: &Vec<T>) -> &(dyn ToSql + Sync) {
    if column.is_empty() { &None::<&[T]> } else { column }
}

fn shrink<T>(column: &mut Vec<Option<T>>) {
    if column.iter().all(Option::is_none) {
        column.clear();
    }
}

fn shrink_rights(column: &mut Vec<i16>) {
    if column.iter().all(|right| *right == right::OWNER) {
        column.clear();
    }
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

impl Arrays {
    pub(super) fn new(is_loose: bool) -> Self {
        Self { is_loose, ..Self::default() }
    }

    pub(super) fn group(&mut self, right: i16, of: u16, epoch: u64) {
        self.g_right.push(right);
        self.g_shard.push(shard(of));
        self.g_epoch.push(epoch.cast_signed());
    }

    pub(super) fn advance(&mut self, of: u16, cursor: DueTime, seen: &str) {
        self.a_shard.push(shard(of));
        self.a_cursor.push(time(cursor));
        self.a_seen.push(if seen.is_empty() { "1:1:".to_owned() } else { seen.to_owned() });
    }

    /// Appends a step. Timers, keys and ids are in order, so that all commits lock them in the same one.
    pub(super) fn step(&mut self, mut step: Step<'_>, chains: &mut BTreeMap<usize, Chain>) {
        let mut flags = 0;
        step.puts.sort_by_key(|put| (put.record.id.shard(), put.record.progress.due, put.record.id));
        for put in &step.puts {
            self.p.push(put.right, put.record);
        }
        step.keyed.sort_by(|a, b| a.key.as_bytes().cmp(b.key.as_bytes()));
        for puts in step.keyed {
            let (Some(first), Some(last)) = (puts.chain.members.first(), puts.chain.members.last()) else { continue };
            self.k_first.push(count(first.0));
            self.k_ord.push(count(last.0));
            self.k.push(puts.right, puts.records[puts.chain.remaining()]);
            self.k_key.push(puts.key.as_bytes().to_vec());
            let replaces = puts.chain.replaces();
            self.k_replace.push(replaces);
            flags |= if replaces { 1024 } else { 0 };
            chains.insert(last.0, puts.chain);
        }
        step.operations.sort_by_key(|operation| operation.id);
        for operation in step.operations {
            flags |= 1 << operation.kind;
            if matches!(operation.right, right::ANYONE | right::OWNER_WITH_HELD) {
                flags |= 512;
            }
            let (nominal, attempt, repetition) = match operation.kind {
                kind::MOVE | kind::DEAD_LETTER_THEN => operation.to.as_ref().map_or((None, None, None), state),
                _ => (None, None, None),
            };
            self.o_ord.push(count(operation.ord));
            self.o_kind.push(operation.kind);
            self.o_right.push(operation.right);
            self.o_shard.push(shard(operation.shard));
            self.o_id.push(operation.id.into());
            self.o_first.push(time(operation.id.first_due()));
            self.o_at.push(operation.at.map(time));
            self.o_due.push(operation.to.map(|to| time(to.due)));
            self.o_nominal.push(nominal);
            self.o_attempt.push(attempt);
            self.o_repetition.push(repetition);
            self.o_dead_at.push(operation.dead.map(|(dead_at, _)| time(dead_at)));
            self.o_reason.push(operation.dead.map(|(_, reason)| reason.as_bytes().to_vec()));
        }
        for (ord, of, claim) in step.claims {
            let mut members: Vec<_> = claim.members.iter().collect();
            if !self.is_loose {
                members.sort_by_key(|(id, ..)| *id);
            }
            self.c_is_loose.push(self.is_loose);
            for (id, due, attempt) in members {
                self.m_id.push((*id).into());
                self.m_due.push(time(*due));
                self.m_attempt.push(attempt.cast_signed());
            }
            self.c_ord.push(count(ord));
            self.c_shard.push(shard(of));
            self.c_number.push(claim.number.cast_signed());
            self.c_last.push(count(self.m_id.len()));
        }
        for (right, of, number) in step.ends {
            self.e_right.push(right);
            self.e_shard.push(shard(of));
            self.e_number.push(number.cast_signed());
        }
        self.s_flags.push(flags);
        self.s_p.push(count(self.p.id.len()));
        self.s_k.push(count(self.k.id.len()));
        self.s_o.push(count(self.o_id.len()));
        self.s_c.push(count(self.c_ord.len()));
        self.s_e.push(count(self.e_number.len()));
    }

    /// Empties arrays without information.
    pub(super) fn shrink(&mut self) {
        self.p.shrink();
        self.k.shrink();
        shrink_rights(&mut self.o_right);
        shrink(&mut self.o_at);
        shrink(&mut self.o_due);
        shrink(&mut self.o_nominal);
        shrink(&mut self.o_attempt);
        shrink(&mut self.o_repetition);
        shrink(&mut self.o_dead_at);
        shrink(&mut self.o_reason);
        shrink_rights(&mut self.e_right);
    }

    /// Lets new timers be there already, from an earlier attempt: they stay as they are.
    pub(crate) fn expect_known_timers(&mut self) {
        self.s_flags.iter_mut().for_each(|flags| *flags |= 2048);
    }

    /// Returns whether nothing is to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.s_flags.is_empty() && self.a_shard.is_empty()
    }

    /// Returns the arguments after node, number and `is_lowering`.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let [p_right, p_shard, p_id, p_due, p_nominal, p_attempt, p_repetition, p_moved, p_record] = self.p.params();
        let [k_right, k_shard, k_id, k_due, k_nominal, k_attempt, k_repetition, k_moved, k_record] = self.k.params();
        vec![
            sent(&self.g_right),
            sent(&self.g_shard),
            sent(&self.g_epoch),
            sent(&self.a_shard),
            sent(&self.a_cursor),
            sent(&self.a_seen),
            sent(&self.s_flags),
            sent(&self.s_p),
            sent(&self.s_k),
            sent(&self.s_o),
            sent(&self.s_c),
            sent(&self.s_e),
            p_right,
            p_shard,
            p_id,
            p_due,
            p_nominal,
            p_attempt,
            p_repetition,
            p_moved,
            p_record,
            sent(&self.k_ord),
            sent(&self.k_first),
            k_right,
            k_shard,
            k_id,
            k_due,
            k_nominal,
            k_attempt,
            k_repetition,
            k_moved,
            k_record,
            sent(&self.k_key),
            sent(&self.k_replace),
            sent(&self.o_ord),
            sent(&self.o_kind),
            sent(&self.o_right),
            sent(&self.o_shard),
            sent(&self.o_id),
            sent(&self.o_first),
            sent(&self.o_at),
            sent(&self.o_due),
            sent(&self.o_nominal),
            sent(&self.o_attempt),
            sent(&self.o_repetition),
            sent(&self.o_dead_at),
            sent(&self.o_reason),
            sent(&self.c_ord),
            sent(&self.c_shard),
            sent(&self.c_number),
            sent(&self.c_last),
            sent(&self.c_is_loose),
            sent(&self.m_id),
            sent(&self.m_due),
            sent(&self.m_attempt),
            sent(&self.e_right),
            sent(&self.e_shard),
            sent(&self.e_number),
        ]
    }
}
