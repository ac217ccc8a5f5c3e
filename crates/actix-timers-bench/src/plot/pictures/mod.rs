//! The pictures, one file each: `operations` (four of them, over the number of timers), `message_cost`, `lateness` and
//! `headline`.

mod headline;
mod lateness;
mod message_cost;
mod operations;

use crate::plot::missing::Missing;
use crate::plot::panel::Line;
use crate::plot::rows::Rows;

/// Subjects of the bare structures, without their variants.
const ON_THE_WHEEL: [&str; 10] = [
    "actix-timers",
    "delay-queue",
    "hash-wheel-timer",
    "scheme 1",
    "scheme 2",
    "scheme 3",
    "scheme 4",
    "scheme 5",
    "scheme 6",
    "scheme 7",
];

/// Subjects inside an actor or a service.
const IN_A_CONTEXT: [&str; 8] =
    ["actix-timers", "delay-queue", "notify-later", "tokio-sleep", "hash-wheel-timer", "netty", "go", "erlang"];

/// Returns the lines of an operation: nanoseconds by number of timers. A subject that leaves work to other threads is
/// shown with all its threads; the caller's share is in the tables.
fn lines(rows: &Rows, workload: &str, layer: &str) -> Vec<Line> {
    const CALLER_ONLY: &str = ", caller only";
    Line::all(rows.of(workload, layer, "ns/op").filter(|row| !row.subject.ends_with(CALLER_ONLY)))
}

/// Draws all pictures for which there are rows. Returns their file names and contents.
pub(crate) fn draw_all(rows: &Rows, missing: &mut Missing) -> Vec<(&'static str, String)> {
    let mut pictures: Vec<(&str, Option<String>)> = Vec::new();
    for operation in &operations::ALL {
        pictures.push((operation.file, operation.draw(rows, missing)));
    }
    pictures.push((message_cost::FILE, message_cost::draw(rows, missing)));
    pictures.push((lateness::FILE, lateness::draw(rows, missing)));
    pictures.push((headline::FILE, headline::draw(rows, missing)));
    let drawn = pictures.into_iter().filter_map(|(file, picture)| match picture {
        Some(picture) => Some((file, picture)),
        None => {
            missing.note(format!("{file}: not drawn, there is nothing to draw"));
            None
        }
    });
    drawn.collect()
}
