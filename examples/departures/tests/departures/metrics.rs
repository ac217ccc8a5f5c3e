//! The metrics of the example, served while it runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::Instant;

use crate::output::{assert_misuse, assert_totals_of_five};
use crate::program::{FIVE, Folder, TOO_LONG, row, run, start};

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    assert_misuse(&["--metrics", &address], &[&format!("--metrics '{address}': ")]);
}

/// Scrapes once, as Prometheus does.
fn scrape(address: SocketAddr) -> (String, String) {
    let mut connection = TcpStream::connect(address).expect("the endpoint listens");
    connection.set_read_timeout(Some(TOO_LONG)).expect("a timeout can be set");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("the endpoint reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("the endpoint answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

/// Returns the samples of a metric, as labels and value.
fn samples<'a>(body: &'a str, name: &str) -> Vec<(&'a str, f64)> {
    let start = format!("actix_timers_{name}{{");
    let sample = |line: &'a str| line.strip_prefix(start.as_str())?.split_once("} ");
    body.lines().filter_map(sample).map(|(labels, value)| (labels, value.parse().expect("a number"))).collect()
}

fn sum(body: &str, name: &str) -> f64 {
    let samples = samples(body, name);
    assert!(!samples.is_empty(), "{name} is missing in\n{body}");
    samples.iter().map(|(_, value)| value).sum()
}

fn counters_add_up(body: &str) -> bool {
    let ends = ["delivered_total", "cancelled_total", "dead_letters_total", "returned_total", "pending"];
    sum(body, "scheduled_total") == ends.iter().map(|end| sum(body, end)).sum::<f64>()
}

#[test]
fn metrics_are_served_while_it_runs() {
    let folder = Folder::new();
    // After the first three hours, a third of a second of real time, no message is due for the next ten minutes.
    let later = "2014-05-01T00:00:00Z,2014-05-01T00:00:00Z,US,1431,EWR,CLT\n";
    let input = folder.file("metrics", format!("{FIVE}{later}"));
    let mut running = start(&["--input", &input, "--speed", "36000", "--metrics", "127.0.0.1:0"]);
    let stderr = BufReader::new(running.0.stderr.take().expect("stderr is piped"));
    let (found, address) = channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if let Some(url) = line.strip_prefix("departures: metrics at http://") {
                let _ = found.send(url.trim_end_matches("/metrics").to_owned());
            }
        }
    });
    let address = address.recv_timeout(TOO_LONG).expect("the address is told").parse().expect("host and port");

    let began = Instant::now();
    let (head, body) = loop {
        let (head, body) = scrape(address);
        let all_scheduled = body.contains("actix_timers_delivered_total{") && sum(&body, "delivered_total") == 7.0;
        if all_scheduled && counters_add_up(&body) {
            break (head, body);
        }
        assert!(began.elapsed() < TOO_LONG, "the counters never add up:\n{body}");
    };
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.lines().any(|line| line == "content-type: text/plain; version=0.0.4"), "{head}");

    for (name, value) in [
        ("scheduled_total", 9.0),
        ("rescheduled_total", 2.0),
        ("cancelled_total", 1.0),
        ("dead_letters_total", 0.0),
        ("returned_total", 0.0),
        ("pending", 1.0),
        ("level_entries", 1.0),
        ("level_buckets_occupied", 1.0),
        ("delay_queue_length", 1.0),
    ] {
        assert_eq!(sum(&body, name), value, "{name}");
    }
    let levels = samples(&body, "level_buckets");
    assert_eq!(sum(&body, "wheel_depth"), levels.len() as f64);
    assert!(levels.len() >= 4, "ten months of milliseconds");
    assert!(levels.iter().all(|(_, buckets)| *buckets == sum(&body, "wheel_size")), "{levels:?}");
    for histogram in ["delivery_lag_seconds", "schedule_delay_seconds", "advance_duration_seconds"] {
        assert!(!samples(&body, &format!("{histogram}_bucket")).is_empty(), "{histogram} has no buckets");
    }
    assert!(running.0.try_wait().expect("it can be asked").is_none(), "it still runs");
}

#[test]
fn virtual_time_is_not_disturbed_by_serving_metrics() {
    let folder = Folder::new();
    let finished = run(&["--input", &folder.file("served", FIVE), "--metrics", "127.0.0.1:0"]);
    assert_totals_of_five(&finished);
    assert_eq!(row(&finished, "total"), "total 5 4 1 2 0ms");
    assert!(finished.stderr.contains("departures: metrics at http://127.0.0.1:"), "{}", finished.stderr);
}
