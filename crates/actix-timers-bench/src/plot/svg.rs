//! A sheet to draw on: the few SVG elements that the pictures need.

use std::fmt::Write as _;

/// Fonts that most systems have. Others are slightly wider or narrower.
const FONTS: &str = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif";

/// A position from the left and from the top, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct At(pub(crate) f64, pub(crate) f64);

impl At {
    /// Returns a position this far to the right and down.
    pub(crate) fn plus(self, right: f64, down: f64) -> Self {
        Self(self.0 + right, self.1 + down)
    }
}

/// A rectangle by its edges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// The style of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pen {
    pub(crate) colour: &'static str,
    pub(crate) width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub(crate) dash: &'static str,
}

impl Pen {
    pub(crate) const fn new(colour: &'static str, width: f64) -> Self {
        Self { colour, width, dash: "" }
    }
}

/// The point of a text at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The style of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type {
    pub(crate) size: f64,
    pub(crate) colour: &'static str,
    pub(crate) bold: bool,
    pub(crate) anchor: Anchor,
}

impl Type {
    pub(crate) const fn new(size: f64, colour: &'static str) -> Self {
        Self { size, colour, bold: false, anchor: Anchor::Start }
    }

    pub(crate) const fn bold(self, bold: bool) -> Self {
        Self { bold, ..self }
    }

    pub(crate) const fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// Returns the approximate width of `text`. It errs on the wide side, since fonts differ.
    pub(crate) fn width_of(self, text: &str) -> f64 {
        let widths = text.chars().map(|letter| match letter {
            'i' | 'j' | 'l' | '.' | ',' | ':' | '|' | ' ' | 'I' => 0.32,
            'f' | 't' | 'r' | '-' | '(' | ')' => 0.41,
            'm' | 'w' | 'M' | 'W' => 0.92,
            'A'..='Z' => 0.7,
            _ => 0.61,
        });
        widths.sum::<f64>() * self.size * if self.bold { 1.08 } else { 1.0 }
    }
}

/// A picture under construction.
#[derive(Debug)]
pub(crate) struct Sheet {
    width: f64,
    height: f64,
    body: String,
}

impl Sheet {
    /// Returns a white sheet, readable on dark pages as well. `title` and `about` are for screen readers.
    pub(crate) fn new(width: f64, height: f64, title: &str, about: &str) -> Self {
        let (title, about) = (escaped(title), escaped(about));
        let mut sheet = Self { width, height, body: format!("<title>{title}</title>\n<desc>{about}</desc>\n") };
        let (width, height) = (number(width), number(height));
        sheet.put(&format!(r##"<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>"##));
        sheet
    }

    pub(crate) fn line(&mut self, from: At, to: At, pen: Pen) {
        self.path(&[from, to], pen);
    }

    /// Draws lines from each point to the next.
    pub(crate) fn path(&mut self, points: &[At], pen: Pen) {
        let mut shape = String::new();
        for (place, At(x, y)) in points.iter().enumerate() {
            let _ = write!(shape, "{}{} {}", if place == 0 { "M" } else { "L" }, number(*x), number(*y));
        }
        let dash = if pen.dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{}""#, pen.dash) };
        let (colour, width) = (pen.colour, number(pen.width));
        self.put(&format!(
            r#"<path d="{shape}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dash}/>"#
        ));
    }

    pub(crate) fn disc(&mut self, At(x, y): At, radius: f64, fill: &str, edge: Pen) {
        let (x, y, radius, width) = (number(x), number(y), number(radius), number(edge.width));
        let colour = edge.colour;
        self.put(&format!(
            r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{colour}" stroke-width="{width}"/>"#
        ));
    }

    /// Draws a filled shape with these corners.
    pub(crate) fn polygon(&mut self, corners: &[At], fill: &str, edge: Pen) {
        let points: Vec<String> = corners.iter().map(|At(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        let (points, colour, width) = (points.join(" "), edge.colour, number(edge.width));
        self.put(&format!(r#"<polygon points="{points}" fill="{fill}" stroke="{colour}" stroke-width="{width}"/>"#));
    }

    pub(crate) fn text(&mut self, at: At, text: &str, style: Type) {
        self.texts(at, &[(text, style)]);
    }

    /// Draws texts one after the other on one line, anchored like the first one.
    pub(crate) fn texts(&mut self, At(x, y): At, texts: &[(&str, Type)]) {
        let anchor = match texts.first().map(|(_, style)| style.anchor) {
            Some(Anchor::Middle) => r#" text-anchor="middle""#,
            Some(Anchor::End) => r#" text-anchor="end""#,
            Some(Anchor::Start) | None => "",
        };
        let spans = texts.iter().map(|(text, style)| {
            let bold = if style.bold { r#" font-weight="700""# } else { "" };
            let (size, colour, text) = (number(style.size), style.colour, escaped(text));
            format!(r#"<tspan font-size="{size}" fill="{colour}"{bold}>{text}</tspan>"#)
        });
        let spans: String = spans.collect();
        let (x, y) = (number(x), number(y));
        self.put(&format!(r#"<text x="{x}" y="{y}"{anchor} xml:space="preserve">{spans}</text>"#));
    }

    /// Returns the picture as a file.
    pub(crate) fn finish(self) -> String {
        let (width, height) = (number(self.width), number(self.height));
        let body = self.body;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="{FONTS}">
{body}</svg>
"#
        )
    }

    fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// Formats a number with at most one decimal place.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
