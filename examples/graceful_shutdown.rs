//! A service that stops and starts again without losing a reminder.
//!
//! A stop accepts no new reminders, delivers due ones within the grace period, and saves the rest with their
//! wall-clock times. The next run schedules them again. Both runs happen in one process, one after the other; the
//! program verifies that every reminder was sent exactly once and none early.
//!
//! ```sh
//! cargo run --example graceful_shutdown
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
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

/// Runs the service for `life`: schedules the reminders left by the previous run and the new ones, then stops.
async fn run(life: Duration, new: impl Iterator<Item = Remind>, left: &Path) -> Result<Vec<u32>, Box<dyn Error>> {
    let timers = TimerActor::builder().name("reminders").start()?;
    let (sent, all_sent) = mpsc::channel();
    let reminders = Reminders(sent).start();
    for remind in load(left)?.into_iter().chain(new) {
        timers.schedule_at(&reminders, remind.due, remind);
    }

    // A real service awaits `tokio::signal::ctrl_c()` here.
    tokio::time::sleep(life).await;

    let left_over = stop(&timers).await?;
    let (sent, early): (Vec<u32>, Vec<bool>) = all_sent.try_iter().unzip();
    println!("{} reminders sent, {} left to the next run", sent.len(), left_over.len());
    save(left, &left_over)?;
    if early.contains(&true) {
        return Err("reminders were early".into());
    }
    Ok(sent)
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

fn save(path: &Path, reminders: &[Remind]) -> Result<(), Box<dyn Error>> {
    let mut lines = String::new();
    for Remind { invoice, due } in reminders {
        let since_epoch = due.duration_since(SystemTime::UNIX_EPOCH)?;
        lines.push_str(&format!("{invoice} {}\n", since_epoch.as_nanos()));
    }
    Ok(std::fs::write(path, lines)?)
}

fn load(path: &Path) -> Result<Vec<Remind>, Box<dyn Error>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut reminders = Vec::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let (invoice, nanos) = line.split_once(' ').ok_or("a line without a time")?;
        let due = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos.parse()?);
        reminders.push(Remind { invoice: invoice.parse()?, due });
    }
    Ok(reminders)
}

fn main() -> Result<(), Box<dyn Error>> {
    let left: PathBuf = std::env::temp_dir().join(format!("graceful-shutdown-{}", std::process::id()));
    let start = SystemTime::now();
    // One every 20 ms: some are due in the first run, some in its grace period, the rest in the second run.
    let all = (0..REMINDERS).map(|invoice| Remind { invoice, due: start + Duration::from_millis(20) * invoice });

    let mut sent = System::new().block_on(run(Duration::from_millis(300), all, &left))?;
    let second = System::new().block_on(run(Duration::from_millis(1000), std::iter::empty(), &left))?;
    std::fs::remove_file(&left)?;

    println!("first run: {}, second run: {}", sent.len(), second.len());
    sent.extend(second);
    sent.sort_unstable();
    if !sent.iter().copied().eq(0..REMINDERS) {
        return Err(format!("not every reminder was sent exactly once: {sent:?}").into());
    }
    println!("every reminder was sent exactly once, none early");
    Ok(())
}
