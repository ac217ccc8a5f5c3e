//! The few SVG elements that the pictures need, and the logarithmic scale of their figures.

use std::fmt::{Display, Write as _};

/// Classes of texts, with fonts that most systems have; others are slightly wider or narrower.
const STYLE: &str = "\
text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #59636e }
.title { font-size: 17px }
.heading { font-size: 13.5px }
.mark { font-size: 9px }
.title, .heading, .name { fill: #1f2328 }
.title, .heading, .ours { font-weight: 700 }
.middle { text-anchor: middle }
.end { text-anchor: end }
";

pub(crate) const GRID: &str = r##"stroke="#e3e6ea""##;
pub(crate) const AXIS: &str = r##"stroke="#8c959f""##;

/// A rectangle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// A picture under construction.
#[derive(Debug)]
pub(crate) struct Sheet(String);

impl Sheet {
    /// Returns a sheet with its title. It is white, readable on dark pages as well.
    pub(crate) fn new(width: f64, height: f64, title: &str, subtitle: &str) -> Self {
        let mut sheet = Self(format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" fill="none" stroke-linejoin="round">
<title>{}</title>
<style>
{STYLE}</style>
<rect width="{width}" height="{height}" rx="6" fill="#fff"/>
"##,
            escaped(title)
        ));
        sheet.text("title", 16.0, 30.0, title);
        sheet.text("", 16.0, 50.0, subtitle);
        sheet
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.put(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escaped(text)));
    }

    /// Draws a line through these points.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], stroke: impl Display) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!(r#"<polyline points="{}" {stroke}/>"#, points.join(" ")));
    }

    pub(crate) fn put(&mut self, element: impl Display) {
        // A string takes all.
        let _ = writeln!(self.0, "{element}");
    }

    /// Returns the picture as a file.
    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A logarithmic scale from values onto positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// Returns a scale that reaches a bit around `values`. Values of 0 or less have no position.
    pub(crate) fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        const AROUND: f64 = 1.3;
        let positive = values.filter(|value| *value > 0.0).map(|value| (value, value));
        let (from, to) = positive.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((1.0, 1.0));
        Self { from: from / AROUND, to: to * AROUND, start, end }
    }

    /// Returns the position of `value`. Values beyond the scale are at its ends.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        self.start + (value / self.from).ln() / (self.to / self.from).ln() * (self.end - self.start)
    }

    /// Returns the powers of ten; if there are few, also the double and the fivefold.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let (from, to) = (self.from.log10(), self.to.log10());
        let steps: &[f64] = if to - from < 3.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let powers = from.floor() as i32..=to.floor() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        all.filter(|tick| (self.from..=self.to).contains(tick)).collect()
    }
}
