//! What is in `dashboards/`: panels with their expressions, and rules.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) const DASHBOARDS: [&str; 2] = ["actix-timers-overview.json", "actix-timers-wheel.json"];

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|wrong| panic!("{name}: {wrong}"))
}

pub(crate) fn dashboard(name: &str) -> Value {
    serde_json::from_str(&read(&format!("dashboards/{name}"))).unwrap()
}

/// All panels that are not titles of sections.
pub(crate) fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().filter(|panel| panel["type"] != "row").collect()
}

/// The expressions of a dashboard with the titles of their panels.
pub(crate) fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let targets = |panel: &Value| panel["targets"].as_array().unwrap().clone();
    let of_panel = |panel: &&Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let expressions = targets(panel).into_iter().map(|target| target["expr"].as_str().unwrap().to_owned());
        expressions.map(|expression| (title.clone(), expression)).collect::<Vec<_>>()
    };
    panels(dashboard).iter().flat_map(of_panel).collect()
}

/// Grafana's variables as Grafana fills them in when all is selected.
pub(crate) fn filled_in(expression: &str) -> String {
    let filled = expression.replace("$__rate_interval", "1m");
    ["$job", "$instance", "$timer"].iter().fold(filled, |text, variable| text.replace(variable, ".+"))
}

/// Names and expressions of the rules: those that record, or the alerts.
pub(crate) fn rules(kind: &str) -> Vec<(String, String)> {
    let text = read("dashboards/actix-timers.rules.yml");
    let mut rules = Vec::new();
    for part in text.split("      - ").skip(1) {
        let Some(rest) = part.strip_prefix(&format!("{kind}: ")) else { continue };
        let (name, rest) = rest.split_once('\n').unwrap();
        let expression = rest.trim_start().strip_prefix("expr: ").unwrap();
        let end = expression.find("\n        for:").unwrap_or(expression.len());
        let expression = expression[..end].trim();
        let expression = expression.strip_prefix("|-").unwrap_or(expression).trim();
        let quoted = expression.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        rules.push((name.to_owned(), quoted.unwrap_or(expression).to_owned()));
    }
    rules
}
