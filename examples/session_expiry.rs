//! Sessions that expire half an hour after the last request.
//!
//! One actor holds all sessions. The timer of a session has the user's number as its key: each request replaces it, a
//! logout cancels it. No timer ids are kept, and no session is visited before its deadline.
//!
//! ```sh
//! cargo run --example session_expiry
//! ```
//!
//! Runs an afternoon in virtual time, and fails if a session ended at a wrong time.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext, TimerOptions};

const USERS: u64 = 500;
const IDLE: Duration = Duration::from_secs(30 * 60);
const AFTERNOON: Duration = Duration::from_secs(4 * 3600);

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

/// Returns the expired sessions: time and user.
#[derive(Message)]
#[rtype(result = "Vec<(Duration, u64)>")]
struct Expired;

struct Sessions {
    clock: ManualClock,
    /// Each user's number of requests in the current session.
    open: BTreeMap<u64, u32>,
    expired: Vec<(Duration, u64)>,
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
        self.expired.push((self.clock.now(), user));
    }
}

impl Handler<Expired> for Sessions {
    type Result = MessageResult<Expired>;

    fn handle(&mut self, _: Expired, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.expired.clone())
    }
}

/// A pseudo-random generator with the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(async {
        let clock = ManualClock::new();
        let timers = TimerActor::builder().clock(clock.clone()).install()?;
        let sessions = Sessions { clock: clock.clone(), open: BTreeMap::new(), expired: Vec::new() }.start();

        // The expected end of each user's session.
        let mut ends: BTreeMap<u64, Duration> = BTreeMap::new();
        let mut expected = Vec::new();
        let (mut requests, mut logouts) = (0, 0);
        let mut random = Random(7);
        while clock.now() < AFTERNOON {
            clock.advance(Duration::from_millis(1 + random.below(10_000))).await;
            let now = clock.now();
            expected.extend(ends.iter().filter(|(_, end)| **end <= now).map(|(user, end)| (*end, *user)));
            ends.retain(|_, end| *end > now);
            let user = random.below(USERS);
            if random.below(20) == 0 {
                let was_open = sessions.send(Logout { user }).await?;
                if was_open != ends.remove(&user).is_some() {
                    return Err(format!("the logout of {user} at {now:?} answered {was_open}").into());
                }
                logouts += u32::from(was_open);
            } else {
                sessions.send(Request { user }).await?;
                ends.insert(user, now + IDLE);
                requests += 1;
            }
            if timers.snapshot().pending() != ends.len() as u64 {
                return Err(format!("{} timers for {} sessions", timers.snapshot().pending(), ends.len()).into());
            }
        }
        clock.advance(IDLE).await;
        expected.extend(ends.into_iter().map(|(user, end)| (end, user)));

        let mut expired = sessions.send(Expired).await?;
        println!("{requests} requests of {USERS} users, {logouts} logouts, {} sessions expired", expired.len());
        expired.sort_unstable();
        expected.sort_unstable();
        if expired != expected {
            return Err("sessions expired at other times than they should".into());
        }
        Ok(())
    })
}
