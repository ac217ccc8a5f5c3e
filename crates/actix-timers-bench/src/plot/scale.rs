//! Maps values to positions in a picture, on logarithmic scales.

/// A scale from values `from` to `to` onto positions `start` to `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// Returns the scale from the least to the greatest of `values`. Values of 0 or less have no position.
    pub(crate) fn over(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let positive = values.into_iter().filter(|value| *value > 0.0);
        let (from, to) = positive.fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        match (from < to, to > 0.0) {
            (true, _) => Self { from, to, start, end },
            // A single value is in the middle.
            (false, true) => Self { from: from / 2.0, to: to * 2.0, start, end },
            (false, false) => Self { from: 1.0, to: 10.0, start, end },
        }
    }

    /// Extends both ends to the next 1, 2 or 5 times a power of ten.
    pub(crate) fn rounded(self) -> Self {
        Self { from: step_below(self.from), to: step_above(self.to), ..self }
    }

    /// Returns the position of `value`. Values beyond the scale are at its ends.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        self.start + (value / self.from).ln() / (self.to / self.from).ln() * (self.end - self.start)
    }

    /// Returns the number of decades from its beginning to its end.
    pub(crate) fn decades(&self) -> f64 {
        (self.to / self.from).log10()
    }

    /// Returns the values marked with a number, and the values with only a line.
    pub(crate) fn ticks(&self) -> (Vec<f64>, Vec<f64>) {
        let decades = self.steps(&[1.0]);
        match decades.len() {
            0..=2 => (self.steps(&STEPS), Vec::new()),
            3..=5 => (decades, self.steps(&STEPS[1..])),
            _ => (decades, Vec::new()),
        }
    }

    fn steps(&self, steps: &[f64]) -> Vec<f64> {
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        all.filter(|value| (self.from * 0.999..=self.to * 1.001).contains(value)).collect()
    }
}

const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

fn step_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    STEPS.iter().rev().map(|step| step * decade).find(|step| *step <= value).unwrap_or(decade)
}

fn step_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    STEPS.iter().map(|step| step * decade).find(|step| *step >= value).unwrap_or(10.0 * decade)
}
