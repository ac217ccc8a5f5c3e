//! The picture for the README: three operations, ours and the best known peers.

use super::lines;
use crate::plot::missing::Missing;
use crate::plot::panel::{Line, Panel, sizes, times};
use crate::plot::rows::{OURS, Rows, base};
use crate::plot::style::{self, FAINT, INK, sample};
use crate::plot::svg::{At, Frame, Sheet, Type};

pub(crate) const FILE: &str = "headline.svg";

const OPERATIONS: [(&str, &str); 3] = [("start", "schedule"), ("stop", "cancel"), ("churn", "schedule and cancel")];
const SUBJECTS: [&str; 6] = [OURS, "notify-later", "delay-queue", "netty", "go", "erlang"];
const TITLE: &str = "Time per operation over timers pending";
const LEFT: f64 = 66.0;
const TOP: f64 = 116.0;
const WIDTH: f64 = 216.0;
/// The space for the figure beside each panel.
const GAP: f64 = 54.0;
const HEIGHT: f64 = 236.0;
const LEGEND: Type = Type::new(12.5, INK);

pub(crate) fn draw(rows: &Rows, missing: &mut Missing) -> Option<String> {
    let panels = OPERATIONS.map(|(workload, title)| (title, shown(lines(rows, workload, "context"))));
    for (title, lines) in &panels {
        missing.compare(&format!("{FILE}, {title}"), lines, &SUBJECTS);
    }
    // One scale for all, so that heights are comparable across panels.
    let all: Vec<Line> = panels.iter().flat_map(|(_, lines)| lines.iter().cloned()).collect();
    if all.is_empty() {
        return None;
    }
    let frame = |number: usize| {
        let left = LEFT + number as f64 * (WIDTH + GAP);
        Frame { left, top: TOP, right: left + WIDTH, bottom: TOP + HEIGHT }
    };
    let last = frame(panels.len() - 1);
    let mut sheet = Sheet::new(last.right + GAP, last.bottom + 50.0, TITLE, &about(&panels));
    sheet.text(At(16.0, 28.0), TITLE, Type::new(15.0, INK).bold(true));
    draw_legend(&mut sheet, &all);
    let sizes = sizes(&all);
    for (number, (title, lines)) in panels.iter().enumerate() {
        let frame = frame(number);
        let panel = Panel {
            title: "",
            note: "",
            lines,
            sizes: &sizes,
            frame,
            times: times(&all, frame),
            has_times: number == 0,
            has_labels: false,
        };
        panel.draw(&mut sheet);
        panel.draw_figure(&mut sheet, OURS, false);
        panel.draw_figure(&mut sheet, "notify-later", true);
        sheet.text(At(frame.left, TOP - 20.0), title, Type::new(13.5, INK).bold(true));
    }
    let note = Type::new(11.5, FAINT).anchor(crate::plot::svg::Anchor::End);
    sheet.text(At(last.right + GAP - 16.0, 28.0), "message of 32 bytes, medians; less is better", note);
    Some(sheet.finish())
}

/// Returns the shown lines, each subject in its first variant.
fn shown(lines: Vec<Line>) -> Vec<Line> {
    let found = SUBJECTS.iter().filter_map(|subject| lines.iter().find(|line| base(&line.subject) == *subject));
    found.cloned().collect()
}

fn draw_legend(sheet: &mut Sheet, lines: &[Line]) {
    let mut at = At(16.0, 56.0);
    for subject in SUBJECTS {
        let Some(line) = lines.iter().find(|line| base(&line.subject) == subject) else { continue };
        let name = style::label(&line.subject);
        sample(sheet, at, &line.style);
        let style = LEGEND.bold(line.style.is_ours);
        sheet.text(at.plus(28.0, 4.0), name, style);
        at = at.plus(28.0 + style.width_of(name) + 20.0, 0.0);
    }
}

/// Describes the picture in words.
fn about(panels: &[(&str, Vec<Line>)]) -> String {
    let parts = panels.iter().map(|(title, lines)| {
        let ends = lines.iter().filter_map(|line| {
            let (size, measured) = line.last()?;
            let (time, size) = (crate::plot::numbers::time(measured.median), crate::plot::numbers::count(size));
            Some(format!("{} {time} at {size}", line.subject))
        });
        format!("{title}: {}", ends.collect::<Vec<_>>().join(", "))
    });
    parts.collect::<Vec<_>>().join("; ")
}
