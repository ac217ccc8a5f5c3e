//! The style of each subject, the same in all pictures.
//!
//! The colours are those of Okabe and Ito, and one of Tol's, which people with any kind of colour blindness can
//! distinguish; each also has its own mark. The seven schemes are grey, with their number as mark.

use crate::plot::rows::{OURS, base};
use crate::plot::svg::{At, Pen, Sheet, Type};

pub(crate) const INK: &str = "#1f2328";
pub(crate) const FAINT: &str = "#59636e";
pub(crate) const GRID: &str = "#e3e6ea";
pub(crate) const GRID_FAINT: &str = "#f1f3f5";
pub(crate) const AXIS: &str = "#8c959f";
const PAPER: &str = "#ffffff";

/// The shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Disc,
    Ring,
    Square,
    Diamond,
    Up,
    Down,
    Digit(char),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) pen: Pen,
    pub(crate) mark: Mark,
    pub(crate) is_ours: bool,
}

/// The known subjects, by their names without variants.
const KNOWN: [(&str, &str, Mark); 9] = [
    ("delay-queue", "#d55e00", Mark::Square),
    ("notify-later", "#cc79a7", Mark::Up),
    ("tokio-sleep", "#009e73", Mark::Diamond),
    ("hash-wheel-timer", "#e69f00", Mark::Down),
    ("netty", "#56b4e9", Mark::Square),
    ("go", "#24292f", Mark::Ring),
    ("erlang", "#882255", Mark::Diamond),
    ("do-send", "#59636e", Mark::Ring),
    (OURS, "#0072b2", Mark::Disc),
];

const SCHEME: &str = "#9aa3ad";

impl Style {
    /// Returns the style of a subject. `variant` counts the variants of one subject in a picture: the first has a solid
    /// line.
    pub(crate) fn of(subject: &str, variant: usize) -> Self {
        let is_ours = subject.starts_with(OURS);
        let dash = ["", "7 3", "2 3", "7 3 2 3"][variant.min(3)];
        if let Some(rest) = subject.strip_prefix("scheme ") {
            let pen = Pen { dash, ..Pen::new(SCHEME, 1.2) };
            return Self { pen, mark: Mark::Digit(rest.chars().next().unwrap_or('?')), is_ours };
        }
        let known = KNOWN.iter().find(|(name, ..)| *name == base(subject));
        let (colour, mark) = known.map_or(("#000000", Mark::Ring), |(_, colour, mark)| (*colour, *mark));
        let width = if is_ours { 3.6 } else { 1.8 };
        Self { pen: Pen { dash, ..Pen::new(colour, width) }, mark, is_ours }
    }

    /// Returns the pen for a point's whisker.
    pub(crate) fn whisker(&self) -> Pen {
        Pen { width: if self.is_ours { 1.6 } else { 1.1 }, dash: "", ..self.pen }
    }
}

/// Returns the drawing order, later subjects above earlier ones: the schemes, the peers, ours.
pub(crate) fn rank(subject: &str) -> u8 {
    match subject {
        scheme if scheme.starts_with("scheme ") => 0,
        ours if ours.starts_with(OURS) => 2,
        _ => 1,
    }
}

/// Returns a subject's name in labels.
pub(crate) fn label(subject: &str) -> &str {
    subject.strip_prefix("scheme ").unwrap_or(subject)
}

impl Mark {
    pub(crate) fn draw(self, sheet: &mut Sheet, at: At, colour: &'static str, radius: f64) {
        let edge = Pen::new(PAPER, 1.0);
        let corner = |right: f64, down: f64| at.plus(right * radius, down * radius);
        match self {
            Self::Disc => sheet.disc(at, radius, colour, edge),
            Self::Ring => sheet.disc(at, radius * 0.85, PAPER, Pen::new(colour, 1.8)),
            Self::Square => {
                sheet.polygon(
                    &[corner(-0.9, -0.9), corner(0.9, -0.9), corner(0.9, 0.9), corner(-0.9, 0.9)],
                    colour,
                    edge,
                );
            }
            Self::Diamond => {
                sheet.polygon(
                    &[corner(0.0, -1.25), corner(1.25, 0.0), corner(0.0, 1.25), corner(-1.25, 0.0)],
                    colour,
                    edge,
                );
            }
            Self::Up => sheet.polygon(&[corner(0.0, -1.2), corner(1.15, 0.9), corner(-1.15, 0.9)], colour, edge),
            Self::Down => sheet.polygon(&[corner(0.0, 1.2), corner(1.15, -0.9), corner(-1.15, -0.9)], colour, edge),
            Self::Digit(digit) => {
                sheet.disc(at, 6.0, PAPER, Pen::new(colour, 1.0));
                let style = Type::new(9.0, FAINT).anchor(crate::plot::svg::Anchor::Middle);
                sheet.text(at.plus(0.0, 3.2), &digit.to_string(), style);
            }
        }
    }
}

/// Draws a mark with a bit of its line, for labels and legends, 22 pixels long.
pub(crate) fn sample(sheet: &mut Sheet, at: At, style: &Style) {
    sheet.line(at, at.plus(22.0, 0.0), style.pen);
    style.mark.draw(sheet, at.plus(11.0, 0.0), style.pen.colour, 4.2);
}
