//! The lateness of messages due within two seconds: four quantiles of each subject.

use crate::plot::missing::Missing;
use crate::plot::numbers::{grouped, short};
use crate::plot::rows::{OURS, Row, Rows, base};
use crate::plot::scale::Scale;
use crate::plot::style::{AXIS, FAINT, GRID, INK, Mark};
use crate::plot::svg::{Anchor, At, Frame, Pen, Sheet, Type};

pub(crate) const FILE: &str = "lateness.svg";

const WORKLOAD: &str = "fire";
const LAYER: &str = "whole";
const EARLY: &str = "messages early";
const EXPECTED: [&str; 7] = ["actix-timers", "delay-queue", "tokio-sleep", "hash-wheel-timer", "netty", "go", "erlang"];

/// Unit, name, colour, mark.
const QUANTILES: [(&str, &str, &str, Mark); 4] = [
    ("p50 ms late", "p50", "#56b4e9", Mark::Disc),
    ("p99 ms late", "p99", "#0072b2", Mark::Square),
    ("p99.9 ms late", "p99.9", "#e69f00", Mark::Diamond),
    ("max ms late", "max", "#d55e00", Mark::Up),
];

const TITLE: &str = "Lateness: from the deadline to the handler";
const LEGEND: Type = Type::new(12.5, INK);
const LABEL: Type = Type::new(12.5, INK);
const FIGURE: Type = Type::new(11.0, FAINT);
const LEFT: f64 = 190.0;
const WIDTH: f64 = 520.0;
const TOP: f64 = 96.0;
/// The height of a quantile of a subject.
const STEP: f64 = 12.5;
/// The height of a subject.
const BAND: f64 = 4.0 * STEP + 8.0;

pub(crate) fn draw(rows: &Rows, missing: &mut Missing) -> Option<String> {
    // The largest size of ours; the other subjects are shown at the same size.
    let all = || rows.iter().filter(|row| row.workload == WORKLOAD && row.layer == LAYER);
    let size = all().filter(|row| row.is_ours()).map(|row| row.size).max()?;
    let shown: Vec<&Row> = all().filter(|row| row.size == size).collect();
    let subjects = Rows::subjects(shown.iter().copied());
    let absent: Vec<&str> =
        EXPECTED.into_iter().filter(|name| !subjects.iter().any(|subject| base(subject) == *name)).collect();
    if !absent.is_empty() {
        missing.note(format!("{FILE}: no rows of {} with {} messages", absent.join(", "), grouped(size)));
    }

    let bottom = TOP + subjects.len() as f64 * BAND;
    let frame = Frame { left: LEFT, top: TOP, right: LEFT + WIDTH, bottom };
    let late = |row: &&&Row| QUANTILES.iter().any(|(unit, ..)| row.unit == *unit);
    let values = shown.iter().filter(late).flat_map(|row| [row.measured.min, row.measured.max]);
    let scale = Scale::over(values, frame.left, frame.right).rounded();
    let subtitle = format!("{} messages due within two seconds; medians, whiskers from min to max", grouped(size));
    let mut sheet = Sheet::new(frame.right + 60.0, bottom + 50.0, TITLE, &subtitle);
    sheet.text(At(16.0, 30.0), TITLE, Type::new(17.0, INK).bold(true));
    sheet.text(At(16.0, 50.0), &subtitle, Type::new(12.0, FAINT));
    draw_legend(&mut sheet);
    draw_scale(&mut sheet, frame, &scale);
    for (number, subject) in subjects.iter().enumerate() {
        let top = TOP + number as f64 * BAND;
        sheet.line(At(16.0, top), At(frame.right, top), Pen::new(GRID, 1.0));
        let is_ours = subject.starts_with(OURS);
        sheet.text(At(16.0, top + BAND / 2.0 + 4.0), subject, LABEL.bold(is_ours));
        let of_subject: Vec<&Row> = shown.iter().copied().filter(|row| row.subject == *subject).collect();
        draw_subject(&mut sheet, &of_subject, &scale, top, missing);
    }
    Some(sheet.finish())
}

fn draw_legend(sheet: &mut Sheet) {
    let mut at = At(LEFT, 76.0);
    for (_, name, colour, mark) in QUANTILES {
        mark.draw(sheet, at, colour, 4.6);
        sheet.text(at.plus(10.0, 4.0), name, LEGEND);
        at = at.plus(10.0 + LEGEND.width_of(name) + 22.0, 0.0);
    }
}

fn draw_scale(sheet: &mut Sheet, frame: Frame, scale: &Scale) {
    let Frame { left, top, right, bottom } = frame;
    let (numbered, plain) = scale.ticks();
    for tick in plain.iter().chain(&numbered) {
        let x = scale.place(*tick);
        sheet.line(At(x, top), At(x, bottom), Pen::new(GRID, 1.0));
    }
    let mut ticks = numbered;
    if ticks.len() < 4 {
        ticks.extend(plain);
    }
    for tick in ticks {
        let text = ((tick * 1e3).round() / 1e3).to_string();
        sheet.text(At(scale.place(tick), bottom + 18.0), &text, FIGURE.anchor(Anchor::Middle));
    }
    sheet.line(At(left, bottom), At(right, bottom), Pen::new(AXIS, 1.0));
    let middle = f64::midpoint(left, right);
    sheet.text(At(middle, bottom + 38.0), "milliseconds late", Type::new(12.0, FAINT).anchor(Anchor::Middle));
}

fn draw_subject(sheet: &mut Sheet, rows: &[&Row], scale: &Scale, top: f64, missing: &mut Missing) {
    let of_unit = |unit: &str| rows.iter().find(|row| row.unit == unit);
    let mut drawn = 0;
    for (place, (unit, _, colour, mark)) in QUANTILES.into_iter().enumerate() {
        let Some(row) = of_unit(unit) else { continue };
        let y = top + 4.0 + STEP * (place as f64 + 0.5);
        let [from, middle, to] =
            [row.measured.min, row.measured.median, row.measured.max].map(|late| At(scale.place(late), y));
        sheet.line(from, to, Pen::new(colour, 1.4));
        for end in [from, to] {
            sheet.line(end.plus(0.0, -3.0), end.plus(0.0, 3.0), Pen::new(colour, 1.4));
        }
        mark.draw(sheet, middle, colour, 4.4);
        sheet.text(to.plus(8.0, 4.0), &short(row.measured.median), FIGURE);
        drawn += 1;
    }
    let Some(first) = rows.first().filter(|_| drawn < QUANTILES.len()) else { return };
    match of_unit(EARLY).filter(|early| early.measured.median > 0.0) {
        Some(early) => {
            let part = early.measured.median / early.size as f64 * 100.0;
            let text = format!("{part:.0} % come early; how late the others are is not compared");
            sheet.text(At(LEFT + 10.0, top + BAND / 2.0 + 4.0), &text, FIGURE);
        }
        None => missing.note(format!("{FILE}: {} has only {drawn} of the quantiles", first.subject)),
    }
}
