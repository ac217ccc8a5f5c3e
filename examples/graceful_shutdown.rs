//! A service that stops and starts again without losing a reminder.
//!
//! A stop accepts no new reminders, delivers due ones within the grace period, and returns the rest with their
//! wall-clock times. The next run schedules them again. Both runs happen in one process, one after the other; the
//! program verifies that every reminder was sent exactly once and none early.
//!
//! ```sh
//! cargo run --example graceful_shutdown
//! ```

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{Drain, TimerActor, Timers};

const REMINDERS: u32 = 60;
const GRACE: Duration = Duration::from_millis(200);

#[derive(Message)]
#[rtype(result = "()")]
struct Remind {
    invoice: u32,
    due: SystemTime,
}

/// Gets each sent reminder, and whether it was early.
struct Reminders(mpsc::Sender<(u32, bool)>);

impl Actor for Reminders {
    type Context = Context<Self>;
}

impl Handler<Remind> for Reminders {
    type Result = ();

    fn handle(&mut self, remind: Remind, _: &mut Self::Context) {
        let _ = self.0.send((remind.invoice, SystemTime::now() < remind.due));
    }
}

/// Runs the service for `life`, then stops it. Returns the invoices of the sent reminders, and the reminders that are left.
async fn run(life: Duration, reminders: Vec<Remind>) -> Result<(Vec<u32>, Vec<Remind>), Box<dyn Error>> {
    let timers = TimerActor::builder().name("reminders").start()?;
    let (sent, all_sent) = mpsc::channel();
    let office = Reminders(sent).start();
    for remind in reminders {
        timers.schedule_at(&office, remind.due, remind);
    }

    // A real service awaits `tokio::signal::ctrl_c()` here.
    tokio::time::sleep(life).await;

    // A real service writes them to its disk.
    let left = stop(&timers).await?;
    let (sent, early): (Vec<u32>, Vec<bool>) = all_sent.try_iter().unzip();
    println!("{} reminders sent, {} left to the next run", sent.len(), left.len());
    if early.contains(&true) {
        return Err("reminders were early".into());
    }
    Ok((sent, left))
}

/// Closes the timer actor, and returns the undelivered reminders.
async fn stop(timers: &Timers) -> Result<Vec<Remind>, Box<dyn Error>> {
    let returned = timers.addr().send(Drain::within(GRACE)).await?;
    let mut left_over = Vec::new();
    for timer in returned {
        match timer.into_message::<Remind>() {
            Ok(remind) => left_over.push(remind),
            Err(other) => return Err(format!("an unknown message came back: {other:?}").into()),
        }
    }
    Ok(left_over)
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = SystemTime::now();
    // One every 20 ms: some are due in the first run, some in its grace period, the rest in the second run.
    let all = (0..REMINDERS).map(|invoice| Remind { invoice, due: start + Duration::from_millis(20) * invoice });

    let (mut sent, left) = System::new().block_on(run(Duration::from_millis(300), all.collect()))?;
    let (second, _) = System::new().block_on(run(Duration::from_millis(1000), left))?;

    println!("first run: {}, second run: {}", sent.len(), second.len());
    sent.extend(second);
    sent.sort_unstable();
    if !sent.iter().copied().eq(0..REMINDERS) {
        return Err(format!("not every reminder was sent exactly once: {sent:?}").into());
    }
    println!("every reminder was sent exactly once, none early");
    Ok(())
}
