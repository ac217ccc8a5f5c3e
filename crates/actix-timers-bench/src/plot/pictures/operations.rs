//! Time per operation over the number of timers, on one or two layers.

use super::{IN_A_CONTEXT, ON_THE_WHEEL, lines};
use crate::plot::missing::Missing;
use crate::plot::panel::{Panel, height, sizes, times, width_of_labels};
use crate::plot::rows::Rows;
use crate::plot::style::{FAINT, INK};
use crate::plot::svg::{At, Frame, Sheet, Type};

/// A picture of one operation.
pub(crate) struct Operation {
    pub(crate) file: &'static str,
    workload: &'static str,
    title: &'static str,
    layers: &'static [Layer],
}

struct Layer {
    name: &'static str,
    title: &'static str,
    note: &'static str,
    expected: &'static [&'static str],
}

const WHEEL: Layer = Layer {
    name: "wheel",
    title: "The bare structure",
    note: "payload of 16 bytes; 1 to 7 are the classic schemes",
    expected: &ON_THE_WHEEL,
};

const CONTEXT: Layer = Layer {
    name: "context",
    title: "Through the context of an actor",
    note: "message of 32 bytes; netty, go and erlang: CPU time of all their threads",
    expected: &IN_A_CONTEXT,
};

pub(crate) const ALL: [Operation; 4] = [
    Operation { file: "start.svg", workload: "start", title: "start: schedule a timer", layers: &[WHEEL, CONTEXT] },
    Operation {
        file: "stop.svg",
        workload: "stop",
        title: "stop: cancel a timer, in random order",
        layers: &[WHEEL, CONTEXT],
    },
    Operation {
        file: "churn.svg",
        workload: "churn",
        title: "churn: schedule a timer and cancel a random one",
        layers: &[WHEEL, CONTEXT],
    },
    Operation {
        file: "fire-wheel.svg",
        workload: "expire",
        title: "expire: a timer comes due, cascades included",
        layers: &[WHEEL],
    },
];

const SUBTITLE: &str = "time per operation over timers pending; medians, whiskers from min to max";
const LEFT: f64 = 66.0;
const WIDTH: f64 = 440.0;
/// The height above the first frame, for title and subtitle.
const HEAD: f64 = 116.0;
/// The height below a frame, for its scale and the title of the next.
const BELOW: f64 = 106.0;
const FOOT: f64 = 52.0;

impl Operation {
    pub(crate) fn draw(&self, rows: &Rows, missing: &mut Missing) -> Option<String> {
        let mut panels = Vec::new();
        for layer in self.layers {
            let lines = lines(rows, self.workload, layer.name);
            missing.compare(&format!("{}, layer {}", self.file, layer.name), &lines, layer.expected);
            if !lines.is_empty() {
                panels.push((layer, lines));
            }
        }
        let labels = panels.iter().map(|(_, lines)| width_of_labels(lines)).reduce(f64::max)?;
        let heights: Vec<f64> = panels.iter().map(|(_, lines)| height(lines)).collect();
        let total = HEAD + heights.iter().sum::<f64>() + BELOW * (panels.len() - 1) as f64 + FOOT;
        let mut sheet = Sheet::new(LEFT + WIDTH + labels + 10.0, total, self.title, SUBTITLE);
        sheet.text(At(16.0, 30.0), self.title, Type::new(17.0, INK).bold(true));
        sheet.text(At(16.0, 50.0), SUBTITLE, Type::new(12.0, FAINT));
        let mut top = HEAD;
        for ((layer, lines), height) in panels.iter().zip(heights) {
            let frame = Frame { left: LEFT, top, right: LEFT + WIDTH, bottom: top + height };
            let panel = Panel {
                title: layer.title,
                note: layer.note,
                lines,
                sizes: &sizes(lines),
                frame,
                times: times(lines, frame),
                has_times: true,
                has_labels: true,
            };
            panel.draw(&mut sheet);
            top += height + BELOW;
        }
        Some(sheet.finish())
    }
}
