//! A panel: figures over the number of pending timers, a line per subject.

use std::collections::{BTreeMap, BTreeSet};

use crate::plot::labels::spread;
use crate::plot::numbers::{count, time};
use crate::plot::rows::{Row, Spread, base};
use crate::plot::scale::Scale;
use crate::plot::style::{self, AXIS, FAINT, GRID, GRID_FAINT, INK, Style, sample};
use crate::plot::svg::{Anchor, At, Frame, Pen, Sheet, Type};

const TITLE: Type = Type::new(13.5, INK).bold(true);
const NOTE: Type = Type::new(12.0, FAINT);
const TICK: Type = Type::new(12.0, FAINT);
const LABEL: Type = Type::new(12.0, INK);
/// The distance between labels.
const LABEL_GAP: f64 = 16.5;
/// The distance from the frame to the marks of the labels.
const LEADER: f64 = 20.0;
/// The distance from the marks to the names.
const SAMPLE: f64 = 28.0;
/// The distance between the frame and the first and last points.
const MARGIN: f64 = 16.0;
/// The space on the lower scale for "no timers", which a logarithmic scale cannot show.
const FOR_ZERO: f64 = 46.0;

/// The figures of one subject, by number of timers.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) subject: String,
    pub(crate) style: Style,
    points: BTreeMap<u64, Spread>,
}

impl Line {
    /// Returns a line for each subject of `rows`.
    pub(crate) fn all<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Self> {
        let mut lines: Vec<Self> = Vec::new();
        for row in rows {
            let points = match lines.iter().position(|line| line.subject == row.subject) {
                Some(known) => &mut lines[known].points,
                None => {
                    let variant = lines.iter().filter(|line| base(&line.subject) == base(&row.subject)).count();
                    let style = Style::of(&row.subject, variant);
                    lines.push(Self { subject: row.subject.clone(), style, points: BTreeMap::new() });
                    let last = lines.len() - 1;
                    &mut lines[last].points
                }
            };
            points.insert(row.size, row.measured);
        }
        lines
    }

    /// Returns the last point.
    pub(crate) fn last(&self) -> Option<(u64, Spread)> {
        self.points.last_key_value().map(|(size, measured)| (*size, *measured))
    }

    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.points.keys().copied()
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.points.values().flat_map(|Spread { min, max, .. }| [*min, *max])
    }

    /// Returns the label at the line's end: name and figure, and the number of timers if the line ends before others.
    fn label(&self, largest: u64) -> (&str, String) {
        let figure = self.last().map(|(size, Spread { median, .. })| match size == largest {
            true => format!("  {}", time(median)),
            false => format!("  {} at {}", time(median), count(size)),
        });
        (style::label(&self.subject), figure.unwrap_or_default())
    }
}

/// Returns all numbers of timers in some lines.
pub(crate) fn sizes(lines: &[Line]) -> BTreeSet<u64> {
    lines.iter().flat_map(Line::sizes).collect()
}

/// A panel. `left` and `top` are the corner of the frame around the lines.
#[derive(Debug)]
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) note: &'a str,
    pub(crate) lines: &'a [Line],
    /// The numbers of timers below the frame.
    pub(crate) sizes: &'a BTreeSet<u64>,
    pub(crate) frame: Frame,
    pub(crate) times: Scale,
    /// Whether the scale of times is drawn beside the frame.
    pub(crate) has_times: bool,
    /// Whether the lines have names beside their ends.
    pub(crate) has_labels: bool,
}

/// Returns the scale of all lines' times, from the bottom of a frame to its top.
pub(crate) fn times(lines: &[Line], frame: Frame) -> Scale {
    Scale::over(lines.iter().flat_map(Line::values), frame.bottom, frame.top).rounded()
}

/// Returns the height of a frame: room for all labels, and for close lines to stay apart where others are far away.
pub(crate) fn height(lines: &[Line]) -> f64 {
    const DECADE: f64 = 62.0;
    let place = Scale::over(lines.iter().flat_map(Line::values), 0.0, 1.0).rounded();
    (place.decades() * DECADE).clamp(230.0, 380.0).max(lines.len() as f64 * LABEL_GAP)
}

/// Returns the width of the labels beside the frame.
pub(crate) fn width_of_labels(lines: &[Line]) -> f64 {
    let largest = sizes(lines).last().copied().unwrap_or(0);
    let widths = lines.iter().map(|line| {
        let (name, figure) = line.label(largest);
        LABEL.bold(line.style.is_ours).width_of(name) + LABEL.width_of(&figure)
    });
    LEADER + SAMPLE + widths.fold(0.0, f64::max)
}

