//! Doubly linked lists of timers in one store, so that a timer can leave from anywhere at the cost of one unlinking.
//!
//! Every list is a ring through a *sentinel*, a node that is no timer: neither the first nor the last timer is a special
//! case, and a timer can be unlinked by someone who does not know which list it is in.

use super::{Expiry, Handle, Tick};

/// An outstanding timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) deadline: Tick,
    /// The number of its start: 1, 2, 3 and so on. 0 marks a node without a timer.
    pub(crate) order: u64,
    pub(crate) id: u64,
    /// Turns of the ring it still has to wait; only the hashed wheel with rounds counts them.
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

/// Names a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListId(usize);

/// Names a node, as long as its timer is outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(usize);

/// Any number of lists, and the timers in them.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    nodes: Vec<Node>,
    free: Vec<usize>,
    started: u64,
    len: usize,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes `count` empty lists.
    pub(crate) fn add_lists(&mut self, count: usize) -> Vec<ListId> {
        (0..count).map(|_| ListId(self.take_node(NO_TIMER))).collect()
    }

    /// How many timers are outstanding.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Starts a timer at the end of `list`.
    pub(crate) fn start(&mut self, list: ListId, deadline: Tick, id: u64) -> Handle {
        let node = self.new_timer(deadline, id);
        self.link_after(self.nodes[list.0].before, node);
        self.handle(node)
    }

    /// Starts a timer in a list that is sorted by deadline, behind all timers that are not due later.
    pub(crate) fn start_sorted(&mut self, list: ListId, deadline: Tick, id: u64) -> Handle {
        let node = self.new_timer(deadline, id);
        // From the end: a new timer is more often due late than early, and the first of equals stays the first.
        let mut place = self.nodes[list.0].before;
        while place != list.0 && self.nodes[place].timer.deadline > deadline {
            place = self.nodes[place].before;
        }
        self.link_after(place, node);
        self.handle(node)
    }

    /// Stops the timer that the handle names, if it is still outstanding.
    pub(crate) fn stop(&mut self, handle: Handle) -> bool {
        let node = handle.at as usize;
        if self.nodes.get(node).is_none_or(|found| found.timer.order != handle.order) {
            return false;
        }
        self.remove(NodeId(node));
        true
    }

    /// Takes a timer out.
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

    /// The timer a start has just made.
    pub(crate) fn started(&mut self, handle: Handle) -> &mut Timer {
        &mut self.nodes[handle.at as usize].timer
    }

    /// The first timer of `list`.
    pub(crate) fn first(&self, list: ListId) -> Option<NodeId> {
        self.next(list, NodeId(list.0))
    }

    /// The timer behind `node` in `list`.
    pub(crate) fn next(&self, list: ListId, node: NodeId) -> Option<NodeId> {
        let after = self.nodes[node.0].after;
        (after != list.0).then_some(NodeId(after))
    }

    /// Takes all timers that fulfil `due` out of `list`, in its order.
    pub(crate) fn expire_where(&mut self, list: ListId, expired: &mut Vec<Expiry>, due: impl Fn(&Timer) -> bool) {
        let mut at = self.first(list);
        while let Some(node) = at {
            at = self.next(list, node);
            if due(self.timer(node)) {
                expired.push(self.remove(node).expiry());
            }
        }
    }

    /// Takes the timers due by `now` from the front of a sorted list.
    pub(crate) fn expire_front(&mut self, list: ListId, expired: &mut Vec<Expiry>, now: Tick) {
        while let Some(node) = self.first(list).filter(|node| self.timer(*node).deadline <= now) {
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

    /// A node that is linked to itself, used again or new.
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
