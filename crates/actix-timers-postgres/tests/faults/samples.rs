//! The checker of nodes: samples of the tables, up to twenty in a second.
//!
//! In every sample each claim names a node that the tables know. A dead node stays dead, renews nothing and claims nothing
//! more; one that is gone does not come back; the bound of a node's claims never falls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::lines::micros;

/// A node in the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: i64,
    /// The label of the node, the first word of its name.
    pub(crate) label: String,
    pub(crate) is_dead: bool,
    /// Whether its lease runs, by the server's clock.
    pub(crate) has_lease: bool,
    /// The end of its lease and the time at which it joined, in microseconds since 1970.
    pub(crate) lease_until: i64,
    pub(crate) joined: i64,
    claimed_until: i64,
}

/// The nodes and their claims at a time in microseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) at: u64,
    pub(crate) members: Vec<Member>,
    /// The numbers of claimed timers, by the id of the node.
    pub(crate) claims: BTreeMap<i64, i64>,
}

impl Sample {
    /// Returns whether a node is dead, and names this many timers at most: others may claim the rest.
    pub(crate) fn is_released(&self, label: &str, most: i64) -> bool {
        let mut of_label = self.members.iter().filter(|member| member.label == label);
        of_label.all(|member| member.is_dead && self.claims.get(&member.id).is_none_or(|left| *left <= most))
    }

    /// Returns whether exactly these nodes are in the tables, live, and have seen each other.
    pub(crate) fn is_joined_by(&self, labels: &[String], lease: Duration) -> bool {
        let last = self.members.iter().map(|member| member.joined).max().unwrap_or(0);
        let are: BTreeSet<_> = self.members.iter().map(|member| &member.label).collect();
        let lives = |member: &Member| !member.is_dead && member.has_lease;
        // A lease is renewed together with a look at the nodes.
        let has_seen = |member: &Member| member.lease_until - lease.as_micros() as i64 > last;
        self.members.len() == labels.len()
            && are == labels.iter().collect()
            && self.members.iter().all(|member| lives(member) && (has_seen(member) || labels.len() == 1))
    }
}

