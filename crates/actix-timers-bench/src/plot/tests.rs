//! Tests the pictures and figures of `docs/guide/benchmarks.md`, made by the bench `plot`: the whole, and then each of
//! its parts.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use super::pictures;
use super::rows::Rows;

/// Returns rows as the bench writes them; their figures only have to be drawn.
fn made_up(what: &[(&str, &str, &str, u64, &str)]) -> Rows {
    let mut text = String::from("[");
    for (number, (workload, layer, subject, size, unit)) in what.iter().enumerate() {
        let median = 10.0 * (number + 1) as f64;
        let (comma, min, max) = (if number == 0 { "" } else { "," }, median * 0.9, median * 1.1);
        let row = format!(
            r#"{comma}{{"workload": "{workload}", "layer": "{layer}", "subject": "{subject}", "size": {size},
            "unit": "{unit}", "median": {median}, "min": {min}, "max": {max}, "best_peer": null, "ratio": null}}"#
        );
        write!(text, "{row}").unwrap();
    }
    text.push(']');
    let mut rows = Rows::default();
    rows.parse(&text).unwrap();
    rows
}

#[test]
fn pictures_show_the_measurements_and_report_the_missing_ones() {
    let rows = made_up(&[
        ("start", "context", "actix-timers", 10_000, "ns/op"),
        ("start", "context", "actix-timers", 10_000_000, "ns/op"),
        ("start", "context", "notify-later", 10_000, "ns/op"),
        ("fire", "whole", "actix-timers context", 1_000, "p50 ms late"),
        ("fire", "whole", "actix-timers context", 1_000, "max ms late"),
        ("fire", "whole", "hash-wheel-timer", 1_000, "messages early"),
    ]);
    let mut missing = Vec::new();
    let pictures = pictures::draw_all(&rows, &mut missing);
    let names: Vec<&str> = pictures.iter().map(|(file, _)| *file).collect();
    assert_eq!(names, ["start.svg", "lateness.svg", "headline.svg"]);
    let picture = |name: &str| &pictures.iter().find(|(file, _)| *file == name).unwrap().1;
    assert!(picture("start.svg").contains(">notify-later<"));
    assert!(picture("start.svg").contains("30 ns at 10 k"), "it was not measured with more");
    assert!(picture("lateness.svg").contains("6 % come early"));
    for (name, picture) in &pictures {
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{name}");
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{name}");
    }
    let missing = missing.join("\n");
    for expected in [
        "start.svg, layer wheel: no rows of actix-timers",
        "start.svg, layer context: no rows of delay-queue, tokio-sleep, hash-wheel-timer, netty, go, erlang",
        "start.svg, layer context: not measured with 10 M: notify-later",
        "lateness.svg: actix-timers context has only 2 of the quantiles",
        "stop.svg: not drawn",
    ] {
        assert!(missing.contains(expected), "{expected}\nis not in\n{missing}");
    }
}

#[test]
fn no_rows_are_no_pictures() {
    assert!(pictures::draw_all(&Rows::default(), &mut Vec::new()).is_empty());
}

mod of_rows {
    use crate::plot::rows::Rows;
    use crate::record::{Record, Spread, base};

