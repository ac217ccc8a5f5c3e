//! Sessions that expire half an hour after the last request.
//!
//! One actor holds all sessions. The timer of a session has the user's number as its key: each request replaces it, a
//! logout cancels it. No timer ids are kept, and no session is visited before its deadline.
//!
//! ```sh
//! cargo run --example session_expiry
//! ```
//!
//! Runs two hours in virtual time, and fails if a session ended at a wrong time.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext, TimerOptions};

const MINUTE: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30 * 60);

#[derive(Message)]
#[rtype(result = "()")]
struct Request {
    user: u64,
}

/// Ends a session; returns whether the user was logged in.
#[derive(Message)]
#[rtype(result = "bool")]
struct Logout {
    user: u64,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Expire {
    user: u64,
}

struct Sessions {
    clock: ManualClock,
    /// Each user's number of requests in the current session.
    open: BTreeMap<u64, u32>,
    /// Gets the minute and the user of each expired session.
    expired: mpsc::Sender<(u64, u64)>,
}

impl Actor for Sessions {
    type Context = Context<Self>;
}

impl Handler<Request> for Sessions {
    type Result = ();

    fn handle(&mut self, Request { user }: Request, ctx: &mut Self::Context) {
        *self.open.entry(user).or_default() += 1;
        let refreshed = ctx.timer(TimerOptions::new().key(user)).try_schedule(IDLE, Expire { user });
        if let Err(rejected) = refreshed {
            eprintln!("the session of {user} cannot be timed, so it ends: {rejected}");
            self.open.remove(&user);
        }
    }
}

impl Handler<Logout> for Sessions {
    type Result = bool;

    fn handle(&mut self, Logout { user }: Logout, ctx: &mut Self::Context) -> bool {
        // The outcome is exact: after `Cancelled` this session never expires, even if it was due already.
        ctx.cancel_key(user).is_cancelled() && self.open.remove(&user).is_some()
    }
}

impl Handler<Expire> for Sessions {
    type Result = ();

    fn handle(&mut self, Expire { user }: Expire, _: &mut Self::Context) {
        self.open.remove(&user);
        let _ = self.expired.send((self.clock.now().as_secs() / 60, user));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(async {
        let clock = ManualClock::new();
        let timers = TimerActor::builder().clock(clock.clone()).install()?;
        let (expired, all_expired) = mpsc::channel();
        let sessions = Sessions { clock: clock.clone(), open: BTreeMap::new(), expired }.start();

        // Every minute of two hours a user makes a request: the first ten users in turn, then the first three.
        for minute in 0..120 {
            sessions.send(Request { user: if minute < 60 { minute % 10 } else { minute % 3 } }).await?;
            clock.advance(MINUTE).await;
        }
        assert_eq!(timers.snapshot().pending(), 3, "a timer for each session");
        assert!(sessions.send(Logout { user: 1 }).await?, "a session is open");
        assert!(!sessions.send(Logout { user: 1 }).await?, "and not any more");
        clock.advance(IDLE).await;

        // The last requests of the first ones are those at 53 to 59, of the others at 117 and 119.
        let expected = [(83, 3), (84, 4), (85, 5), (86, 6), (87, 7), (88, 8), (89, 9), (147, 0), (149, 2)];
        let expired: Vec<_> = all_expired.try_iter().collect();
        println!("expired, by minute and user: {expired:?}");
        assert_eq!(expired, expected);
        Ok(())
    })
}
