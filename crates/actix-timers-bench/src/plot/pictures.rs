//! All pictures: operations over the number of timers, on one or two layers; the headline of the README; the lateness
//! of messages.

use std::collections::BTreeSet;

use crate::numbers::{grouped, short, time};
use crate::plot::panel::{Line, Panel, sizes, times};
use crate::plot::style::{DIAMOND, DISC, Mark, SQUARE, UP, label};
use crate::plot::svg::{AXIS, Frame, GRID, Scale, Sheet};
use crate::rows::{OURS, Row, Rows, Spread, base};

/// Draws all pictures for which there are rows. Returns their file names and contents.
pub(crate) fn draw_all(rows: &Rows) -> Vec<(&'static str, String)> {
    let mut pictures: Vec<_> = PICTURES.iter().map(|picture| (picture.file, picture.draw(rows))).collect();
    pictures.extend([("lateness.svg", lateness(rows)), ("headline.svg", headline(rows))]);
    pictures.into_iter().filter_map(|(file, picture)| Some((file, picture?))).collect()
}

/// A picture of time per operation.
struct Picture {
    file: &'static str,
    workload: &'static str,
    title: &'static str,
    layers: &'static [Layer],
}

/// A layer: its name in the rows, its title and a note.
type Layer = (&'static str, &'static str, &'static str);

const WHEEL: Layer = ("wheel", "The bare structure", "payload of 16 bytes; 1 to 7 are the classic schemes");
const CONTEXT: Layer = (
    "context",
    "Through the context of an actor",
    "message of 32 bytes; netty, go and erlang: CPU time of all their threads",
);
const ROUND_TRIP: Layer = ("context", "A message there and one back", "by the number of the actor's timers");

const PICTURES: [Picture; 5] = [
    Picture { file: "start.svg", workload: "start", title: "start: schedule a timer", layers: &[WHEEL, CONTEXT] },
    Picture {
        file: "stop.svg",
        workload: "stop",
        title: "stop: cancel a timer, in random order",
        layers: &[WHEEL, CONTEXT],
    },
    Picture {
        file: "churn.svg",
        workload: "churn",
        title: "churn: schedule a timer and cancel a random one",
        layers: &[WHEEL, CONTEXT],
    },
    Picture {
        file: "fire-wheel.svg",
        workload: "expire",
        title: "expire: a timer comes due, cascades included",
        layers: &[WHEEL],
    },
    Picture {
        file: "message-cost.svg",
        workload: "message-cost",
        title: "What an ordinary message costs an actor with timers pending",
        layers: &[ROUND_TRIP],
    },
];

const LEFT: f64 = 66.0;

impl Picture {
    fn draw(&self, rows: &Rows) -> Option<String> {
        const SUBTITLE: &str = "time per operation over timers pending; medians, whiskers from min to max";
        const WIDTH: f64 = 830.0;
        const HEIGHT: f64 = 320.0;
        /// The distance between two frames, and between the first and the top.
        const BETWEEN: f64 = 110.0;
        let lines = self.layers.iter().map(|layer| (layer, Line::all(rows, self.workload, layer.0)));
        let panels: Vec<_> = lines.filter(|(_, lines)| !lines.is_empty()).collect();
        if panels.is_empty() {
            return None;
        }
        let height = panels.len() as f64 * (BETWEEN + HEIGHT) + 48.0;
        let mut sheet = Sheet::new(WIDTH, height, self.title, SUBTITLE);
        let mut top = BETWEEN;
        for ((_, title, note), lines) in &panels {
            let frame = Frame { left: LEFT, top, right: LEFT + 440.0, bottom: top + HEIGHT };
            sheet.text("heading", LEFT, top - 26.0, title);
            sheet.text("", LEFT, top - 9.0, note);
            let panel = Panel { lines, sizes: &sizes(lines), frame, times: times(lines, frame) };
            panel.draw(&mut sheet);
            panel.draw_times(&mut sheet);
            panel.draw_labels(&mut sheet);
            top += HEIGHT + BETWEEN;
        }
        Some(sheet.finish())
    }
}

/// Draws three operations side by side, ours and the best known peers, each in its first variant.
fn headline(rows: &Rows) -> Option<String> {
    const OPERATIONS: [(&str, &str); 3] = [("start", "schedule"), ("stop", "cancel"), ("churn", "schedule and cancel")];
    const SUBJECTS: [&str; 6] = ["erlang", "go", "netty", "delay-queue", "notify-later", OURS];
    const TOP: f64 = 136.0;
    const WIDTH: f64 = 216.0;
    /// The space for the figure beside each panel.
    const GAP: f64 = 54.0;
    const BOTTOM: f64 = TOP + 236.0;
    let panels = OPERATIONS.map(|(workload, title)| {
        let lines = Line::all(rows, workload, "context");
        let first = |subject: &&str| lines.iter().find(|line| base(&line.subject) == *subject).cloned();
        (title, SUBJECTS.iter().filter_map(first).collect::<Vec<_>>())
    });
    // One scale for all, so that heights are comparable across panels.
    let all: Vec<Line> = panels.iter().flat_map(|(_, lines)| lines.iter().cloned()).collect();
    if all.is_empty() {
        return None;
    }
    let title = "Time per operation over timers pending";
    let subtitle = "message of 32 bytes, medians; less is better";
    let mut sheet = Sheet::new(LEFT + 3.0 * (WIDTH + GAP), BOTTOM + 50.0, title, subtitle);
    let mut x = 16.0;
    for line in SUBJECTS.iter().rev().filter_map(|subject| all.iter().find(|line| base(&line.subject) == *subject)) {
        let (name, class) = label(&line.subject);
        line.style.draw_sample(&mut sheet, x, 76.0);
        sheet.text(class, x + 28.0, 80.0, name);
        x += 138.0;
    }
    let mut left = LEFT;
    for (title, lines) in &panels {
        let frame = Frame { left, top: TOP, right: left + WIDTH, bottom: BOTTOM };
        let panel = Panel { lines, sizes: &sizes(&all), frame, times: times(&all, frame) };
        sheet.text("heading", left, TOP - 26.0, title);
        panel.draw(&mut sheet);
        if left == LEFT {
            panel.draw_times(&mut sheet);
        }
        for line in lines.iter().filter(|line| [OURS, "notify-later"].contains(&base(&line.subject))) {
            let (x, y) = panel.end_of(line);
            let (class, x, y) =
                if line.subject == OURS { ("ours", x + 9.0, y + 4.0) } else { ("ours middle", x, y - 10.0) };
            let (colour, figure) = (line.style.mark.colour, time(line.last().1));
            sheet.put(format_args!(
                r#"<text class="{class}" x="{x:.1}" y="{y:.1}" style="fill:{colour}">{figure}</text>"#
            ));
        }
        left += WIDTH + GAP;
    }
    Some(sheet.finish())
}

/// Draws four quantiles of the lateness of messages due within two seconds, for each subject.
fn lateness(rows: &Rows) -> Option<String> {
    const QUANTILES: [(&str, &str, Mark); 4] = [
        ("p50 ms late", "p50", Mark::new("#56b4e9", DISC)),
        ("p99 ms late", "p99", Mark::new("#0072b2", SQUARE)),
        ("p99.9 ms late", "p99.9", Mark::new("#e69f00", DIAMOND)),
        ("max ms late", "max", Mark::new("#d55e00", UP)),
    ];
    const LEFT: f64 = 190.0;
    const RIGHT: f64 = 710.0;
    const TOP: f64 = 96.0;
    /// The height of a subject, and of a quantile of it.
    const BAND: f64 = 58.0;
    const STEP: f64 = 12.5;
    let all = || rows.iter().filter(|row| row.workload == "fire" && row.layer == "whole");
    // The largest size of ours; the other subjects are shown at the same size.
    let size = all().filter(|row| row.is_ours()).map(|row| row.size).max()?;
    let shown: Vec<&Row> = all().filter(|row| row.size == size).collect();
    let mut seen = BTreeSet::new();
    let subjects: Vec<&str> = shown.iter().map(|row| &*row.subject).filter(|subject| seen.insert(*subject)).collect();
    let messages = format!("{} messages", grouped(size));
    let bottom = TOP + subjects.len() as f64 * BAND;
    let late = shown.iter().filter(|row| QUANTILES.iter().any(|(unit, ..)| row.unit == *unit));
    let scale = Scale::over(late.flat_map(|row| [row.measured().min, row.measured().max]), LEFT, RIGHT);
    let subtitle = format!("{messages} due within two seconds; medians, whiskers from min to max");
    let mut sheet = Sheet::new(RIGHT + 60.0, bottom + 50.0, "Lateness: from the deadline to the handler", &subtitle);
    for ((_, name, mark), x) in QUANTILES.iter().zip([LEFT, LEFT + 56.0, LEFT + 112.0, LEFT + 180.0]) {
        mark.draw(&mut sheet, x, 76.0);
        sheet.text("name", x + 10.0, 80.0, name);
    }
    for tick in scale.ticks() {
        let x = scale.place(tick);
        sheet.line(&[(x, TOP), (x, bottom)], GRID);
        sheet.text("middle", x, bottom + 18.0, &((tick * 1e3).round() / 1e3).to_string());
    }
    sheet.line(&[(LEFT, bottom), (RIGHT, bottom)], AXIS);
    sheet.text("middle", f64::midpoint(LEFT, RIGHT), bottom + 38.0, "milliseconds late");

    let mut top = TOP;
    for subject in subjects {
        sheet.line(&[(16.0, top), (RIGHT, top)], GRID);
        sheet.text(label(subject).1, 16.0, top + BAND / 2.0 + 4.0, subject);
        let of_unit = |unit: &str| shown.iter().find(|row| row.subject == subject && row.unit == unit);
        let mut y = top + 4.0 + STEP / 2.0;
        for (unit, _, mark) in &QUANTILES {
            if let Some(row) = of_unit(unit) {
                draw_quantile(&mut sheet, scale, row.measured(), mark, y);
            }
            y += STEP;
        }
        if let Some(early) = of_unit("messages early").filter(|_| of_unit(QUANTILES[0].0).is_none()) {
            let part = early.measured().median / size as f64 * 100.0;
            let text = format!("{part:.0} % come early; how late the others are is not compared");
            sheet.text("", LEFT + 10.0, top + BAND / 2.0 + 4.0, &text);
        }
        top += BAND;
    }
    Some(sheet.finish())
}

/// Draws the median with its mark and its figure, and a whisker from min to max.
fn draw_quantile(sheet: &mut Sheet, scale: Scale, measured: Spread, mark: &Mark, y: f64) {
    let [min, median, max] = [measured.min, measured.median, measured.max].map(|late| scale.place(late));
    let (top, colour) = (y - 3.0, mark.colour);
    sheet.put(format_args!(
        r#"<path d="M{min:.1} {y:.1}H{max:.1}m0-3v6M{min:.1} {top:.1}v6" stroke="{colour}" stroke-width="1.4"/>"#
    ));
    mark.draw(sheet, median, y);
    sheet.text("", max + 8.0, y + 4.0, &short(measured.median));
}
