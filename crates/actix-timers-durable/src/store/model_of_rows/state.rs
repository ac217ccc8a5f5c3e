//! The state: the server's tables and sessions, the memory of processes, and what the properties remember.

use super::{Budget, Rule, Start, Timer, World};

/// A set of timers or routes, one bit each.
pub(super) type Mask = u8;

pub(super) const ROUTES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Delivery {
    pub(super) repetition: u8,
    pub(super) attempt: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) due: u8,
    pub(super) moved: bool,
    pub(super) node: Option<u8>,
    pub(super) alone: bool,
    pub(super) used: u8,
    /// Its last delivery.
    pub(super) delivery: Delivery,
    pub(super) parked: bool,
    /// Only its key lives on.
    pub(super) ended: bool,
}

impl Row {
    pub(super) fn is_pending(&self) -> bool {
        self.node.is_none() && !self.parked && !self.ended
    }
}

/// A row of the table of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NodeRow {
    pub(super) lease_until: u8,
    /// Tells leases with the same end apart, as microseconds do.
    pub(super) renewed_at: u8,
    pub(super) dead: bool,
    pub(super) claimed_until: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Suspects {
    Left,
    Marked,
    Unmarked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Next {
    Delete,
    Retry,
    /// After `complete_in`: the row is gone, or the user's transaction has failed.
    RetryUnlessGone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct BeatReply {
    /// The lease; `None`: the node's row is gone or dead.
    pub(super) renewed: bool,
    pub(super) server_time: u8,
    /// The living nodes, and when they renewed their leases.
    pub(super) nodes: Vec<(u8, u8)>,
    pub(super) paused: Mask,
    /// Timers whose rows this node still has.
    pub(super) own: Mask,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Claim {
        ids: Mask,
        suspects: Suspects,
    },
    End {
        timer: usize,
        delivery: Delivery,
        next: Next,
    },
    /// Renews the lease, and sweeps: gives back claims that are not known.
    Beat {
        sent_at: u8,
        sweeps: bool,
        known: Vec<Option<Delivery>>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Sent,
    /// A claim has its snapshot, with these paused routes, and no lock yet.
    Begun(Mask),
    /// A claim has locked its node's row; its snapshot is this or a new one.
    Locked(Option<Mask>),
    /// A claim has changed these rows, and is not committed.
    Updated(Mask),
    /// A beat is executed, and its reply under way.
    Replied(BeatReply),
}

/// A session of the server with a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub(super) node: u8,
    /// The process that waits for the reply; `None`: the connection is lost.
    pub(super) process: Option<usize>,
    pub(super) request: Request,
    pub(super) stage: Stage,
    /// Whether it is to end, which it does at its leisure.
    pub(super) is_ending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Claimed,
    Running,
    /// Its handler has called `complete_in`, and goes on.
    Completing,
    /// The end is not known to be written.
    Finished(Next),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) delivery: Delivery,
    pub(super) alone: bool,
    pub(super) phase: Phase,
}

/// A handler that goes on, although its delivery has ended for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stray {
    pub(super) timer: usize,
    pub(super) delivery: Delivery,
}

/// The memory of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) is_up: bool,
    /// Its node; `None`: it has to join.
    pub(super) node: Option<u8>,
    /// Its claims are its own before this time.
    pub(super) lease: u8,
    pub(super) is_connected: bool,
    /// Its claiming connection is gone for good.
    pub(super) is_cut: bool,
    pub(super) must_sweep: bool,
    /// By route, times before which no row that it may claim is pending.
    pub(super) bounds: [u8; ROUTES],
    /// No transaction is open that began before this time.
    pub(super) safe: u8,
    /// A time, and the user's transaction that was open then.
    pub(super) sample: Option<(u8, Option<u8>)>,
    pub(super) held: Vec<Option<Held>>,
    pub(super) strays: Vec<Stray>,
    pub(super) has_timed_out: bool,
    /// Other nodes: id, the lease, and the own time since when it is known.
    pub(super) seen: Vec<(u8, u8, u8)>,
    /// The server's time at the last beat, and the own time.
    pub(super) server_time: (u8, u8),
    /// The paused routes at the last beat.
    pub(super) paused: Mask,
    /// The dead node whose sessions it has ended, and its lease as seen.
    pub(super) releasing: Option<(u8, u8)>,
}

impl Held {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Completing)
    }
}

impl Process {
    pub(super) fn held(&self, timer: usize) -> Option<Held> {
        self.held.get(timer).copied().flatten()
    }

