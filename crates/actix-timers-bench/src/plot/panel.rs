//! A panel: figures over the number of pending timers, a line per subject.

use std::collections::{BTreeMap, BTreeSet};

use crate::numbers::{count, time};
use crate::plot::style::{Style, label};
use crate::plot::svg::{AXIS, Frame, GRID, Scale, Sheet, escaped};
use crate::rows::{CALLER_ONLY, OURS, Row, Rows, Spread, base};

/// The figures of one subject, by number of timers.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) subject: String,
    pub(crate) style: Style,
    pub(crate) points: BTreeMap<u64, Spread>,
}

impl Line {
    /// Returns a line of nanoseconds for each subject, in the order of drawing: schemes, peers, ours. A subject that
    /// leaves work to other threads is shown with all its threads; the caller's share is in the files of figures.
    pub(crate) fn all(rows: &Rows, workload: &str, layer: &str) -> Vec<Self> {
        let mut lines: Vec<Self> = Vec::new();
        let is_shown = |row: &&Row| {
            (&*row.workload, &*row.layer, &*row.unit) == (workload, layer, "ns/op")
                && !row.subject.ends_with(CALLER_ONLY)
        };
        for row in rows.iter().filter(is_shown) {
            let known = lines.iter().position(|line| line.subject == row.subject).unwrap_or_else(|| {
                let variant = lines.iter().filter(|line| base(&line.subject) == base(&row.subject)).count();
                let style = Style::of(&row.subject, variant);
                lines.push(Self { subject: row.subject.clone(), style, points: BTreeMap::new() });
                lines.len() - 1
            });
            lines[known].points.insert(row.size, row.measured());
        }
        lines.sort_by_key(|line| (line.subject.starts_with(OURS), !line.subject.starts_with("scheme ")));
        lines
    }

    /// Returns the size and the median of the last point.
    pub(crate) fn last(&self) -> (u64, f64) {
        let (size, measured) = self.points.last_key_value().expect("a line has a point");
        (*size, measured.median)
    }
}

/// Returns all numbers of timers in some lines.
pub(crate) fn sizes(lines: &[Line]) -> BTreeSet<u64> {
    lines.iter().flat_map(|line| line.points.keys().copied()).collect()
}

/// Returns the scale of all lines' times, from the bottom of a frame to its top.
pub(crate) fn times(lines: &[Line], frame: Frame) -> Scale {
    let points = lines.iter().flat_map(|line| line.points.values());
    Scale::over(points.flat_map(|Spread { min, max, .. }| [*min, *max]), frame.bottom, frame.top)
}

#[derive(Debug)]
pub(crate) struct Panel<'a> {
    pub(crate) lines: &'a [Line],
    /// The numbers of timers below the frame, at equal distances.
    pub(crate) sizes: &'a BTreeSet<u64>,
    pub(crate) frame: Frame,
    pub(crate) times: Scale,
}