/// The least and the greatest pause between two samples.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

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
        // One statement, so one snapshot. Claims that name no node have a row without one.
        let query = format!(
            "SELECT coalesce(n.id, c.node), split_part(n.name, ' ', 1), n.dead, n.lease_until > clock_timestamp(),
                (extract(epoch FROM n.lease_until) * 1000000)::bigint, (extract(epoch FROM n.joined) * 1000000)::bigint,
                n.claimed_until, c.number
            FROM {schema}.nodes n
            FULL JOIN (SELECT t.node, count(*) AS number FROM {schema}.timers t WHERE t.node IS NOT NULL GROUP BY 1) c
                ON c.node = n.id
            ORDER BY 1"
        );
        let task = runtime.spawn(async move {
            loop {
                let current = url.lock().unwrap().clone();
                if let Ok(Ok(client)) = tokio::time::timeout(Duration::from_secs(1), client(&current)).await {
                    let is_current = || *url.lock().unwrap() == current;
                    loop {
                        let began = Instant::now();
                        if !is_current() || !sample(&client, &query, &into).await {
                            break;
                        }
                        // It reads all timers, and a million take long. One that was slow by chance must not hide a release.
                        tokio::time::sleep((began.elapsed() * 10).clamp(PAUSES[0], PAUSES[1])).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { taken, task }
    }

    /// Returns the last sample.
    pub(crate) fn last(&self) -> Option<Sample> {
        self.taken.lock().unwrap().samples.last().cloned()
    }

    /// Returns the time of the first state since `at` that fulfils a condition.
    pub(crate) fn first(&self, at: u64, is_it: impl Fn(&Sample) -> bool) -> Option<u64> {
        let taken = self.taken.lock().unwrap();
        // The state at that time is that of the last sample before.
        let begin = taken.samples.partition_point(|sample| sample.at <= at).saturating_sub(1);
        taken.samples[begin..].iter().find(|sample| is_it(sample)).map(|sample| sample.at.max(at))
    }

    /// Returns the number of samples.
    pub(crate) fn number(&self) -> u64 {
        self.taken.lock().unwrap().number
    }

    /// Returns the violations in all samples. At the time `switched` another server took over, in an earlier state.
    pub(crate) fn violations(&self, switched: Option<u64>) -> Vec<String> {
        violations(&self.taken.lock().unwrap().samples, switched)
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
    let members = rows.iter().filter_map(|row| {
        Some(Member {
            id: row.get(0),
            label: row.get::<_, Option<String>>(1)?,
            is_dead: row.get(2),
            has_lease: row.get(3),
            lease_until: row.get(4),
            joined: row.get(5),
            claimed_until: row.get(6),
        })
    });
    let members: Vec<Member> = members.collect();
    let claims = rows.iter().filter_map(|row| Some((row.get(0), row.get::<_, Option<i64>>(7)?))).collect();
    let mut taken = into.lock().unwrap();
    taken.number += 1;
    if taken.samples.last().is_none_or(|last| last.members != members || last.claims != claims) {
        taken.samples.push(Sample { at: micros(SystemTime::now()), members, claims });
    }
    true
}

/// Returns the violations in samples.
fn violations(samples: &[Sample], switched: Option<u64>) -> Vec<String> {
    let mut violations = Vec::new();
    // The last state of each node with its claims, and the nodes that are gone.
    let mut known = BTreeMap::<i64, (Member, i64)>::new();
    let mut gone = BTreeSet::<i64>::new();
    let mut is_after = false;
    for sample in samples {
        if switched.is_some_and(|switched| sample.at >= switched) && !is_after {
            (known, gone, is_after) = (BTreeMap::new(), BTreeSet::new(), true);
        }
        let ids: BTreeSet<i64> = sample.members.iter().map(|member| member.id).collect();
        gone.extend(known.keys().filter(|id| !ids.contains(id)));
        known.retain(|id, _| ids.contains(id));
        for (node, number) in sample.claims.iter().filter(|(node, _)| !ids.contains(node)) {
            violations.push(format!("{number} claims name the node {node}, which is not there: {sample:?}"));
        }
        for member in &sample.members {
            let claims = sample.claims.get(&member.id).copied().unwrap_or(0);
            if gone.contains(&member.id) {
                violations.push(format!("a node was gone, and is back: {member:?}"));
            }
            let Some((before, earlier)) = known.insert(member.id, (member.clone(), claims)) else { continue };
            if before.claimed_until > member.claimed_until {
                violations.push(format!("the bound of claims fell: {before:?}, then {member:?}"));
            }
            if before.is_dead && (!member.is_dead || member.lease_until > before.lease_until || claims > earlier) {
                violations.push(format!("a dead node lives: {before:?} with {earlier}, then {member:?} with {claims}"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn member(id: i64) -> Member {
        let label = format!("n{id}");
        Member { id, label, is_dead: false, has_lease: true, lease_until: 10_000_000, joined: 1, claimed_until: 5 }
    }

    fn dead(id: i64) -> Member {
        Member { is_dead: true, ..member(id) }
    }

    fn sample(at: u64, members: &[Member], claims: &[(i64, i64)]) -> Sample {
        Sample { at, members: members.to_vec(), claims: claims.iter().copied().collect() }
    }

    #[test]
    fn a_dead_node_claims_nothing_and_stays_dead() {
        let good = [
            sample(1, &[member(1), member(2)], &[(1, 3), (2, 1)]),
            sample(2, &[dead(1), member(2)], &[(1, 3), (2, 4)]),
            sample(3, &[dead(1), member(2)], &[(1, 1)]),
            sample(4, &[member(2)], &[(2, 7)]),
        ];
        assert_eq!(violations(&good, None), [""; 0]);
        let renewed = Member { lease_until: 11_000_000, ..dead(1) };
        let lowered = Member { claimed_until: 4, ..member(1) };
        for bad in [
            [sample(1, &[member(1)], &[(2, 1)]), sample(2, &[member(1)], &[])],
            [sample(1, &[dead(1)], &[]), sample(2, &[member(1)], &[])],
            [sample(1, &[dead(1)], &[(1, 1)]), sample(2, &[dead(1)], &[(1, 2)])],
            [sample(1, &[dead(1)], &[]), sample(2, &[renewed], &[])],
            [sample(1, &[member(1)], &[]), sample(2, &[lowered], &[])],
        ] {
            assert_eq!(violations(&bad, None).len(), 1, "{bad:?}");
        }
        let back = [sample(1, &[member(1)], &[]), sample(2, &[], &[]), sample(5, &[member(1)], &[])];
        assert_eq!(violations(&back, None).len(), 1);
        assert_eq!(violations(&back, Some(4)), [""; 0], "another server");
    }

    #[test]
    fn nodes_have_joined_when_each_has_seen_the_others() {
        let labels = |ids: &[i64]| ids.iter().map(|id| format!("n{id}")).collect::<Vec<_>>();
        let late = Member { joined: 9_000_000, ..member(2) };
        assert!(sample(1, &[member(1), member(2)], &[]).is_joined_by(&labels(&[1, 2]), LEASE));
        assert!(!sample(1, &[member(1), late], &[]).is_joined_by(&labels(&[1, 2]), LEASE));
        assert!(!sample(1, &[member(1)], &[]).is_joined_by(&labels(&[1, 2]), LEASE));
        assert!(!sample(1, &[member(1), dead(2)], &[]).is_joined_by(&labels(&[1]), LEASE));
        let expired = Member { has_lease: false, ..member(1) };
        assert!(!sample(1, &[expired], &[]).is_joined_by(&labels(&[1]), LEASE));
    }

    #[test]
    fn a_node_is_released_when_nothing_names_it() {
        assert!(sample(1, &[member(2)], &[]).is_released("n1", 0));
        assert!(sample(1, &[dead(1)], &[]).is_released("n1", 0));
        assert!(!sample(1, &[dead(1)], &[(1, 1)]).is_released("n1", 0));
        assert!(!sample(1, &[member(1)], &[]).is_released("n1", 0));
    }
}