impl Panel<'_> {
    pub(crate) fn draw(&self, sheet: &mut Sheet) {
        let Frame { left, top, .. } = self.frame;
        sheet.text(At(left, top - 28.0), self.title, TITLE);
        sheet.text(At(left, top - 11.0), self.note, NOTE);
        self.draw_grid(sheet);
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| style::rank(&line.subject));
        for line in &lines {
            self.draw_line(sheet, line);
        }
        for line in &lines {
            self.draw_points(sheet, line);
        }
        if self.has_labels {
            self.draw_labels(sheet);
        }
    }

    /// Returns the horizontal position of a number of timers.
    fn across(&self, size: u64) -> f64 {
        let Frame { left, right, .. } = self.frame;
        let start = left + MARGIN + if self.sizes.contains(&0) { FOR_ZERO } else { 0.0 };
        if size == 0 {
            return left + MARGIN;
        }
        Scale::over(self.sizes.iter().map(|size| *size as f64), start, right - MARGIN).place(size as f64)
    }

    fn at(&self, size: u64, nanoseconds: f64) -> At {
        At(self.across(size), self.times.place(nanoseconds))
    }

    fn draw_grid(&self, sheet: &mut Sheet) {
        let Frame { left, right, bottom, .. } = self.frame;
        let (numbered, plain) = self.times.ticks();
        for (ticks, colour) in [(&plain, GRID_FAINT), (&numbered, GRID)] {
            for tick in ticks {
                let y = self.times.place(*tick);
                sheet.line(At(left, y), At(right, y), Pen::new(colour, 1.0));
            }
        }
        for tick in numbered.iter().filter(|_| self.has_times) {
            let at = At(left - 7.0, self.times.place(*tick) + 4.0);
            sheet.text(at, &time(*tick), TICK.anchor(Anchor::End));
        }
        let mut free_from = f64::MIN;
        for size in self.sizes {
            let (x, text) = (self.across(*size), count(*size));
            sheet.line(At(x, bottom), At(x, bottom + 5.0), Pen::new(AXIS, 1.0));
            let half = TICK.width_of(&text) / 2.0;
            // Overlapping numbers are omitted.
            if x - half > free_from {
                sheet.text(At(x, bottom + 19.0), &text, TICK.anchor(Anchor::Middle));
                free_from = x + half + 4.0;
            }
        }
        let middle = At(f64::midpoint(left, right), bottom + 37.0);
        sheet.text(middle, "timers pending", NOTE.anchor(Anchor::Middle));
        sheet.line(At(left, bottom), At(right, bottom), Pen::new(AXIS, 1.0));
        if self.sizes.contains(&0) {
            // The scale has a gap between zero and the first number.
            let x = left + MARGIN + FOR_ZERO / 2.0;
            sheet.line(At(x - 3.0, bottom + 4.0), At(x + 1.0, bottom - 4.0), Pen::new(AXIS, 1.0));
            sheet.line(At(x + 1.0, bottom + 4.0), At(x + 5.0, bottom - 4.0), Pen::new(AXIS, 1.0));
        }
    }

    fn draw_line(&self, sheet: &mut Sheet, line: &Line) {
        let points: Vec<At> = line.points.iter().map(|(size, measured)| self.at(*size, measured.median)).collect();
        if points.len() > 1 {
            sheet.path(&points, line.style.pen);
        }
    }

    fn draw_points(&self, sheet: &mut Sheet, line: &Line) {
        let Style { pen, mark, is_ours } = line.style;
        for (size, Spread { median, min, max }) in &line.points {
            let (top, bottom) = (self.at(*size, *max), self.at(*size, *min));
            let whisker = line.style.whisker();
            sheet.line(top, bottom, whisker);
            for end in [top, bottom] {
                sheet.line(end.plus(-3.5, 0.0), end.plus(3.5, 0.0), whisker);
            }
            mark.draw(sheet, self.at(*size, *median), pen.colour, if is_ours { 5.4 } else { 4.2 });
        }
    }

    /// Draws the last figure of a subject in its colour: right of the frame, or above the end of its line.
    pub(crate) fn draw_figure(&self, sheet: &mut Sheet, subject: &str, above: bool) {
        let Some(line) = self.lines.iter().find(|line| base(&line.subject) == subject) else { return };
        let Some((size, Spread { median, .. })) = line.last() else { return };
        let style = Type::new(12.0, line.style.pen.colour).bold(true);
        let end = self.at(size, median);
        let (at, style) = match above {
            true => (end.plus(0.0, -10.0), style.anchor(Anchor::Middle)),
            false => (At(self.frame.right - 4.0, end.1 + 4.0), style),
        };
        sheet.text(at, &time(median), style);
    }

    /// Draws leaders from the ends of the lines to their names.
    fn draw_labels(&self, sheet: &mut Sheet) {
        let Frame { top, right, bottom, .. } = self.frame;
        let largest = self.sizes.last().copied().unwrap_or(0);
        let ends: Vec<(&Line, At)> = self
            .lines
            .iter()
            .filter_map(|line| line.last().map(|(size, Spread { median, .. })| (line, self.at(size, median))))
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|(_, At(_, y))| *y).collect();
        for ((line, end), y) in ends.iter().zip(spread(&wanted, LABEL_GAP, top, bottom)) {
            let label = At(right + LEADER, y);
            let colour = line.style.pen.colour;
            let from = if end.0 < right - MARGIN - 1.0 { At(right, end.1) } else { *end };
            if from != *end {
                sheet.line(*end, from, Pen { dash: "1 3", ..Pen::new(colour, 1.0) });
            }
            sheet.path(&[from, At(right + 3.0, from.1), label.plus(-2.0, 0.0)], Pen::new(colour, 0.8));
            sample(sheet, label, &line.style);
            let (name, figure) = line.label(largest);
            sheet.texts(label.plus(SAMPLE, 4.0), &[(name, LABEL.bold(line.style.is_ours)), (&figure, NOTE)]);
        }
    }
}
