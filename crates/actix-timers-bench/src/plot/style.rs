//! The look of each subject, the same in all pictures.
//!
//! The colours are those of Okabe and Ito, and one of Tol's, which people with any kind of colour blindness can
//! distinguish; each also has its own mark. The seven schemes are grey, with their number as mark.

use std::fmt::{self, Display, Formatter};

use crate::plot::svg::Sheet;
use crate::rows::{OURS, base};

const BIG_DISC: &str = "M-5.4 0a5.4 5.4 0 1 0 10.8 0a5.4 5.4 0 1 0-10.8 0z";
pub(crate) const DISC: &str = "M-4.2 0a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0-8.4 0z";
pub(crate) const SQUARE: &str = "M-3.8-3.8h7.6v7.6h-7.6z";
pub(crate) const DIAMOND: &str = "M0-5.2l5.2 5.2l-5.2 5.2l-5.2-5.2z";
pub(crate) const UP: &str = "M0-5l4.8 8.8h-9.6z";
const DOWN: &str = "M0 5l4.8-8.8h-9.6z";

/// The known subjects, by their names without variants.
const KNOWN: [(&str, Mark); 9] = [
    (OURS, Mark::new("#0072b2", BIG_DISC)),
    ("delay-queue", Mark::new("#d55e00", SQUARE)),
    ("notify-later", Mark::new("#cc79a7", UP)),
    ("tokio-sleep", Mark::new("#009e73", DIAMOND)),
    ("hash-wheel-timer", Mark::new("#e69f00", DOWN)),
    ("netty", Mark::new("#56b4e9", SQUARE)),
    ("go", Mark::ring("#24292f")),
    ("erlang", Mark::new("#882255", DIAMOND)),
    ("do-send", Mark::ring("#59636e")),
];

/// The mark of a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) colour: &'static str,
    shape: &'static str,
    is_filled: bool,
}

impl Mark {
    pub(crate) const fn new(colour: &'static str, shape: &'static str) -> Self {
        Self { colour, shape, is_filled: true }
    }

    const fn ring(colour: &'static str) -> Self {
        Self { colour, shape: DISC, is_filled: false }
    }

    pub(crate) fn draw(&self, sheet: &mut Sheet, x: f64, y: f64) {
        let Self { colour, shape, is_filled } = *self;
        let (fill, edge) = if is_filled { (colour, "#fff") } else { ("#fff", colour) };
        sheet.put(format_args!(
            r#"<path d="{shape}" transform="translate({x:.1} {y:.1})" fill="{fill}" stroke="{edge}" stroke-width="1.2"/>"#
        ));
    }
}

/// The look of a subject; displayed, the attributes of its line.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    pub(crate) mark: Mark,
    /// The number of a scheme.
    number: Option<String>,
    width: f64,
    dash: &'static str,
}

impl Style {
    /// Returns the style of a subject. `variant` counts the variants of one subject in a picture: the first has a solid
    /// line.
    pub(crate) fn of(subject: &str, variant: usize) -> Self {
        let dash = ["none", "7 3", "2 3", "7 3 2 3"][variant.min(3)];
        if let Some(rest) = subject.strip_prefix("scheme ") {
            let mark = Mark { colour: "#9aa3ad", shape: BIG_DISC, is_filled: false };
            return Self { mark, number: Some(rest.chars().take(1).collect()), width: 1.2, dash };
        }
        let known = KNOWN.iter().find(|(name, _)| *name == base(subject));
        let width = if subject.starts_with(OURS) { 3.6 } else { 1.8 };
        Self { mark: known.map_or(Mark::ring("#000"), |(_, mark)| *mark), number: None, width, dash }
    }

    pub(crate) fn draw_mark(&self, sheet: &mut Sheet, x: f64, y: f64) {
        self.mark.draw(sheet, x, y);
        if let Some(number) = &self.number {
            sheet.text("middle mark", x, y + 3.2, number);
        }
    }

    /// Draws a mark with a bit of its line, 22 pixels long, for labels and legends.
    pub(crate) fn draw_sample(&self, sheet: &mut Sheet, x: f64, y: f64) {
        sheet.line(&[(x, y), (x + 22.0, y)], self);
        self.draw_mark(sheet, x + 11.0, y);
    }
}

impl Display for Style {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { mark: Mark { colour, .. }, width, dash, .. } = self;
        write!(formatter, r#"stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}""#)
    }
}

/// Returns a subject's name in labels, and its class.
pub(crate) fn label(subject: &str) -> (&str, &'static str) {
    let class = if subject.starts_with(OURS) { "name ours" } else { "name" };
    (subject.strip_prefix("scheme ").unwrap_or(subject), class)
}
