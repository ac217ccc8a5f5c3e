//! Against a Prometheus that scrapes a running program: everything that is drawn and recorded has data.
//!
//! `.ci/dashboards` starts both, and tells the address in `ACTIX_TIMERS_PROMETHEUS`. Without it nothing is checked here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use promql_parser::parser::{self, Expr};
use serde_json::Value;

use crate::files;

/// Rates need several scrapes, and recorded series an evaluation more. Longer only on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(100);

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The finite values that an expression has now.
fn finite_values(prometheus: &str, expression: &str) -> Result<usize, String> {
    let mut stream = TcpStream::connect(prometheus).map_err(|wrong| wrong.to_string())?;
    let path = format!("/api/v1/query?query={}", encoded(expression));
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {prometheus}\r\n\r\n").map_err(|wrong| wrong.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|wrong| wrong.to_string())?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).map_err(|wrong| format!("{wrong}: {answer}"))?;
    let series = body["data"]["result"].as_array().ok_or_else(|| body.to_string())?;
    let value = |series: &Value| series["value"][1].as_str()?.parse::<f64>().ok();
    Ok(series.iter().filter_map(value).filter(|value| value.is_finite()).count())
}

/// What an alert compares: quiet as it should be, it has no data itself.
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

#[test]
fn every_expression_has_finite_data() {
    let Ok(prometheus) = std::env::var("ACTIX_TIMERS_PROMETHEUS") else {
        println!("skipped: no ACTIX_TIMERS_PROMETHEUS; see .ci/dashboards");
        return;
    };
    let mut missing: Vec<(String, String)> = Vec::new();
    for name in files::DASHBOARDS {
        let all = files::expressions(&files::dashboard(name));
        missing.extend(all.into_iter().map(|(title, expression)| (title, files::filled_in(&expression))));
    }
    missing.extend(files::rules("record"));
    for (alert, expression) in files::rules("alert") {
        let mut parts = Vec::new();
        compared(&parser::parse(&expression).unwrap(), &mut parts);
        missing.extend(parts.into_iter().map(|part| (alert.clone(), part)));
    }
    let (all, began) = (missing.len(), Instant::now());
    while !missing.is_empty() {
        missing.retain(|(_, expression)| !matches!(finite_values(&prometheus, expression), Ok(1..)));
        assert!(missing.is_empty() || began.elapsed() < PATIENCE, "without data: {missing:#?}");
        // The next scrape is a second away.
        std::thread::sleep(Duration::from_secs(u64::from(!missing.is_empty())));
    }
    println!("{all} expressions have finite data");
}