impl Panel<'_> {
    pub(crate) fn draw(&self, sheet: &mut Sheet) {
        let Frame { left, right, bottom, .. } = self.frame;
        for y in self.times.ticks().into_iter().map(|tick| self.times.place(tick)) {
            sheet.line(&[(left, y), (right, y)], GRID);
        }
        sheet.line(&[(left, bottom), (right, bottom)], AXIS);
        for size in self.sizes {
            let x = self.across(*size);
            sheet.line(&[(x, bottom), (x, bottom + 5.0)], AXIS);
            sheet.text("middle", x, bottom + 19.0, &count(*size));
        }
        sheet.text("middle", f64::midpoint(left, right), bottom + 37.0, "timers pending");
        for line in self.lines {
            self.draw_line(sheet, line);
        }
    }

    fn draw_line(&self, sheet: &mut Sheet, line: &Line) {
        let points: Vec<_> = line.points.iter().map(|(size, measured)| self.at(*size, measured.median)).collect();
        sheet.line(&points, &line.style);
        for ((x, y), Spread { min, max, .. }) in points.into_iter().zip(line.points.values()) {
            let (top, bottom) = (self.times.place(*max), self.times.place(*min));
            let colour = line.style.mark.colour;
            sheet.put(format_args!(
                r#"<path d="M{x:.1} {top:.1}V{bottom:.1}m-3.5 0h7M{:.1} {top:.1}h7" stroke="{colour}"/>"#,
                x - 3.5
            ));
            line.style.draw_mark(sheet, x, y);
        }
    }

    /// Draws the scale of times left of the frame.
    pub(crate) fn draw_times(&self, sheet: &mut Sheet) {
        for tick in self.times.ticks() {
            sheet.text("end", self.frame.left - 7.0, self.times.place(tick) + 4.0, &time(tick));
        }
    }

    /// Draws names and last figures right of the frame, connected to the ends of the lines.
    pub(crate) fn draw_labels(&self, sheet: &mut Sheet) {
        const GAP: f64 = 16.5;
        let Frame { top, right, bottom, .. } = self.frame;
        let ends: Vec<(f64, f64)> = self.lines.iter().map(|line| self.end_of(line)).collect();
        let wanted: Vec<f64> = ends.iter().map(|(_, y)| *y).collect();
        for ((line, end), y) in self.lines.iter().zip(ends).zip(spread(&wanted, GAP, top, bottom)) {
            let colour = line.style.mark.colour;
            let leader = [end, (right, end.1), (right + 18.0, y)];
            sheet.line(&leader, format_args!(r#"stroke="{colour}" stroke-dasharray="1 3""#));
            line.style.draw_sample(sheet, right + 20.0, y);
            let (name, class) = label(&line.subject);
            let (size, median) = line.last();
            let is_shorter = self.sizes.last() != Some(&size);
            let at = if is_shorter { format!(" at {}", count(size)) } else { String::new() };
            sheet.put(format_args!(
                r#"<text x="{:.1}" y="{:.1}"><tspan class="{class}">{}</tspan><tspan dx="8">{}{at}</tspan></text>"#,
                right + 48.0,
                y + 4.0,
                escaped(name),
                time(median)
            ));
        }
    }

    /// Returns the position of the last point.
    pub(crate) fn end_of(&self, line: &Line) -> (f64, f64) {
        let (size, median) = line.last();
        self.at(size, median)
    }

    fn at(&self, size: u64, nanoseconds: f64) -> (f64, f64) {
        (self.across(size), self.times.place(nanoseconds))
    }

    /// Returns the horizontal position of a number of timers.
    fn across(&self, size: u64) -> f64 {
        const MARGIN: f64 = 20.0;
        let Frame { left, right, .. } = self.frame;
        let (place, steps) = (self.sizes.range(..size).count(), self.sizes.len().saturating_sub(1).max(1));
        left + MARGIN + (right - left - 2.0 * MARGIN) * place as f64 / steps as f64
    }
}

/// Returns positions near the wanted ones, in the same order, at least `gap` apart and within `from` to `to` as far as
/// there is room for all. The labels move as little as possible (in the sense of least squares).
pub(crate) fn spread(wanted: &[f64], gap: f64, from: f64, to: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // With the gaps before each label subtracted, only the order matters: out-of-order neighbours share their mean.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (gaps, label) in order.iter().enumerate() {
        let mut group = (wanted[*label] - gaps as f64 * gap, 1);
        while let Some((mean, size)) = groups.pop_if(|(mean, _)| *mean > group.0) {
            group = ((mean * size as f64 + group.0 * group.1 as f64) / (size + group.1) as f64, size + group.1);
        }
        groups.push(group);
    }
    let last = to - wanted.len().saturating_sub(1) as f64 * gap;
    let shared = groups.iter().flat_map(|(mean, size)| std::iter::repeat_n(mean.min(last).max(from), *size));
    let mut places = vec![0.0; wanted.len()];
    for ((gaps, label), place) in order.iter().enumerate().zip(shared) {
        places[*label] = place + gaps as f64 * gap;
    }
    places
}
