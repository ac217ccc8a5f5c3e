//! The state of shards that the node has acquired.

use std::collections::BTreeMap;

use actix_timers_durable::store::{Claim, Fence, Lease};

use crate::columns::{claim, due, shard};
use crate::error::Failure;
use crate::plan;
use crate::session::Session;
use crate::shared::Gained;

/// Returns the state of shards that the node has acquired. Claims are those of dead nodes, or, on a `single` node, all.
pub(crate) async fn leases(session: &mut Session, shards: &[u16], single: bool) -> Result<Vec<Gained>, Failure> {
    let node = session.shared.node();
    let columns: Vec<_> = shards.iter().map(|shard| plan::shard(*shard)).collect();
    let sql = session.sql("SELECT l.shard, l.epoch, l.stored, l.bound, l.seen FROM @schema@.leases($1, $2) l");
    let rows = session.query(&sql, &[&node, &columns]).await?;
    // After the leases: a claim that ends in between is found at the next look.
    let sql = session.sql(
        "SELECT c.shard, c.number, n.id IS NOT NULL, c.ids, c.dues, c.attempts
            FROM @schema@.claims c LEFT JOIN @schema@.nodes n ON n.id = c.node
            WHERE c.shard = ANY ($1) OR (n.id IS NULL AND c.ids <> '{}')",
    );
    let of_all = session.query(&sql, &[&columns]).await?;
    let mut claims: BTreeMap<u16, (Vec<Claim>, Vec<Claim>)> = BTreeMap::new();
    for row in &of_all {
        let (dead, held) = claims.entry(shard(row.get(0))).or_default();
        let of_kind = if row.get(2) && !single { held } else { dead };
        of_kind.push(claim(row, 3, row.get(1)));
    }
    let mut gained = Vec::new();
    for row in &rows {
        let shard = shard(row.get(0));
        let has_other_claims = !single
            && claims
                .iter()
                .any(|(other, (dead, _))| *other != shard && dead.iter().any(|claim| !claim.members.is_empty()));
        let (mut dead, held) = claims.get(&shard).cloned().unwrap_or_default();
        dead.sort_by_key(|claim| claim.number);
        let fence = Fence { shard, epoch: row.get::<_, i64>(1).cast_unsigned() };
        let lease = Lease { held, has_other_claims, ..Lease::new(fence, due(row.get(3)), dead) };
        let Ok(seen) = row.get::<_, &str>(4).parse() else {
            return Err(Failure::NotSent("the server returned no snapshot".to_owned()));
        };
        gained.push(Gained { lease, stored: due(row.get(2)), seen });
    }
    Ok(gained)
}
