//! Options of a timer besides its time and its message.

use std::time::Duration;

use crate::engine::{TimerGroup, TimerKey};
#[cfg(feature = "serde")]
use crate::model::duration_text;

/// The options of a timer besides its time and its message: key, group, jitter and slack, and whether it
/// keeps its actor alive.
///
/// Used with [`ctx.timer`](crate::TimerContext::timer), [`Timers::timer`](crate::Timers::timer), the `options` of
/// requests ([`ScheduleAfter`](crate::ScheduleAfter::options), [`ScheduleAt`](crate::ScheduleAt::options)) and of
/// [batches](crate::ScheduleBatch::options). A timer without options costs a little less.
///
/// With the feature `serde`, options can be read from a configuration: durations are texts as in
/// [`TimerActorConfig`](crate::TimerActorConfig), missing fields have their defaults, and unknown fields are errors.
///
/// Jitter and slack affect the first deadline: moving a timer later sets exactly the requested deadline. For a
/// repeating timer, jitter moves all repetitions by the same time, or with a fixed delay the first, from which the
/// others follow; slack applies to each of them.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::TimerOptions;
///
/// let options = TimerOptions::new().jitter(Duration::from_secs(30)).slack(Duration::from_secs(1));
/// assert_ne!(options, TimerOptions::default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use = "options do nothing until a timer is scheduled with them"]
pub struct TimerOptions {
    pub(crate) key: Option<TimerKey>,
    pub(crate) shared_key: bool,
    pub(crate) group: Option<TimerGroup>,
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub(crate) jitter: Duration,
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub(crate) slack: Duration,
    /// `None` for the default of the schedule.
    pub(crate) keep_alive: Option<bool>,
}

impl TimerOptions {
    /// Returns empty options.
    pub const fn new() -> Self {
        Self {
            key: None,
            shared_key: false,
            group: None,
            jitter: Duration::ZERO,
            slack: Duration::ZERO,
            keep_alive: None,
        }
    }

    /// Sets whether the timer keeps its actor alive while it is pending. For timers of an actor for itself, those
    /// created through its context; others keep their recipient alive with a
    /// [strong target](crate::Target::strong).
    ///
    /// An actor without any address stops, unless a future in its context or a timer keeps it alive. By default a
    /// closure ([`run_after`](crate::TimerContext::run_after) and the like) keeps its actor alive, as actix's own
    /// `run_later` does, and a message does not. An actor that lives on without an address, by a future of its own, runs
    /// a closure with `keep_alive(false)` only if it accepts [`DueTimers`](crate::DueTimers).
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Report;
    ///
    /// struct Job;
    ///
    /// impl Actor for Job {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         ctx.timer(TimerOptions::new().keep_alive(true)).schedule(Duration::from_millis(2), Report);
    ///     }
    /// }
    ///
    /// impl Handler<Report> for Job {
    ///     type Result = ();
    ///
    ///     fn handle(&mut self, _: Report, _: &mut Context<Self>) {
    ///         // Nobody holds an address of this actor.
    ///         System::current().stop();
    ///     }
    /// }
    ///
    /// let system = System::new();
    /// system.block_on(async { drop(Job.start()) });
    /// system.run().unwrap();
    /// ```
    pub const fn keep_alive(self, keeps: bool) -> Self {
        let mut options = self;
        options.keep_alive = Some(keeps);
        options
    }

    /// Sets the key: the name of the timer for its owner and the type of its message. A pending timer of the same
    /// owner, type and key is replaced atomically: the old one is cancelled, even if it is due and only its handler has
    /// not run, and the new one takes its place, also if the capacity is used up. If the new one is rejected, the old
    /// one stays.
    ///
    /// For timers created through a context, the owner is that incarnation of the actor. For others it is the
    /// recipient: all timers of one timer actor for the same mailbox. The two do not replace each other. All closures
    /// count as one type.
    ///
    /// The key is free again when its timer has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Save;
    ///
    /// struct Editor;
    ///
    /// impl Editor {
    ///     /// Saves two seconds after the last keystroke.
    ///     fn typed(&mut self, ctx: &mut Context<Self>) {
    ///         ctx.timer(TimerOptions::new().key("save")).schedule(Duration::from_secs(2), Save);
    ///     }
    /// }
    /// # impl Actor for Editor { type Context = Context<Self>; fn started(&mut self, ctx: &mut Self::Context) { self.typed(ctx); } }
    /// # impl Handler<Save> for Editor { type Result = (); fn handle(&mut self, _: Save, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async { Editor.start(); });
    /// ```
    pub fn key(mut self, key: impl Into<TimerKey>) -> Self {
        self.key = Some(key.into());
        self.shared_key = false;
        self
    }

    /// Sets a [key](Self::key) that timers with messages of any type share: of all that were given it in this way, the
    /// last replaces the one before. The keys of one type are separate.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{TimerContext, TimerOptions};
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct Probe;
    ///
    /// #[derive(Message)]
    /// #[rtype(result = "()")]
    /// struct GiveUp;
    ///
    /// struct Connection;
    ///
    /// impl Actor for Connection {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         // The next step, whichever it is.
    ///         let step = TimerOptions::new().shared_key("step");
    ///         ctx.timer(step.clone()).schedule(Duration::from_secs(5), Probe);
    ///         ctx.timer(step).schedule(Duration::from_secs(30), GiveUp);
    ///         assert_eq!(ctx.actor_timers().list().len(), 1);
    ///         # System::current().stop();
    ///     }
    /// }
    /// # impl Handler<Probe> for Connection { type Result = (); fn handle(&mut self, _: Probe, _: &mut Context<Self>) {} }
    /// # impl Handler<GiveUp> for Connection { type Result = (); fn handle(&mut self, _: GiveUp, _: &mut Context<Self>) {} }
    /// # let system = System::new();
    /// # let _connection = system.block_on(async { Connection.start() });
    /// # system.run().unwrap();
    /// ```
    pub fn shared_key(mut self, key: impl Into<TimerKey>) -> Self {
        self.key = Some(key.into());
        self.shared_key = true;
        self
    }

    /// Sets the group: timers of one timer actor with the same group are counted, listed and cancelled together. See
    /// [`Timers::cancel_group`](crate::Timers::cancel_group).
    pub fn group(mut self, group: impl Into<TimerGroup>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Adds a random time between zero and `span` to the deadline, to spread timers that are due together. Never
    /// earlier than without. Each timer gets its own time, also if options are shared.
    pub const fn jitter(mut self, span: Duration) -> Self {
        self.jitter = span;
        self
    }

    /// Lets the timer be up to `most` late, so that several fall due together and the timer actor wakes up less often.
    /// Applied after [jitter](Self::jitter). The resulting deadline determines the order.
    ///
    /// Of the permitted ticks the timer gets the one divisible by the highest power of two. With a slack of a second
    /// and ticks of a millisecond these are the multiples of 512 at least.
    pub const fn slack(mut self, most: Duration) -> Self {
        self.slack = most;
        self
    }
}
