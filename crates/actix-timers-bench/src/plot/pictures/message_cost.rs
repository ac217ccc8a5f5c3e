//! The cost of an ordinary message to an actor with pending timers.

use super::lines;
use crate::plot::missing::Missing;
use crate::plot::panel::{Panel, sizes, times, width_of_labels};
use crate::plot::rows::Rows;
use crate::plot::style::{FAINT, INK};
use crate::plot::svg::{At, Frame, Sheet, Type};

pub(crate) const FILE: &str = "message-cost.svg";

const TITLE: &str = "What an ordinary message costs an actor with timers pending";
const SUBTITLE: &str = "one message there and one back, by the number of the actor's timers";
const FRAME: Frame = Frame { left: 66.0, top: 84.0, right: 506.0, bottom: 334.0 };

pub(crate) fn draw(rows: &Rows, missing: &mut Missing) -> Option<String> {
    let lines = lines(rows, "message-cost", "context");
    missing.compare(FILE, &lines, &["actix-timers", "notify-later"]);
    if lines.is_empty() {
        return None;
    }
    let width = FRAME.right + width_of_labels(&lines) + 10.0;
    let mut sheet = Sheet::new(width, FRAME.bottom + 52.0, TITLE, SUBTITLE);
    sheet.text(At(16.0, 30.0), TITLE, Type::new(17.0, INK).bold(true));
    sheet.text(At(16.0, 50.0), SUBTITLE, Type::new(12.0, FAINT));
    sheet.text(At(16.0, 67.0), "medians, whiskers from min to max", Type::new(12.0, FAINT));
    let panel = Panel {
        title: "",
        note: "",
        lines: &lines,
        sizes: &sizes(&lines),
        frame: FRAME,
        times: times(&lines, FRAME),
        has_times: true,
        has_labels: true,
    };
    panel.draw(&mut sheet);
    Some(sheet.finish())
}
