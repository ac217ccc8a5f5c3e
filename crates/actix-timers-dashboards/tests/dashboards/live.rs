//! Checks against a Prometheus that scrapes the large examples: every drawn or recorded expression has correct data.
//!
//! `.ci/dashboards` starts all of them, and sets `ACTIX_TIMERS_PROMETHEUS` and `ACTIX_TIMERS_OBSERVE` to the addresses
//! of Prometheus and the example `observe`. Without these variables the tests pass without a check.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use promql_parser::parser::{self, Expr};
use serde_json::Value;

use crate::files;

/// The time limit. Rates need several scrapes, and recorded series one more evaluation; only a very busy machine takes
/// longer.
const PATIENCE: Duration = Duration::from_secs(100);

/// The jobs. Each has data for every expression, except that only `observe` has durable timers on disk, and only `nodes`
/// nodes that share a database; and only `observe` has a purgatory.
const JOBS: [&str; 2] = ["departures", "observe"];
const ONLY: [(&str, &str); 2] = [("actix-timers-durable.json", "observe"), ("actix-timers-nodes.json", "nodes")];
const ONLY_OBSERVE: &str = "actix_timers_purgatory_";

/// Returns an address from the environment, if the program was started.
fn started(variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok();
    if address.is_none() {
        println!("skipped: no {variable}; see .ci/dashboards");
    }
    address
}

/// Waits for the next scrape: Prometheus scrapes once a second.
fn until_the_next_scrape() {
    std::thread::sleep(Duration::from_secs(1));
}

fn get(address: &str, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|wrong| wrong.to_string())?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(|wrong| wrong.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|wrong| wrong.to_string())?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or_else(|| answer.clone())?;
    Ok(body.to_owned())
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Returns labels (including the name) and value of an expression's current series.
fn query(prometheus: &str, expression: &str) -> Result<Vec<(Labels, f64)>, String> {
    let body = get(prometheus, &format!("/api/v1/query?query={}", encoded(expression)))?;
    let body: Value = serde_json::from_str(&body).map_err(|wrong| format!("{wrong}: {body}"))?;
    let series = body["data"]["result"].as_array().ok_or_else(|| body.to_string())?;
    let one = |series: &Value| {
        let labels = series["metric"].as_object()?.iter();
        let labels = labels.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        Some((labels.collect::<Option<_>>()?, series["value"][1].as_str()?.parse().ok()?))
    };
    Ok(series.iter().filter_map(one).collect())
}

type Labels = BTreeMap<String, String>;

/// Collects the compared expressions of an alert, which has no data itself while it is quiet.
fn compared(expression: &Expr, found: &mut Vec<String>) {
    match expression {
        Expr::Binary(both) if both.op.is_set_operator() => {
            compared(&both.lhs, found);
            compared(&both.rhs, found);
        }
        Expr::Binary(both) if both.op.is_comparison_operator() => compared(&both.lhs, found),
        Expr::Paren(inner) => compared(&inner.expr, found),
        other => found.push(other.to_string()),
    }
}

fn parts(name: String, expression: &str) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    compared(&parser::parse(expression).unwrap(), &mut parts);
    parts.into_iter().map(|part| (name.clone(), part)).collect()
}

/// Returns every expression that is sent to a Prometheus, with its origin.
fn expressions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let of_all = |name: &&str| ONLY.iter().all(|(only, _)| only != name);
    let pairs = files::dashboards().filter(of_all).flat_map(|name| JOBS.map(|job| (name, job)));
    for (name, job) in pairs.chain(ONLY) {
        let dashboard = files::dashboard(name);
        for (title, expression) in files::expressions(&dashboard) {
            if job != "observe" && expression.contains(ONLY_OBSERVE) {
                continue;
            }
            all.push((format!("{name}, {title}, {job}"), files::filled_in(&expression, job)));
        }
        for (title, expression) in files::around_the_panels(&dashboard) {
            all.extend(parts(format!("{name}, {title}, {job}"), &files::filled_in(&expression, job)));
        }
    }
    all.extend(files::rules("record"));
    all.extend(files::rules("alert").into_iter().flat_map(|(name, expression)| parts(name, &expression)));
    all
}

#[test]
fn every_expression_has_finite_data() {
    let Some(prometheus) = started("ACTIX_TIMERS_PROMETHEUS") else { return };
    let has_data = |(_, expression): &(String, String)| {
        query(&prometheus, expression).is_ok_and(|series| series.iter().any(|(_, value)| value.is_finite()))
    };
    let mut missing = expressions();
    let (all, began) = (missing.len(), Instant::now());
    loop {
        missing.retain(|expression| !has_data(expression));
        if missing.is_empty() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "without data: {missing:#?}");
        until_the_next_scrape();
    }
    println!("{all} expressions have finite data");
}

/// Parses a line like `name{label="value"} 7` into labels (including the name) and value.
fn parsed(line: &str) -> (Labels, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap();
    let labels = labels.split(',').map(|label| label.split_once('=').unwrap());
    let labels = labels.map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned()));
    (labels.chain([("__name__".to_owned(), name.to_owned())]).collect(), value.parse().unwrap())
}

/// Returns the first line of the snapshot that Prometheus does not confirm, if any.
fn disagreement(prometheus: &str, snapshot: &str) -> Option<String> {
    let scraped = match query(prometheus, r#"{__name__=~"actix_timers_.+",job="observe"}"#) {
        Ok(scraped) => scraped,
        Err(wrong) => return Some(wrong),
    };
    let of_the_scrape = ["job", "instance"];
    let labels = |labels: Labels| labels.into_iter().filter(|(label, _)| !of_the_scrape.contains(&label.as_str()));
    let scraped: BTreeMap<Labels, f64> =
        scraped.into_iter().map(|(series, value)| (labels(series).collect(), value)).collect();
    let differs = |line: &&str| {
        let (series, value) = parsed(line);
        scraped.get(&series) != Some(&value)
    };
    snapshot.lines().find(differs).map(|line| format!("{line}, and not {:?}", scraped.get(&parsed(line).0)))
}

/// The load continues after the snapshot of a scrape, so single disagreements are allowed.
#[test]
fn the_gauges_agree_with_the_snapshot_of_the_wheel() {
    const TIMES: usize = 3;
    let (Some(prometheus), Some(observe)) = (started("ACTIX_TIMERS_PROMETHEUS"), started("ACTIX_TIMERS_OBSERVE"))
    else {
        return;
    };
    let began = Instant::now();
    let (mut agreed, mut looked) = (0, 0);
    while agreed < TIMES {
        until_the_next_scrape();
        looked += 1;
        let snapshot = get(&observe, "/snapshot").unwrap();
        match disagreement(&prometheus, &snapshot) {
            None if snapshot.lines().count() > 20 => agreed += 1,
            wrong => {
                assert!(began.elapsed() < PATIENCE, "agreed {agreed} times of {looked}; last: {wrong:?} {snapshot}")
            }
        }
    }
    println!("the gauges agreed with the snapshot {agreed} times of {looked}");
}