    pub(super) fn look_from_the_beginning(&mut self) {
        (self.bounds, self.safe, self.sample) = ([0; ROUTES], 0, None);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Change {
    /// A put that has read the clock.
    Put {
        timer: usize,
        due: u8,
    },
    Cancel {
        timer: usize,
    },
    /// The end of a delivery beside the user's own writes; `fits`: there was such a row.
    Complete {
        timer: usize,
        process: usize,
        node: u8,
        fits: bool,
    },
    /// A put that has looked for keys in the second table of them.
    PutWithKey {
        timer: usize,
    },
}

/// A user's open transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Transaction {
    pub(super) number: u8,
    /// Whether the server shows its number to others.
    pub(super) has_number: bool,
    pub(super) change: Change,
    /// Its process is gone, and the server has not noticed.
    pub(super) hangs: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Pause {
    #[default]
    None,
    /// The flag is committed.
    Set,
    Acknowledged,
}

/// What the properties remember of a timer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Past {
    /// The store has promised to deliver it.
    pub(super) promised: bool,
    pub(super) cancelled: bool,
    /// A handler has ended well.
    pub(super) handled: bool,
    pub(super) started: Delivery,
    /// Committed writes of the user beside its end.
    pub(super) effects: u8,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The clocks of processes run with it.
    pub(super) time: u8,
    /// The difference of the server's clock.
    pub(super) ahead: i8,
    pub(super) rows: Vec<Option<Row>>,
    pub(super) letters: Vec<Option<Row>>,
    pub(super) nodes: Vec<Option<NodeRow>>,
    pub(super) sessions: Vec<Session>,
    pub(super) transaction: Option<Transaction>,
    pub(super) transactions: u8,
    /// Of route 0.
    pub(super) pause: Pause,
    pub(super) processes: Vec<Process>,
    pub(super) past: Vec<Past>,
    /// The events from outside that may still happen.
    pub(super) budget: Budget,
}

impl State {
    pub(super) fn server_now(&self) -> u8 {
        self.time.saturating_add_signed(self.ahead)
    }

    pub(super) fn paused(&self) -> Mask {
        Mask::from(self.pause != Pause::None)
    }

    pub(super) fn node(&self, id: u8) -> Option<&NodeRow> {
        self.nodes[usize::from(id)].as_ref()
    }

    pub(super) fn is_locked(&self, timer: usize) -> bool {
        let by_claim = |session: &Session| matches!(session.stage, Stage::Updated(ids) if ids & 1 << timer != 0);
        let by_user = self.transaction.as_ref().is_some_and(|transaction| match transaction.change {
            Change::Cancel { timer: locked } => locked == timer,
            Change::Complete { timer: locked, fits, .. } => locked == timer && fits,
            Change::Put { .. } | Change::PutWithKey { .. } => false,
        });
        by_user || self.sessions.iter().any(by_claim)
    }

    /// Whether a claim holds the lock of its node's row.
    pub(super) fn is_node_locked(&self, node: u8) -> bool {
        let holds = |session: &&Session| matches!(session.stage, Stage::Locked(_) | Stage::Updated(_));
        self.sessions.iter().filter(holds).any(|session| session.node == node)
    }

    pub(super) fn session_of(&self, process: usize) -> Option<usize> {
        self.sessions.iter().position(|session| session.process == Some(process))
    }

    /// Whether a process can send a request.
    pub(super) fn is_free(&self, process: usize) -> bool {
        let it = &self.processes[process];
        it.is_up && it.is_connected && !it.is_cut && it.node.is_some() && self.session_of(process).is_none()
    }
}

impl World {
    /// The time by which a row stands in the index that looks read.
    pub(super) fn indexed(&self, timer: usize, row: &Row) -> Option<u8> {
        match row.moved {
            true => self.keeps(Rule::LookReadsTheMoved).then_some(row.due),
            false => self.keeps(Rule::LookReadsTheUnmoved).then_some(self.timers()[timer].due),
        }
    }

    pub(super) fn begin(&self) -> State {
        let scenario = &self.scenario;
        let row = |start: Start, timer: &Timer| Row {
            due: timer.due,
            moved: false,
            node: None,
            alone: false,
            used: timer.used,
            delivery: Delivery { repetition: 1, attempt: timer.used },
            parked: start == Start::Parked,
            ended: false,
        };
        let rows = |wanted: &[Start]| {
            let rows = self.timers().iter().map(|timer| wanted.contains(&timer.start).then(|| row(timer.start, timer)));
            rows.collect()
        };
        let mut state = State {
            ahead: scenario.begin as i8,
            rows: rows(&[Start::Pending, Start::Claimed, Start::Parked]),
            letters: rows(&[Start::Letter]),
            processes: vec![Process::default(); scenario.processes],
            past: vec![Past::default(); self.timers().len()],
            budget: scenario.budget,
            ..State::default()
        };
        for (timer, past) in state.past.iter_mut().enumerate() {
            past.promised = matches!(self.timers()[timer].start, Start::Pending | Start::Claimed);
            if self.timers()[timer].used > 0 {
                past.started = Delivery { repetition: 1, attempt: self.timers()[timer].used };
            }
        }
        for process in 0..scenario.processes - scenario.late {
            self.restart(&mut state, process);
            self.join(&mut state, process);
        }
        let leases: Vec<_> = (0..state.nodes.len() as u8).map(|node| (node, 0, 0)).collect();
        for process in &mut state.processes {
            process.seen = leases.iter().filter(|(node, ..)| Some(*node) != process.node).copied().collect();
        }
        for timer in (0..state.rows.len()).filter(|timer| self.timers()[*timer].start == Start::Claimed) {
            let Some(row) = &mut state.rows[timer] else { continue };
            (row.node, row.delivery.attempt) = (Some(0), 1);
            let held = Held { delivery: row.delivery, alone: false, phase: Phase::Claimed };
            state.processes[0].held[timer] = Some(held);
        }
        state
    }
}
