//! The step: what one lane does next, from its facts alone. It reads no clock, takes no lock and allocates nothing.

/// The facts of a lane, read under the lock. The window, and the two ways, are those of the message that would leave next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    /// The number of due messages that wait here.
    pub(crate) due: u32,
    /// The number of messages that had joined when the first of them did, itself included. An own lane needs no number:
    /// there is no order between own messages and those of others.
    pub(crate) first: u64,
    /// The number of messages that have joined so far.
    pub(crate) joined: u64,
    /// The value of `joined` in the newest bell.
    pub(crate) rung: u64,
    /// Bells in the mailbox or about to enter it, and the bell whose handler runs.
    pub(crate) bells: u32,
    /// Messages that were pulled or posted, whose end is not known yet. A pulled own message ends at once.
    pub(crate) under_way: u32,
    /// The maximum of `under_way`; 1 for an own lane.
    pub(crate) window: u32,
    /// Whether messages beyond the window are dead letters instead of waiting.
    pub(crate) discards: bool,
    /// Whether a bell can pull it: its recipient handles bells.
    pub(crate) can_be_pulled: bool,
    /// Whether it can be posted: it is not bound to its thread.
    pub(crate) can_be_posted: bool,
    /// Whether an item in the actor's context will pull own messages soon. It leaves with the last address of the actor, and
    /// may be starved: it has pulled nothing for the watchdog's grace period.
    pub(crate) has_item: bool,
    /// Whether the mailbox is closed or, for an own lane, the incarnation has ended.
    pub(crate) is_gone: bool,
}

/// What to do with a lane. After all but the first two, the next step follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, until a message joins, the first is cancelled or moved, a bell or a message under way ends, or the item
    /// leaves or is starved.
    Rest,
    /// Wake the item, which pulls.
    Wake,
    /// Put a bell with the current value of `joined` into the mailbox.
    Ring,
    /// Post the next message that can be posted.
    Post,
    /// Make a dead letter of the newest message: it does not fit into the window.
    Discard,
    /// End the first message: nobody will handle it.
    End,
}

impl Lane {
    /// Decides what happens next. To be called at each join, before anything due later is posted, and after each event
    /// for which the lane [rests](Step::Rest). Only one thread at a time acts on it.
    pub(crate) const fn step(&self) -> Step {
        if self.due == 0 {
            Step::Rest
        } else if self.is_gone {
            Step::End
        } else if self.discards && self.due > self.room() {
            Step::Discard
        } else if self.has_item {
            Step::Wake
        } else if self.can_be_pulled {
            if self.lacks_bell() { Step::Ring } else { Step::Rest }
        } else if self.can_be_posted && self.bells == 0 && self.room() > 0 {
            // A bell before it in the mailbox might pull a message that joined behind it.
            Step::Post
        } else {
            Step::Rest
        }
    }

    /// Whether a bell may pull the first message, after `joined` had joined when it was rung. It pulls nothing that joined
    /// later: that would overtake messages that were posted in between.
    pub(crate) const fn may_pull(&self, joined: u64) -> bool {
        self.due > 0 && self.room() > 0 && self.can_be_pulled && self.first <= joined
    }

    /// Whether another bell is to be rung: for the newest message, since no earlier bell may pull it, even one whose own
    /// message was cancelled; or because the window has room again.
    const fn lacks_bell(&self) -> bool {
        self.bells < self.room() && (self.rung < self.joined || self.bells < self.due)
    }

    /// The number of messages that may leave. Windows of one lane may differ, so more can be under way.
    pub(crate) const fn room(&self) -> u32 {
        self.window.saturating_sub(self.under_way)
    }
}
