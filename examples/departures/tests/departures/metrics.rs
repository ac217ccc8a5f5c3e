//! The metrics of the example, served while it runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
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
fn scrape(address: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("the endpoint listens");
    connection.set_read_timeout(Some(TOO_LONG)).expect("a timeout can be set");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("the endpoint reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("the endpoint answers");
    answer
}

/// Returns the value of a metric of one series.
fn value(page: &str, name: &str) -> Option<f64> {
    let start = format!("actix_timers_{name}{{timer=\"departures\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
}

#[test]
fn metrics_are_served_while_it_runs() {
    let folder = Folder::new();
    // After the first three hours, a third of a second of real time, no message is due for the next ten minutes.
    let later = "2014-05-01T00:00:00Z,2014-05-01T00:00:00Z,US,1431,EWR,CLT\n";
    let input = folder.file("metrics", format!("{FIVE}{later}"));
    let mut running = start(&["--input", &input, "--speed", "36000", "--metrics", "127.0.0.1:0"]);
    let stderr = BufReader::new(running.0.stderr.take().expect("stderr is piped"));
    let told = stderr.lines().map_while(Result::ok).find(|line| line.contains("metrics at http://"));
    let told = told.expect("the address is told");
    let address = told.trim_start_matches("departures: metrics at http://").trim_end_matches("/metrics");
    let began = Instant::now();
    let page = loop {
        let page = scrape(address);
        if value(&page, "delivered_total") == Some(7.0) {
            break page;
        }
        assert!(began.elapsed() < TOO_LONG, "not all are delivered:\n{page}");
    };
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert!(page.contains("\r\ncontent-type: text/plain; version=0.0.4\r\n"), "{page}");
    for (name, expected) in [
        ("scheduled_total", 9.0),
        ("rescheduled_total", 2.0),
        ("cancelled_total", 1.0),
        ("pending", 1.0),
        ("delay_queue_length", 1.0),
    ] {
        assert_eq!(value(&page, name), Some(expected), "{name}");
    }
    for histogram in ["delivery_lag_seconds", "schedule_delay_seconds", "advance_duration_seconds"] {
        assert!(page.contains(&format!("actix_timers_{histogram}_bucket{{")), "{histogram} has no buckets");
    }
    assert!(running.0.try_wait().expect("it can be asked").is_none(), "it still runs");
}

#[test]
fn virtual_time_is_not_disturbed_by_serving_metrics() {
    let folder = Folder::new();
    let finished = run(&["--input", &folder.file("served", FIVE), "--metrics", "127.0.0.1:0"]);
    assert_totals_of_five(&finished);
    assert_eq!(row(&finished, "total"), "total 5 4 1 2 0ms");
}
