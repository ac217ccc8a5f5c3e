//! The contents of `dashboards/`: panels with their expressions, and rules.

use std::path::{Path, PathBuf};

use actix_timers_dashboards::DASHBOARDS;
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::Value;

/// Returns the names of the dashboards.
pub(crate) fn dashboards() -> impl Iterator<Item = &'static str> + Clone {
    DASHBOARDS.iter().map(|(name, _)| *name)
}

/// The regular expression of "all" in a selector.
pub(crate) const ANY: &str = ".+";

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|wrong| panic!("{name}: {wrong}"))
}

pub(crate) fn dashboard(name: &str) -> Value {
    serde_json::from_str(&read(&format!("dashboards/{name}"))).unwrap()
}

/// Returns all panels except titles of sections.
pub(crate) fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().filter(|panel| panel["type"] != "row").collect()
}

/// Returns the expressions of a dashboard with the titles of their panels.
pub(crate) fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let targets = |panel: &Value| panel["targets"].as_array().unwrap().clone();
    let of_panel = |panel: &&Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let expressions = targets(panel).into_iter().map(|target| target["expr"].as_str().unwrap().to_owned());
        expressions.map(|expression| (title.clone(), expression)).collect::<Vec<_>>()
    };
    panels(dashboard).iter().flat_map(of_panel).collect()
}

/// Returns the expressions of a dashboard outside of panels: restart marks, and the values of its variables.
pub(crate) fn around_the_panels(dashboard: &Value) -> Vec<(String, String)> {
    let named = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let marks = dashboard["annotations"]["list"].as_array().unwrap().iter();
    let marks = marks.map(|mark| (named(mark), mark["expr"].as_str().unwrap().to_owned()));
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let selector = |variable: &Value| {
        let values = variable["query"]["query"].as_str()?.strip_prefix("label_values(")?;
        Some((named(variable), values.rsplit_once(',')?.0.to_owned()))
    };
    marks.chain(variables.filter_map(selector)).collect()
}

/// Fills in an expression's variables as Grafana does when this job is selected, and "all" for the others.
pub(crate) fn filled_in(expression: &str, job: &str) -> String {
    let filled = expression.replace("$__rate_interval", "1m").replace("$job", job);
    ["$instance", "$timer"].iter().fold(filled, |text, variable| text.replace(variable, ANY))
}

/// Returns all files in a folder and its subfolders.
pub(crate) fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

/// Reads a YAML file of one document.
pub(crate) fn yaml(name: &str) -> Value {
    let documents = Yaml::load_from_str(&read(name)).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    assert_eq!(documents.len(), 1, "{name}");
    json(&documents[0])
}

fn json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Sequence(list) => list.iter().map(json).collect(),
        Yaml::Mapping(map) => map.iter().map(|(key, value)| (key.as_str().unwrap().to_owned(), json(value))).collect(),
        Yaml::Value(Scalar::String(text)) => text.as_ref().into(),
        Yaml::Value(Scalar::Boolean(flag)) => (*flag).into(),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        other => panic!("not expected here: {other:?}"),
    }
}

/// Returns names and expressions of the recording rules, or of the alerts.
pub(crate) fn rules(kind: &str) -> Vec<(String, String)> {
    let file = yaml("dashboards/actix-timers.rules.yml");
    let groups = file["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    let name_and_expression = |rule: &Value| Some((rule[kind].as_str()?.to_owned(), rule["expr"].as_str()?.to_owned()));
    rules.filter_map(name_and_expression).collect()
}
