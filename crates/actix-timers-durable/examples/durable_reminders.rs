//! Reminders that survive a crash: a process is killed in the middle of its work, and the next one continues.
//!
//! The program runs itself a second time, as the service that will be killed. The service schedules reminders for
//! invoices, waits until they are on disk, and sends due ones. After some of them it is killed with SIGKILL, as in a
//! power cut. Then the program opens the same store itself and continues. At the end it checks that every reminder was
//! sent exactly once, and none before its time.
//!
//! A message can be delivered twice if a process died between its handler and the note of its end. The second delivery
//! has the same id and a higher attempt number, by which the handler recognizes work already done.
//!
//! ```sh
//! cargo run --example durable_reminders
//! ```

use std::error::Error;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers_durable::{
    Durable, DurableMessage, DurableTimers, EmbeddedStore, HandlerError, RetryPolicy, RouteOptions,
};
use serde::{Deserialize, Serialize};

const REMINDERS: u32 = 60;
/// The number of reminders sent before the service is killed.
const SENT_BEFORE_CRASH: usize = 15;
/// The interval between reminders.
const STEP: Duration = Duration::from_millis(20);

#[derive(Serialize, Deserialize)]
struct Remind {
    invoice: u32,
}

impl DurableMessage for Remind {
    const NAME: &'static str = "remind";
}

/// Sends reminders, and keeps a list of sent ones. In a real service: a table with the id as its key.
struct Office {
    list: PathBuf,
}

impl Actor for Office {
    type Context = Context<Self>;
}

impl Handler<Durable<Remind>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, reminder: Durable<Remind>, _: &mut Self::Context) -> Self::Result {
        let mut list = OpenOptions::new().read(true).append(true).create(true).open(&self.list)?;
        let (id, mut sent) = (reminder.id.to_string(), String::new());
        list.read_to_string(&mut sent)?;
        if reminder.attempt > 1 && sent.contains(&id) {
            println!("invoice {}: was sent, by an attempt whose end is not known", reminder.invoice);
            return Ok(());
        }
        // The first attempt for every tenth invoice fails, like a network.
        if reminder.attempt == 1 && reminder.invoice % 10 == 5 {
            return Err(HandlerError::new("no connection"));
        }
        if SystemTime::now() < reminder.due.to_system_time() {
            return Err(HandlerError::permanent("early"));
        }
        // One write, which is complete or absent when the process is killed.
        list.write_all(format!("{} {id}\n", reminder.invoice).as_bytes())?;
        println!("invoice {}: sent, attempt {}", reminder.invoice, reminder.attempt);
        Ok(())
    }
}

/// Starts the durable timers, in each run of the service.
fn start(directory: &Path) -> Result<DurableTimers, Box<dyn Error>> {
    let office = Office { list: directory.join("sent") }.start();
    let options = RouteOptions::new().retry(RetryPolicy::default().initial_delay(Duration::from_millis(50)));
    let store = EmbeddedStore::open(directory.join("store"))?;
    Ok(DurableTimers::builder(store).name("reminders").route_with::<Remind>("office", office, options).start()?)
}

/// The run that ends by SIGKILL.
async fn schedule_and_send(directory: &Path) -> Result<(), Box<dyn Error>> {
    let timers = start(directory)?;
    let soon = SystemTime::now() + Duration::from_millis(200);
    for invoice in 0..REMINDERS {
        // Returns when it is on disk.
        timers.schedule_at("office", soon + STEP * invoice, Remind { invoice }).await?;
    }
    println!("all scheduled");
    std::future::pending().await
}

/// The run after that.
async fn carry_on(directory: &Path) -> Result<(), Box<dyn Error>> {
    let timers = start(directory)?;
    println!("{} reminders are left", timers.counts().await?.pending);
    while timers.counts().await?.pending > 0 {
        tokio::time::sleep(STEP).await;
    }
    Ok(timers.stop().await?)
}

fn crash_and_carry_on(directory: &Path) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?).arg(directory).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("the other process has no output")?;
    let mut output = BufReader::new(output).lines();
    let mut seen = 0;
    for line in output.by_ref() {
        let line = line?;
        println!("  {line}");
        seen += usize::from(line.contains(": sent"));
        if seen == SENT_BEFORE_CRASH {
            break;
        }
    }
    child.kill()?;
    child.wait()?;
    println!("killed");
    if seen < SENT_BEFORE_CRASH {
        return Err("the other process ended by itself".into());
    }
    System::new().block_on(carry_on(directory))?;

    let list = std::fs::read_to_string(directory.join("sent"))?;
    let mut sent: Vec<u32> = list.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    sent.sort_unstable();
    if !sent.iter().copied().eq(0..REMINDERS) {
        return Err(format!("not all were sent exactly once: {sent:?}").into());
    }
    println!("all {REMINDERS} reminders were sent exactly once");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(directory) = std::env::args_os().nth(1) {
        return System::new().block_on(schedule_and_send(Path::new(&directory)));
    }
    let directory = std::env::temp_dir().join(format!("durable-reminders-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let result = crash_and_carry_on(&directory);
    std::fs::remove_dir_all(&directory)?;
    result
}
