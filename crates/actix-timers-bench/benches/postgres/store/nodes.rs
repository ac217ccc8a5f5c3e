//! A table of the bench that is a store, with one node or several.

use std::thread;

use super::{Member, Place, settle};
use crate::contenders::{DELIVER, DELIVER_BY_THREE, GROUPS, How, SCHEDULE, Table, Way, in_groups};
use crate::sql::Sessions;
use crate::timer::{SHARDS, Timer};
use bench::rows::OURS;

/// New timers of a node that does not own their shards.
pub(crate) const FOREIGN: &str = "actix-timers, other shards";

pub(crate) struct Nodes {
    members: Vec<Member>,
    sessions: Sessions,
    schema: String,
}

impl Nodes {
    pub(crate) fn new(place: &Place, nodes: usize) -> Self {
        let mut members: Vec<_> = (0..nodes).map(|node| Member::join(place, &format!("node-{node}"))).collect();
        settle(&mut members, SHARDS);
        Self { members, sessions: Sessions::open(&place.url, 1), schema: place.schema.clone() }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.members.drain(..).for_each(Member::leave);
        self.sessions.drop_schema(&self.schema);
    }
}

impl Table for Nodes {
    fn ways(&self) -> Vec<Way> {
        if self.members.len() > 1 {
            return in_groups(DELIVER_BY_THREE, OURS).collect();
        }
        let foreign = GROUPS.map(|size| Way { workload: SCHEDULE, subject: FOREIGN, how: How::Foreign(size) });
        in_groups(SCHEDULE, OURS).chain(foreign).chain(in_groups(DELIVER, OURS)).collect()
    }

    fn schedule(&mut self, way: Way, timers: &[Timer]) {
        match way.how {
            How::Groups(group) if self.members.len() == 1 => self.members[0].schedule(timers, group),
            // Each node stores the timers of its own shards.
            How::Groups(group) => thread::scope(|scope| {
                for member in &mut self.members {
                    let shards = member.shards();
                    let own: Vec<_> = timers.iter().filter(|timer| shards.contains(&timer.shard())).copied().collect();
                    scope.spawn(move || member.schedule(&own, group));
                }
            }),
            How::Foreign(group) => self.members[0].schedule_for_others(timers, group),
            other => panic!("{other:?}"),
        }
    }

    fn deliver(&mut self, way: Way, count: usize) -> Vec<u64> {
        let How::Groups(group) = way.how else { panic!("{way:?}") };
        let nodes = self.members.len();
        thread::scope(|scope| {
            let deliver = |(index, member): (usize, _)| {
                let count = (count + index) / nodes;
                let member: &mut Member = member;
                scope.spawn(move || member.deliver(count, group))
            };
            let threads: Vec<_> = self.members.iter_mut().enumerate().map(deliver).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn pending(&mut self) -> u64 {
        self.sessions.number(&format!("SELECT count(*) FROM {}.timers", self.schema))
    }

    fn settle(&mut self) {
        self.sessions.execute("VACUUM (ANALYZE)");
        self.sessions.execute("CHECKPOINT");
    }
}
