//! Formats numbers for people.

/// Formats 1234567 as `1 234 567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of timers: `10 k`, `1 M`.
pub fn count(number: u64) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(100_000) => format!("{} M", plain(number as f64 / 1e6)),
        1_000.. if number.is_multiple_of(100) => format!("{} k", plain(number as f64 / 1e3)),
        _ => grouped(number),
    }
}

/// Formats three significant digits, and all digits before the point.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.0..0.001 => format!("{value:.1e}"),
        0.001..0.1 => format!("{value:.4}"),
        0.1..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats nanoseconds in a suitable unit: `131 ns`, `5.7 ms`.
pub fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        1e9.. => (nanoseconds / 1e9, "s"),
        1e6.. => (nanoseconds / 1e6, "ms"),
        1e3.. => (nanoseconds / 1e3, "µs"),
        _ => (nanoseconds, "ns"),
    };
    format!("{} {unit}", plain(value))
}

/// Formats two digits or all before the point, without trailing zeros.
fn plain(value: f64) -> String {
    let text = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}
