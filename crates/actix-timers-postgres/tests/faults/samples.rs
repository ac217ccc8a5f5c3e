//! The checker of ownership: samples of the tables, twenty in a second.
//!
//! In every sample each shard has at most one owner, which holds a lease; of one epoch of a shard at most one node is
//! ever the owner; epochs never fall.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::lines::micros;

/// The owner of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) shard: i16,
    /// The id of the node, or none.
    pub(crate) owner: Option<i64>,
    pub(crate) epoch: i64,
    /// The label of the node, the first word of its name, if it has joined.
    pub(crate) name: Option<String>,
}

/// The owners at a time in microseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) at: u64,
    pub(crate) owners: Vec<Owner>,
}

/// Samples that differ from the one before.
#[derive(Default)]
struct Taken {
    samples: Vec<Sample>,
    number: u64,
}

/// A task that takes samples.
pub(crate) struct Sampler {
    taken: Arc<Mutex<Taken>>,
    task: JoinHandle<()>,
}

/// Connects to a server, for queries in order.
pub(crate) async fn client(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Sampler {
    /// Starts a sampler, which connects again whenever that is possible.
    pub(crate) fn start(runtime: &Handle, url: Arc<Mutex<String>>, schema: &str) -> Self {
        let taken = Arc::<Mutex<Taken>>::default();
        let into = Arc::clone(&taken);
        let query = format!(
            "SELECT s.shard, s.owner, s.epoch, split_part(n.name, ' ', 1) FROM {schema}.shards s LEFT JOIN {schema}.nodes n ON n.id = s.owner ORDER BY s.shard"
        );
        let task = runtime.spawn(async move {
            loop {
                let current = url.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Ok(Ok(client)) = tokio::time::timeout(Duration::from_secs(1), client(&current)).await {
                    let is_current = || *url.lock().unwrap_or_else(PoisonError::into_inner) == current;
                    while is_current() && sample(&client, &query, &into).await {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { taken, task }
    }

    /// Returns the last sample.
    pub(crate) fn last(&self) -> Option<Sample> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).samples.last().cloned()
    }

    /// Returns the time of the first state since `at` that fulfils a condition.
    pub(crate) fn first(&self, at: u64, is_it: impl Fn(&Sample) -> bool) -> Option<u64> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // The state at that time is that of the last sample before.
        let begin = taken.samples.partition_point(|sample| sample.at <= at).saturating_sub(1);
        taken.samples[begin..].iter().find(|sample| is_it(sample)).map(|sample| sample.at.max(at))
    }

    /// Returns the number of samples.
    pub(crate) fn number(&self) -> u64 {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).number
    }

    /// Returns the violations in all samples. At the time `switched` another server took over, in an earlier state.
    pub(crate) fn violations(&self, switched: Option<u64>) -> Vec<String> {
        violations(&self.taken.lock().unwrap_or_else(PoisonError::into_inner).samples, switched)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes a sample. Returns false if the connection is lost.
async fn sample(client: &Client, query: &str, into: &Mutex<Taken>) -> bool {
    let rows = match tokio::time::timeout(Duration::from_secs(5), client.query(query, &[])).await {
        Ok(Ok(rows)) => rows,
        // No tables yet.
        Ok(Err(error)) => return error.code().is_some() && !client.is_closed(),
        Err(_) => return false,
    };
    let owners: Vec<Owner> = rows
        .iter()
        .map(|row| Owner { shard: row.get(0), owner: row.get(1), epoch: row.get(2), name: row.get(3) })
        .collect();
    let mut taken = into.lock().unwrap_or_else(PoisonError::into_inner);
    taken.number += 1;
    if taken.samples.last().is_none_or(|last| last.owners != owners) {
        taken.samples.push(Sample { at: micros(SystemTime::now()), owners });
    }
    true
}

/// Returns the violations in samples.
fn violations(samples: &[Sample], switched: Option<u64>) -> Vec<String> {
    let mut violations = Vec::new();
    let mut owners = BTreeMap::<(i16, i64), i64>::new();
    let mut epochs = BTreeMap::<i16, i64>::new();
    let mut is_after = false;
    for sample in samples {
        if switched.is_some_and(|switched| sample.at >= switched) && !is_after {
            (owners, epochs, is_after) = (BTreeMap::new(), BTreeMap::new(), true);
        }
        let mut shards = BTreeSet::new();
        for Owner { shard, owner, epoch, .. } in &sample.owners {
            if !shards.insert(shard) {
                violations.push(format!("shard {shard} has two owners: {sample:?}"));
            }
            let before = epochs.insert(*shard, *epoch);
            if before.is_some_and(|before| before > *epoch) {
                violations.push(format!("the epoch of shard {shard} fell from {before:?} to {epoch}"));
            }
            if let Some(owner) = owner {
                let other = owners.insert((*shard, *epoch), *owner);
                if other.is_some_and(|other| other != *owner) {
                    violations.push(format!("epoch {epoch} of shard {shard} had the owners {other:?} and {owner}"));
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, owners: &[(i16, Option<i64>, i64)]) -> Sample {
        let owner = |&(shard, owner, epoch): &(i16, Option<i64>, i64)| Owner { shard, owner, epoch, name: None };
        Sample { at, owners: owners.iter().map(owner).collect() }
    }

    #[test]
    fn an_epoch_has_one_owner_and_never_falls() {
        let good = [sample(1, &[(0, Some(1), 1), (1, None, 1)]), sample(2, &[(0, Some(2), 2), (1, Some(2), 2)])];
        assert_eq!(violations(&good, None).len(), 0);
        for bad in [
            vec![sample(1, &[(0, Some(1), 1), (0, Some(1), 1)])],
            vec![sample(1, &[(0, Some(1), 1)]), sample(2, &[(0, Some(2), 1)])],
            vec![sample(1, &[(0, Some(1), 2)]), sample(2, &[(0, Some(1), 1)])],
        ] {
            assert_eq!(violations(&bad, None).len(), 1, "{bad:?}");
        }
        let switched = [sample(1, &[(0, Some(1), 2)]), sample(5, &[(0, Some(1), 1)])];
        assert_eq!(violations(&switched, Some(4)).len(), 0);
    }
}