    const ROWS: &str = r#"[
        {"workload": "start", "layer": "wheel", "subject": "actix-timers", "size": 10, "unit": "ns/op",
         "samples": [1, 2, 3], "median": 2, "min": 1, "max": 3, "best_peer": "go",
         "ratio": {"median": 0.5, "min": 0.4, "max": 0.6}},
        {"workload": "start", "layer": "wheel", "subject": "go", "size": 10, "unit": "ns/op",
         "samples": [4], "median": 4.0, "min": 4.0, "max": 4.0, "best_peer": null, "ratio": null}]"#;

    #[test]
    fn rows_are_read_and_replaced_by_later_ones() {
        let mut rows = Rows::default();
        rows.parse(ROWS).unwrap();
        rows.parse(&ROWS.replace("4.0", "5.0")).unwrap();
        let found: Vec<&Record> = rows.of("start", "wheel", "ns/op").collect();
        assert_eq!(Rows::subjects(found.iter().copied()), ["actix-timers", "go"]);
        assert_eq!(found[0].ratio, Some(Spread { median: 0.5, min: 0.4, max: 0.6 }));
        assert_eq!((found[1].measured.median, found[1].ratio), (5.0, None));
    }

    #[test]
    fn a_row_that_lacks_something_is_an_error() {
        let wrong = Rows::default().parse(&ROWS.replace("median", "middle")).unwrap_err();
        assert!(wrong.to_string().contains("missing field `median` at line 4"), "{wrong}");
        assert!(Rows::default().parse("{}").is_err());
    }

    #[test]
    fn variants_have_the_same_base() {
        let bases = ["netty", "netty, 512 slots", "delay-queue do_send", "scheme 3 tree", "scheme 5 hashed, sorted"];
        assert_eq!(bases.map(base), ["netty", "netty", "delay-queue", "scheme 3", "scheme 5"]);
    }
}

mod of_numbers {
    use crate::numbers::{count, grouped, short, time};

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(["0", "999", "1 000", "1 234 567"], [0, 999, 1000, 1_234_567].map(grouped).each_ref().map(|s| &**s));
    }

    #[test]
    fn counts_are_short_where_that_says_all() {
        let counts = [0, 1, 2_000, 10_000, 1_500_000, 10_000_000, 1_001].map(count);
        assert_eq!(counts.each_ref().map(|s| &**s), ["0", "1", "2 k", "10 k", "1.5 M", "10 M", "1 001"]);
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let times = [0.5, 4.46, 131.2, 1_000.0, 9_960.0, 28_600.0, 5_680_000.0, 1e9].map(time);
        assert_eq!(
            times.each_ref().map(|s| &**s),
            ["0.5 ns", "4.5 ns", "131 ns", "1 µs", "10 µs", "29 µs", "5.7 ms", "1 s"]
        );
    }

    #[test]
    fn figures_have_the_digits_that_count() {
        let figures = [0.0, 0.000_12, 0.012_34, 0.619, 7.083, 46.91, 131.4, 10_583.1].map(short);
        assert_eq!(figures.each_ref().map(|s| &**s), ["0", "1.2e-4", "0.0123", "0.62", "7.08", "46.9", "131", "10583"]);
    }
}

mod of_scale {
    use crate::plot::svg::Scale;

    #[test]
    fn equal_ratios_are_equal_distances() {
        let scale = Scale::over([10.0, 1_000.0].into_iter(), 0.0, 200.0);
        let [low, middle, high, far] = [10.0, 100.0, 1_000.0, 1e9].map(|value| scale.place(value));
        assert!(0.0 < low && (middle - 100.0).abs() < 1e-9 && (high + low - 200.0).abs() < 1e-9);
        assert!((far - 200.0).abs() < 1e-9);
    }

    fn ticks(values: [f64; 2]) -> Vec<f64> {
        Scale::over(values.into_iter(), 0.0, 1.0).ticks().into_iter().map(f64::round).collect()
    }

