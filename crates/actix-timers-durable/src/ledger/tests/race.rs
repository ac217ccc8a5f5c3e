//! Cancel against claim.

use std::sync::Arc;

use super::world::{Random, World, coming, complete};
use crate::ledger::{Answer, Cancellation, Request};
use crate::store::OnKey;

#[test]
fn of_a_cancel_and_a_claim_exactly_one_wins_a_million_times() {
    exactly_one_wins(World::new());
}

#[test]
fn of_a_cancel_and_a_claim_in_files_exactly_one_wins_a_million_times() {
    exactly_one_wins(World::in_files(262_144));
}

fn exactly_one_wins(mut world: World) {
    let rounds = if cfg!(debug_assertions) { 20 } else { 1000 };
    let mut random = Random(5);
    for _ in 0..rounds {
        let records: Vec<_> = (0..1000).map(|_| Arc::new(world.record(0))).collect();
        let ids: Vec<_> = records.iter().map(|record| record.id).collect();
        let schedule = |record| Request::Schedule { record, on_key: OnKey::KeepExisting, answer: Answer::Nobody };
        world.turn(records.into_iter().map(schedule).collect());
        let mut claims: Vec<_> = ids.chunks(1 + random.below(50) as usize).map(Some).collect();
        let mut cancels: Vec<_> = ids.iter().copied().map(Some).collect();
        let (mut requests, mut claimed, mut cancelled) = (vec![], vec![], vec![]);
        // Each claim is among the cancels of its members, in one group or in several.
        while claims.iter().any(Option::is_some) || cancels.iter().any(Option::is_some) {
            let nth = random.below(claims.len() as u64) as usize;
            if random.once_in(2)
                && let Some(ids) = claims[nth].take()
            {
                let (request, coming) = coming(|answer| Request::Claim { ids: ids.to_vec(), answer });
                requests.push(request);
                claimed.push(coming);
            }
            for cancel in cancels.iter_mut().filter(|cancel| cancel.is_some()) {
                if random.once_in(3)
                    && let Some(id) = cancel.take()
                {
                    let (request, coming) = coming(|answer| Request::Cancel { id, answer });
                    requests.push(request);
                    cancelled.push((id, coming));
                }
            }
            if random.once_in(5) {
                world.turn(std::mem::take(&mut requests));
            }
        }
        world.turn(requests);
        let cleared: Vec<_> = claimed.into_iter().flat_map(|coming| coming.get().unwrap()).collect();
        let delivered: std::collections::HashSet<_> = cleared.iter().map(|record| record.id).collect();
        assert_eq!(delivered.len(), cleared.len(), "none twice");
        for (id, coming) in cancelled {
            let expected = if delivered.contains(&id) { Cancellation::InProgress } else { Cancellation::Cancelled };
            assert_eq!(coming.get().unwrap(), expected);
        }
        world.turn(cleared.iter().map(|record| complete(record)).collect());
        assert_eq!(world.counts().pending, 0);
    }
}
