//! Every metric and every label in a dashboard or rule exists.

use std::collections::HashSet;

use actix_timers::metrics::{CATALOGUE, Kind, Metric};
use promql_parser::label::Matchers;
use promql_parser::parser::{self, Expr, VectorSelector};

use crate::files;

/// Metrics of Prometheus itself.
const NOT_OURS: [&str; 1] = ["up"];
const OF_THE_SCRAPE: [&str; 2] = ["job", "instance"];
/// Metrics counted mostly before the first scrape of a process, where a rate misses them; panels show their value.
const SINCE_THE_START: [&str; 1] = ["actix_timers_recovered_total"];

/// Returns all metrics: of timer actors, of purgatories, of durable timers, and of nodes on PostgreSQL.
fn catalogue() -> impl Iterator<Item = &'static Metric> {
    let durable = actix_timers_durable::metrics::CATALOGUE.iter().chain(actix_timers_postgres::metrics::CATALOGUE);
    CATALOGUE.iter().chain(actix_timers_purgatory::metrics::CATALOGUE).chain(durable)
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let mut names = HashSet::new();
    for metric in catalogue() {
        assert!(names.insert(metric.name), "{} is there once", metric.name);
        assert!(metric.name.starts_with("actix_timers_"), "{}", metric.name);
        assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
        assert_eq!((metric.unit.as_str() == "seconds"), metric.name.ends_with("_seconds"), "{}", metric.name);
        assert!(!metric.help.is_empty(), "{}", metric.name);
    }
}

/// Collects all selectors of an expression, each with whether it is inside a rate.
fn selectors<'a>(expression: &'a Expr, as_rate: bool, found: &mut Vec<(&'a VectorSelector, bool)>) {
    let mut all = |parts: &[&'a Expr], as_rate| parts.iter().for_each(|part| selectors(part, as_rate, found));
    match expression {
        Expr::Aggregate(part) => all(&[&*part.expr], as_rate),
        Expr::Unary(part) => all(&[&*part.expr], as_rate),
        Expr::Paren(part) => all(&[&*part.expr], as_rate),
        Expr::Subquery(part) => all(&[&*part.expr], as_rate),
        Expr::Binary(part) => all(&[&*part.lhs, &*part.rhs], as_rate),
        Expr::Call(call) => {
            let as_rate = as_rate || matches!(call.func.name, "rate" | "increase" | "resets");
            call.args.args.iter().for_each(|part| selectors(part, as_rate, found));
        }
        Expr::VectorSelector(selector) => found.push((selector, as_rate)),
        Expr::MatrixSelector(matrix) => found.push((&matrix.vs, as_rate)),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

fn parsed(expression: &str) -> Expr {
    parser::parse(expression).unwrap_or_else(|wrong| panic!("{expression}: {wrong}"))
}

/// Checks the selectors of an expression. Counters may stand outside of a rate only if `may_add_up`.
fn check(place: &str, expression: &str, may_add_up: bool, must_select: &[&str]) {
    let expression = parsed(expression);
    let mut found = Vec::new();
    selectors(&expression, false, &mut found);
    assert!(!found.is_empty(), "{place}: {expression}");
    for (selector, as_rate) in found {
        let name = selector.name.as_deref().unwrap_or_else(|| panic!("{place}: a selector without a name"));
        let labels = &selector.matchers;
        let names: Vec<&str> = labels.matchers.iter().map(|matcher| matcher.name.as_str()).collect();
        for label in must_select {
            assert!(names.contains(label), "{place}: {name} is not selected by {label}");
        }
        if !NOT_OURS.contains(&name) {
            check_selector(place, name, labels, as_rate || may_add_up);
        }
    }
}

fn check_selector(place: &str, name: &str, labels: &Matchers, as_rate: bool) {
    if name.contains(':') {
        let recorded = files::rules("record");
        assert!(recorded.iter().any(|(rule, _)| rule == name), "{place}: {name} is not recorded");
        return;
    }
    let series = |name: &str, kind: Kind| match kind {
        Kind::Histogram(_) => ["bucket", "sum", "count"].map(|part| format!("{name}_{part}")).to_vec(),
        Kind::Gauge | Kind::Counter => vec![name.to_owned()],
    };
    let metric = catalogue().find(|metric| series(metric.name, metric.kind).iter().any(|series| series == name));
    let metric = metric.unwrap_or_else(|| panic!("{place}: {name} is not in the catalogue"));
    let shows = as_rate || metric.kind == Kind::Gauge || SINCE_THE_START.contains(&name);
    assert!(shows, "{place}: {name} is a counter, and not in a rate");
    for matcher in &labels.matchers {
        let label = matcher.name.as_str();
        let is_known = label == "timer" || OF_THE_SCRAPE.contains(&label) || metric.labels.contains(&label);
        assert!(is_known, "{place}: {name} has no label {label}");
    }
}

#[test]
fn every_expression_of_the_dashboards_is_of_the_catalogue() {
    for name in files::dashboards() {
        let dashboard = files::dashboard(name);
        for (title, expression) in files::expressions(&dashboard) {
            check(&title, &files::filled_in(&expression, files::ANY), false, &["job", "instance", "timer"]);
        }
        let around = files::around_the_panels(&dashboard);
        assert_eq!(around.len(), 4, "{name}: restarts, jobs, instances, timer actors");
        for (title, expression) in around {
            check(&title, &files::filled_in(&expression, files::ANY), false, &[]);
        }
    }
}

#[test]
fn every_rule_is_of_the_catalogue() {
    let (recorded, alerts) = (files::rules("record"), files::rules("alert"));
    assert_eq!((recorded.len(), alerts.len()), (9, 21));
    for (name, expression) in recorded.into_iter().chain(alerts) {
        check(&name, &expression, name == "actix_timers:accounts:drift" || name == "ActixTimersDown", &[]);
    }
}

/// Words in the texts that look like a metric are metrics, and every metric is explained.
#[test]
fn the_catalogue_and_the_docs_agree() {
    let operations = files::read("docs/guide/operations.md");
    for library in ["actix_timers", "actix_timers_durable"] {
        assert!(operations.contains(&format!("{library}::metrics::histogram_buckets()")), "buckets of {library}");
    }
    for metric in catalogue() {
        let short = metric.name.strip_prefix("actix_timers_").unwrap();
        assert!(operations.contains(&format!("`{short}`")), "docs/guide/operations.md does not explain {short}");
    }
    let guide = ["operations.md", "semantics.md", "semantics-fine-print.md"].map(|page| format!("docs/guide/{page}"));
    for file in guide.iter().map(String::as_str).chain(["README.md", "dashboards/README.md"]) {
        let text = files::read(file);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
        let words = text.split(|letter| !is_name(letter)).filter(|word| word.starts_with("actix_timers_"));
        // Paths of crates are not metrics.
        for word in words.filter(|word| !word.contains("::")) {
            assert!(catalogue().any(|metric| word == metric.name), "{file} names {word}");
        }
    }
}