    #[test]
    fn ticks_are_powers_of_ten_and_with_few_of_them_the_double_and_fivefold() {
        assert_eq!(ticks([13.0, 640.0]), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(ticks([7.0, 90_000.0]), [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
    }

    #[test]
    fn one_value_is_in_the_middle_and_none_is_no_harm() {
        assert!((Scale::over([7.0, 0.0].into_iter(), 0.0, 10.0).place(7.0) - 5.0).abs() < 1e-9);
        assert!(!Scale::over([].into_iter(), 0.0, 10.0).ticks().is_empty());
    }
}

mod of_labels {
    use crate::plot::panel::spread;

    #[test]
    fn labels_with_room_stay_where_they_are() {
        assert_eq!(spread(&[50.0, 10.0, 30.0], 15.0, 0.0, 100.0), [50.0, 10.0, 30.0]);
    }

    #[test]
    fn labels_in_one_place_move_apart_on_both_sides() {
        assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
    }

    #[test]
    fn labels_stay_within_the_picture() {
        assert_eq!(spread(&[99.0, 98.0], 10.0, 0.0, 100.0), [100.0, 90.0]);
        assert_eq!(spread(&[0.0, 1.0], 10.0, 0.0, 100.0), [0.0, 10.0]);
        assert_eq!(spread(&[], 10.0, 0.0, 100.0), [0.0; 0]);
    }

    /// Labels keep their order and the gap, at any wanted positions.
    #[test]
    fn labels_never_cover_each_other() {
        let mut state = 7_u64;
        for labels in 0..12 {
            for _ in 0..200 {
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 40) as f64 / (1 << 24) as f64 * 200.0
                };
                let wanted: Vec<f64> = (0..labels).map(|_| next()).collect();
                let mut pairs: Vec<(f64, f64)> =
                    wanted.iter().copied().zip(spread(&wanted, 15.0, 0.0, 200.0)).collect();
                pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
                assert!(pairs.windows(2).all(|pair| pair[1].1 - pair[0].1 > 14.999), "{pairs:?}");
                assert!(pairs.iter().all(|(_, place)| (-0.001..200.001).contains(place)), "{pairs:?}");
            }
        }
    }
}

mod of_svg {
    use crate::plot::svg::Sheet;

    #[test]
    fn special_characters_of_svg_are_escaped() {
        let mut sheet = Sheet::new(10.0, 10.0, "a < b", "");
        sheet.text("name", 1.0, 2.5, "Q&A");
        let svg = sheet.finish();
        assert!(svg.contains("<title>a &lt; b</title>"));
        assert!(svg.contains(r#"<text class="name" x="1.0" y="2.5">Q&amp;A</text>"#));
    }
}

mod of_figures {
    use crate::plot::csv::files;
    use crate::plot::rows::Rows;

    const PEERS: &str = "cargo bench --bench peers -- --workloads start,stop";
    const DURABLE: &str = "cargo bench --features durable --bench durable";

    fn rows(command: &str) -> Rows {
        let mut rows = Rows::default();
        let text = r#"[
            {"workload": "start", "layer": "wheel", "subject": "actix-timers", "size": 10000, "unit": "ns/op",
             "median": 2000, "min": 1, "max": 3000, "best_peer": "go, own", "command": "COMMAND",
             "ratio": {"median": 0.5, "min": 0.4, "max": 0.6}},
            {"workload": "start", "layer": "wheel", "subject": "go, own", "size": 10000, "unit": "ns/op",
             "median": 4000, "min": 4000, "max": 4000, "best_peer": "go, own", "command": "COMMAND",
             "ratio": {"median": 0.5, "min": 0.4, "max": 0.6}}]"#;
        rows.parse(&text.replace("COMMAND", command)).unwrap();
        rows
    }

    #[test]
    fn a_file_has_a_line_for_each_row_with_its_command() {
        let expected = "\
workload,layer,pending,unit,subject,median,min,max,ratio,ratio_min,ratio_max,ratio_of,command
start,wheel,10000,ns/op,actix-timers,2000,1.00,3000,0.50,0.40,0.60,\"go, own\",\"COMMAND\"
start,wheel,10000,ns/op,\"go, own\",4000,4000,4000,0.50,0.40,0.60,,\"COMMAND\"
"
        .replace("COMMAND", PEERS);
        let written = rows(PEERS);
        let written = files(&written);
        assert_eq!(written.keys().copied().collect::<Vec<_>>(), ["start"]);
        assert_eq!(written["start"], expected);
    }

    #[test]
    fn other_benches_have_a_file_of_their_own() {
        assert_eq!(files(&rows(DURABLE)).keys().copied().collect::<Vec<_>>(), ["durable"]);
        let sizes = rows(PEERS);
        let mut sizes: Vec<_> = sizes.iter().cloned().collect();
        sizes[0].layer = "wheel sizes".to_owned();
        sizes[1].workload = "burst to 1000".to_owned();
        assert_eq!(sizes.iter().map(|row| row.family()).collect::<Vec<_>>(), ["wheel-sizes", "burst"]);
    }
}
