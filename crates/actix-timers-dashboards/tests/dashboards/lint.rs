//! Dashboards are importable, provisionable and self-explanatory; rules have a runbook and tests.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::files;

fn each_dashboard(check: impl Fn(&str, &Value)) {
    files::dashboards().for_each(|name| check(name, &files::dashboard(name)));
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

#[test]
fn dashboards_belong_to_no_instance_of_grafana() {
    each_dashboard(|name, dashboard| {
        assert_eq!(dashboard["id"], Value::Null, "{name}");
        assert_eq!(dashboard["schemaVersion"], 42, "{name}");
        assert_eq!(dashboard["uid"], name.trim_end_matches(".json"));
        assert!(dashboard.get("__inputs").is_none(), "{name}");
        assert_eq!(dashboard["links"][0]["tags"], dashboard["tags"], "{name}: linked by tag");
        assert!(is_text(&dashboard["annotations"]["list"][0]["expr"]), "{name}: restarts are marked");
        let text = dashboard.to_string();
        assert!(!text.contains("\"current\""), "{name}: a saved value of a variable");
        assert_eq!(text.matches("\"uid\":").count(), text.matches("\"uid\":\"${datasource}\"").count() + 1, "{name}");
    });
}

#[test]
fn variables_follow_from_each_other() {
    each_dashboard(|name, dashboard| {
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["datasource", "job", "instance", "timer"], "{name}");
        assert_eq!((&variables[0]["type"], &variables[0]["query"]), (&json!("datasource"), &json!("prometheus")));
        assert_eq!(variables[0]["label"], "Data source");
        for (before, variable) in variables[1..].iter().enumerate() {
            let settings = ["multi", "includeAll", "allValue", "refresh"].map(|key| variable[key].clone());
            assert_eq!(settings, [json!(true), json!(true), json!(".+"), json!(2)], "{name}");
            for earlier in &names[1..=before] {
                let query = variable["query"]["query"].as_str().unwrap();
                assert!(query.contains(&format!("${earlier}\"")), "{name}: {query}");
            }
        }
    });
}

#[test]
fn every_panel_explains_itself() {
    each_dashboard(|name, dashboard| {
        let source = json!({ "type": "prometheus", "uid": "${datasource}" });
        for panel in files::panels(dashboard) {
            let place = format!("{name}: {}", panel["title"]);
            assert!(is_text(&panel["title"]), "{place}");
            let description = panel["description"].as_str().unwrap_or_default();
            assert!(description.contains("Good: "), "{place} does not describe the good state");
            assert_eq!(panel["datasource"], source, "{place}");
            let defaults = &panel["fieldConfig"]["defaults"];
            assert!(is_text(&defaults["unit"]) && is_text(&defaults["noValue"]), "{place}");
            let options = &panel["options"];
            let calcs = match panel["type"].as_str() {
                Some("timeseries") => options["legend"]["calcs"].as_array(),
                Some("heatmap") => None,
                _ => options["reduceOptions"]["calcs"].as_array(),
            };
            assert!(panel["type"] == "heatmap" || calcs.is_some_and(|calcs| !calcs.is_empty()), "{place}: calcs");
            let mut letters = HashSet::new();
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"], source, "{place}");
                assert!(is_text(&target["legendFormat"]), "{place}");
                assert!(letters.insert(target["refId"].to_string()), "{place}");
            }
        }
    });
}

#[test]
fn panels_do_not_overlap() {
    each_dashboard(|name, dashboard| {
        let (mut ids, mut taken) = (HashSet::new(), HashSet::new());
        for panel in dashboard["panels"].as_array().unwrap() {
            // Panels inside of a folded row would be skipped here.
            assert_eq!(panel["panels"].as_array().map_or(0, Vec::len), 0, "{name}: {}", panel["title"]);
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{name}: {}", panel["title"]);
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            assert!(w > 0 && h > 0 && x + w <= 24, "{name}: {}", panel["title"]);
            let cells = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
            assert!(cells.into_iter().all(|cell| taken.insert(cell)), "{name}: {} overlaps", panel["title"]);
        }
    });
}

#[test]
fn alerts_have_a_runbook_entry_and_tests_firing_and_quiet() {
    let (rules, tests) =
        (files::read("dashboards/actix-timers.rules.yml"), files::read("dashboards/actix-timers.rules.test.yml"));
    let operations = files::read("docs/guide/operations.md");
    for (alert, _) in files::rules("alert") {
        assert!(operations.contains(&format!("\n### {alert}\n")), "no runbook entry for {alert}");
        let runbook = format!("runbook: docs/guide/operations.md#{}\n", alert.to_lowercase());
        assert!(rules.contains(&runbook), "{alert} does not name its runbook entry");
        for kind in ["fires", "is quiet"] {
            assert!(tests.contains(&format!("- name: {alert} {kind}\n")), "{alert}: no test that it {kind}");
        }
    }
    for key in ["severity", "summary", "description"] {
        assert_eq!(rules.matches(&format!(" {key}: ")).count(), files::rules("alert").len(), "{key}");
    }
}

/// Each node of a shared store reports the counts of the whole store.
#[test]
fn sums_over_stores_are_tested_with_several_nodes() {
    let tests = files::read("dashboards/actix-timers.rules.test.yml");
    let counts = ["pending", "dead_letters", "parked", "paused"].map(|count| format!("(actix_timers_store_{count}"));
    for (title, expression) in files::expressions(&files::dashboard("actix-timers-durable.json")) {
        let expression = expression.replace(r#"{job=~"$job",instance=~"$instance",timer=~"$timer"}"#, "");
        let is_sum = counts.iter().any(|count| expression.contains(count));
        assert!(!is_sum || tests.contains(&format!("- expr: {expression}\n")), "{title}: {expression}");
    }
}

/// A node renews its lease at the first beat after a quarter of it.
#[test]
fn a_lease_that_will_be_renewed_is_green() {
    const DEFAULT_LEASE: f64 = 10.0;
    const BEAT: f64 = 0.6;
    let dashboard = files::dashboard("actix-timers-nodes.json");
    let panel = files::panels(&dashboard).into_iter().find(|panel| panel["title"] == "Shortest lease").unwrap();
    let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array().unwrap();
    let green = steps.iter().find(|step| step["color"] == "green").unwrap();
    assert!(green["value"].as_f64().unwrap() < 0.75 - BEAT / DEFAULT_LEASE);
}

/// Alerts on lateness need an edge of a bucket at their threshold.
#[test]
fn lag_buckets_have_an_edge_at_the_threshold() {
    let alerts = files::rules("alert");
    let (_, expression) = alerts.iter().find(|(name, _)| name == "ActixTimersDeliveryLagHigh").unwrap();
    let threshold: f64 = expression.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(actix_timers::metrics::LAG_BUCKETS.contains(&threshold));
}
