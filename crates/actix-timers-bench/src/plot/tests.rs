//! Tests of the pictures and figures of `docs/guide/benchmarks.md`.
#![allow(clippy::unwrap_used)]

use super::panel::spread;
use super::svg::Scale;
use super::{csv, pictures};
use crate::numbers::{count, grouped, short, time};
use crate::random::Random;
use crate::rows::{Row, Rows, Spread, base};

fn rows(rows: &[(&str, &str, &str, u64, &str, f64)]) -> Rows {
    let mut all = Rows::default();
    all.extend(rows.iter().map(|&(workload, layer, subject, size, unit, median)| {
        Row::new(workload, layer, subject, size, unit, vec![median * 0.9, median, median * 1.1])
    }));
    all
}

#[test]
fn pictures_show_the_measurements() {
    let pictures = pictures::draw_all(&rows(&[
        ("start", "context", "actix-timers", 10_000, "ns/op", 10.0),
        ("start", "context", "actix-timers", 10_000_000, "ns/op", 20.0),
        ("start", "context", "a & b", 10_000, "ns/op", 30.0),
        ("fire", "whole", "actix-timers context", 1_000, "p50 ms late", 40.0),
        ("fire", "whole", "actix-timers context", 1_000, "max ms late", 50.0),
        ("fire", "whole", "hash-wheel-timer", 1_000, "messages early", 60.0),
    ]));
    let names: Vec<&str> = pictures.iter().map(|(file, _)| *file).collect();
    assert_eq!(names, ["start.svg", "lateness.svg", "headline.svg"]);
    for (place, shown) in [(0, ">a &amp; b<"), (0, "30 ns at 10 k"), (1, "6 % come early"), (2, ">20 ns<")] {
        assert!(pictures[place].1.contains(shown), "{shown}");
    }
    for (name, picture) in &pictures {
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{name}");
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{name}");
    }
    assert!(pictures::draw_all(&Rows::default()).is_empty());
}

#[test]
fn a_file_has_a_line_for_each_row_with_its_command() {
    const START: &str = "cargo bench --bench peers -- --workloads start,stop";
    const DURABLE: &str = "cargo bench --features durable --bench durable";
    let row = |layer: &str, subject: &str, samples: Vec<f64>, command: &str| {
        let mut row = Row::new("start to 1", layer, subject, 10_000, "ns/op", samples);
        row.ratio = Some(Spread { median: 0.5, min: 0.4, max: 0.6 });
        (row.best_peer, row.command) = (Some("go, own".to_owned()), command.to_owned());
        row
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    let mut written = Rows::default();
    let ours = row("wheel", "actix-timers", vec![2000.0, 1.0, 3000.0], START);
    let rows = [
        row("wheel", "go, own", vec![1.0], START),
        ours,
        row("wheel sizes", "go", vec![1.0], START),
        row("wheel", "go", vec![1.0], DURABLE),
    ];
    std::fs::write(&file, serde_json::to_string(&rows).unwrap()).unwrap();
    written.read(&file).unwrap();
    // Later rows replace earlier ones.
    std::fs::write(&file, serde_json::to_string(&[row("wheel", "go, own", vec![4000.0], START)]).unwrap()).unwrap();
    written.read(&file).unwrap();
    std::fs::write(&file, r#"[{"workload": "start"}]"#).unwrap();
    assert!(written.read(&file).unwrap_err().contains("rows.json: missing field `layer`"));

    let files = csv::files(&written);
    assert_eq!(files.keys().copied().collect::<Vec<_>>(), ["durable", "start", "wheel-sizes"]);
    let expected = "\
workload,layer,pending,unit,subject,median,min,max,ratio,ratio_min,ratio_max,ratio_of,command
start to 1,wheel,10000,ns/op,\"go, own\",4000,4000,4000,0.50,0.40,0.60,,\"COMMAND\"
start to 1,wheel,10000,ns/op,actix-timers,2000,1.00,3000,0.50,0.40,0.60,\"go, own\",\"COMMAND\"
";
    assert_eq!(files["start"], expected.replace("COMMAND", START));
    let bases = ["netty", "netty, 512 slots", "delay-queue do_send", "scheme 3 tree", "scheme 5 hashed, sorted"];
    assert_eq!(bases.map(base), ["netty", "netty", "delay-queue", "scheme 3", "scheme 5"]);
}

#[test]
fn numbers_are_short_and_have_the_unit_that_suits_them() {
    let grouped = [0, 999, 1000, 1_234_567].map(grouped).join("|");
    assert_eq!(grouped, "0|999|1 000|1 234 567");
    let counts = [0, 1, 2_000, 10_000, 1_500_000, 10_000_000, 1_001].map(count).join("|");
    assert_eq!(counts, "0|1|2 k|10 k|1.5 M|10 M|1 001");
    let times = [0.5, 4.46, 131.2, 1_000.0, 9_960.0, 28_600.0, 5_680_000.0, 1e9].map(time).join("|");
    assert_eq!(times, "0.5 ns|4.5 ns|131 ns|1 µs|10 µs|29 µs|5.7 ms|1 s");
    let figures = [0.0, 0.000_12, 0.012_34, 0.619, 7.083, 46.91, 131.4, 10_583.1].map(short).join("|");
    assert_eq!(figures, "0|1.2e-4|0.0123|0.62|7.08|46.9|131|10583");
}

#[test]
fn equal_ratios_are_equal_distances_with_a_tick_at_least_at_each_power_of_ten() {
    let scale = Scale::over([10.0, 1_000.0].into_iter(), 0.0, 200.0);
    let [low, middle, high, far] = [10.0, 100.0, 1_000.0, 1e9].map(|value| scale.place(value));
    assert!(0.0 < low && (middle - 100.0).abs() < 1e-9 && (high + low - 200.0).abs() < 1e-9);
    assert!((far - 200.0).abs() < 1e-9);
    let ticks = |values: [f64; 2]| -> Vec<f64> {
        Scale::over(values.into_iter(), 0.0, 1.0).ticks().into_iter().map(f64::round).collect()
    };
    assert_eq!(ticks([13.0, 640.0]), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
    assert_eq!(ticks([7.0, 90_000.0]), [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
    assert!((Scale::over([7.0, 0.0].into_iter(), 0.0, 10.0).place(7.0) - 5.0).abs() < 1e-9);
    assert!(!Scale::over([].into_iter(), 0.0, 10.0).ticks().is_empty());
}

#[test]
fn labels_move_as_little_as_they_must() {
    assert_eq!(spread(&[50.0, 10.0, 30.0], 15.0, 0.0, 100.0), [50.0, 10.0, 30.0]);
    assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
    assert_eq!(spread(&[99.0, 98.0], 10.0, 0.0, 100.0), [100.0, 90.0]);
    assert_eq!(spread(&[0.0, 1.0], 10.0, 0.0, 100.0), [0.0, 10.0]);
    let mut random = Random::new(7);
    for labels in 0..2400 {
        let wanted: Vec<f64> = (0..labels % 12).map(|_| random.below(200) as f64).collect();
        let mut pairs: Vec<_> = wanted.iter().copied().zip(spread(&wanted, 15.0, 0.0, 200.0)).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(pairs.windows(2).all(|pair| pair[1].1 - pair[0].1 > 14.999), "{pairs:?}");
        assert!(pairs.iter().all(|(_, place)| (-0.001..200.001).contains(place)), "{pairs:?}");
    }
}
