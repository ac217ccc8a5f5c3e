//! Doubly linked lists of timers in one store, so that a timer can leave from anywhere by one unlinking.
//!
//! Every list is a ring through a *sentinel*, a node without a timer: neither the first nor the last timer is a special
//! case, and unlinking a timer does not require knowing its list.

use super::{Expiry, Handle, Tick};

/// An outstanding timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) deadline: Tick,
    /// The number of its start: 1, 2, 3 and so on. 0 marks a node without a timer.
    pub(crate) order: u64,
    pub(crate) id: u64,
    /// Remaining turns of the ring, counted only by the hashed wheel with rounds.
    pub(crate) rounds: u64,
}

impl Timer {
    pub(crate) const fn expiry(self) -> Expiry {
        Expiry { deadline: self.deadline, id: self.id }
    }
}

#[derive(Debug)]
struct Node {
    timer: Timer,
    before: usize,
    after: usize,
}

/// The id of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListId(usize);

/// The id of a node, valid as long as its timer is outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(usize);

/// A store of lists and their timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    nodes: Vec<Node>,
    free: Vec<usize>,
    started: u64,
    len: usize,
    /// Timers compared so far, in starts and in ticks.
    steps: u64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds `count` empty lists.
    pub(crate) fn add_lists(&mut self, count: usize) -> Vec<ListId> {
        (0..count).map(|_| ListId(self.take_node(NO_TIMER))).collect()
    }

    /// Returns the number of outstanding timers.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Starts a timer at the end of `list`.
    pub(crate) fn start(&mut self, list: ListId, deadline: Tick, id: u64) -> Handle {
        let node = self.new_timer(deadline, id);
        self.link_after(self.nodes[list.0].before, node);
        self.handle(node)
    }

    /// Starts a timer in a list that is sorted by deadline, behind all timers due not later.
    pub(crate) fn start_sorted(&mut self, list: ListId, deadline: Tick, id: u64) -> Handle {
        let node = self.new_timer(deadline, id);
        // From the end: a new timer is more often due late than early, and equal deadlines stay in the order of starts.
        let mut place = self.nodes[list.0].before;
        while place != list.0 {
            self.steps += 1;
            if self.nodes[place].timer.deadline <= deadline {
                break;
            }
            place = self.nodes[place].before;
        }
        self.link_after(place, node);
        self.handle(node)
    }

    /// Stops the timer of the handle, if it is still outstanding.
    pub(crate) fn stop(&mut self, handle: Handle) -> bool {
        self.find(handle).map(|node| self.remove(node)).is_some()
    }

    /// Returns the timer of the handle, if it is still outstanding.
    pub(crate) fn find(&self, handle: Handle) -> Option<NodeId> {
        let node = handle.at as usize;
        let found = self.nodes.get(node).is_some_and(|found| found.timer.order == handle.order);
        found.then_some(NodeId(node))
    }

    /// Returns the list of a timer: the sentinel at the end of the timers behind it.
    pub(crate) fn list_of(&self, node: NodeId) -> ListId {
        let mut at = node.0;
        while self.nodes[at].timer.order != NO_TIMER.order {
            at = self.nodes[at].after;
        }
        ListId(at)
    }

    /// Returns the number of timers compared so far.
    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Removes a timer.
    pub(crate) fn remove(&mut self, node: NodeId) -> Timer {
        self.unlink(node.0);
        self.free.push(node.0);
        self.len -= 1;
        std::mem::replace(&mut self.nodes[node.0].timer, NO_TIMER)
    }

    /// Moves a timer to the end of `list`.
    pub(crate) fn move_to(&mut self, list: ListId, node: NodeId) {
        self.unlink(node.0);
        self.link_after(self.nodes[list.0].before, node.0);
    }

    pub(crate) fn timer(&self, node: NodeId) -> &Timer {
        &self.nodes[node.0].timer
    }

    pub(crate) fn timer_mut(&mut self, node: NodeId) -> &mut Timer {
        &mut self.nodes[node.0].timer
    }

    /// Returns the timer that was just started.
    pub(crate) fn started(&mut self, handle: Handle) -> &mut Timer {
        &mut self.nodes[handle.at as usize].timer
    }

    /// Returns the first timer of `list`.
    pub(crate) fn first(&self, list: ListId) -> Option<NodeId> {
        self.next(list, NodeId(list.0))
    }

    /// Returns the timer behind `node` in `list`.
    pub(crate) fn next(&self, list: ListId, node: NodeId) -> Option<NodeId> {
        let after = self.nodes[node.0].after;
        (after != list.0).then_some(NodeId(after))
    }

    /// Removes all timers that fulfil `due` from `list`, in its order.
    pub(crate) fn expire_where(&mut self, list: ListId, expired: &mut Vec<Expiry>, due: impl Fn(&Timer) -> bool) {
        let mut at = self.first(list);
        while let Some(node) = at {
            at = self.next(list, node);
            self.steps += 1;
            if due(self.timer(node)) {
                expired.push(self.remove(node).expiry());
            }
        }
    }

    /// Removes the timers due by `now` from the front of a sorted list.
    pub(crate) fn expire_front(&mut self, list: ListId, expired: &mut Vec<Expiry>, now: Tick) {
        while let Some(node) = self.first(list) {
            self.steps += 1;
            if self.timer(node).deadline > now {
                break;
            }
            expired.push(self.remove(node).expiry());
        }
    }

    fn new_timer(&mut self, deadline: Tick, id: u64) -> usize {
        self.started += 1;
        self.len += 1;
        self.take_node(Timer { deadline, order: self.started, id, rounds: 0 })
    }

    fn handle(&self, node: usize) -> Handle {
        Handle { at: node as u64, order: self.nodes[node].timer.order }
    }

    /// Returns a node that is linked to itself, reused or new.
    fn take_node(&mut self, timer: Timer) -> usize {
        if let Some(node) = self.free.pop() {
            self.nodes[node] = Node { timer, before: node, after: node };
            return node;
        }
        let node = self.nodes.len();
        self.nodes.push(Node { timer, before: node, after: node });
        node
    }

    fn link_after(&mut self, place: usize, node: usize) {
        let after = self.nodes[place].after;
        (self.nodes[node].before, self.nodes[node].after) = (place, after);
        self.nodes[place].after = node;
        self.nodes[after].before = node;
    }

    fn unlink(&mut self, node: usize) {
        let Node { before, after, .. } = self.nodes[node];
        self.nodes[before].after = after;
        self.nodes[after].before = before;
    }
}

const NO_TIMER: Timer = Timer { deadline: 0, order: 0, id: 0, rounds: 0 };
