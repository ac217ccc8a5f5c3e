//! Notes that are saved two seconds after the last keystroke: debounce by key.
//!
//! One editor holds many notes. The timer of a note has the note's name as its key, so each keystroke replaces the
//! timer before. A note is saved once per burst of typing, complete, and typing in one note does not delay another. A note that
//! is closed is saved at once.
//!
//! ```sh
//! cargo run --example debounce
//! ```
//!
//! Runs in virtual time, and fails if a save is early, late, repeated or incomplete.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext, TimerOptions};

const QUIET: Duration = Duration::from_secs(2);

/// A keystroke in a note.
#[derive(Message)]
#[rtype(result = "()")]
struct Typed {
    note: &'static str,
    character: char,
}

/// The end of the editing of a note.
#[derive(Message)]
#[rtype(result = "()")]
struct Close(&'static str);

/// A pause of two seconds in the typing.
#[derive(Message)]
#[rtype(result = "()")]
struct Save(&'static str);

struct Editor {
    clock: ManualClock,
    notes: BTreeMap<&'static str, String>,
    /// Gets all saves: second, note and text.
    saved: mpsc::Sender<(u64, &'static str, String)>,
}

impl Actor for Editor {
    type Context = Context<Self>;
}

impl Handler<Typed> for Editor {
    type Result = ();

    fn handle(&mut self, Typed { note, character }: Typed, ctx: &mut Self::Context) {
        self.notes.entry(note).or_default().push(character);
        let by_note = TimerOptions::new().key(note);
        if let Err(rejected) = ctx.timer(by_note).try_schedule(QUIET, Save(note)) {
            // No timer available: save now rather than never.
            self.handle(rejected.into_message(), ctx);
        }
    }
}

impl Handler<Close> for Editor {
    type Result = ();

    fn handle(&mut self, Close(note): Close, ctx: &mut Self::Context) {
        // The outcome is exact: after `Cancelled` the save does not come, even if it was due already.
        if ctx.cancel_key(note).is_cancelled() {
            self.handle(Save(note), ctx);
        }
    }
}

impl Handler<Save> for Editor {
    type Result = ();

    fn handle(&mut self, Save(note): Save, _: &mut Self::Context) {
        let text = self.notes.get(note).cloned().unwrap_or_default();
        println!("{:>3} s  saved {note}: {text:?}", self.clock.now().as_secs());
        let _ = self.saved.send((self.clock.now().as_secs(), note, text));
    }
}

/// Types one character a second.
async fn type_in(editor: &Addr<Editor>, clock: &ManualClock, note: &'static str, text: &str) {
    for character in text.chars() {
        editor.do_send(Typed { note, character });
        clock.advance(Duration::from_secs(1)).await;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(async {
        let clock = ManualClock::new();
        let timers = TimerActor::builder().clock(clock.clone()).install()?;
        let (saved, all_saved) = mpsc::channel();
        let editor = Editor { clock: clock.clone(), notes: BTreeMap::new(), saved }.start();

        type_in(&editor, &clock, "todo", "buy milk").await;
        type_in(&editor, &clock, "diary", "rain").await;
        clock.advance(Duration::from_secs(60)).await;
        type_in(&editor, &clock, "todo", "!").await;
        clock.advance(Duration::from_secs(60)).await;
        type_in(&editor, &clock, "diary", "y").await;
        editor.send(Close("diary")).await?;
        editor.send(Close("diary")).await?;
        clock.advance(Duration::from_secs(60)).await;

        let saved: Vec<_> = all_saved.try_iter().collect();
        let expected = [
            // The last keystroke of "buy milk" came at 7 s, that of "rain" at 11 s, the late ones at 72 s and 133 s.
            (9, "todo", "buy milk".to_owned()),
            (13, "diary", "rain".to_owned()),
            (74, "todo", "buy milk!".to_owned()),
            (134, "diary", "rainy".to_owned()),
        ];
        if saved != expected {
            return Err(format!("saved {saved:?}, expected {expected:?}").into());
        }
        let counters = timers.snapshot().counters;
        println!("{} keystrokes, {} timers replaced", counters.accepted, counters.cancelled);
        if (counters.accepted, counters.cancelled, counters.pending) != (14, 11, 0) {
            return Err(format!("the counters say {counters:?}").into());
        }
        Ok(())
    })
}
