//! The files of the demo: their references exist, and they agree with each other and with the example.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files;

const DEMO: &str = "dashboards/demo";

fn demo(name: &str) -> Value {
    files::yaml(&format!("{DEMO}/{name}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(text).collect()
}

/// Returns the path in this repository of a path inside a container. The innermost mount counts.
fn outside(service: &Value, inside: &str) -> PathBuf {
    let mounts = texts(&service["volumes"]).into_iter().map(|volume| volume.split(':').collect::<Vec<_>>());
    let covering = mounts.filter(|mount| Path::new(inside).starts_with(mount[1]));
    let mount = covering.max_by_key(|mount| mount[1].len()).unwrap_or_else(|| panic!("{inside} is not mounted"));
    assert_eq!(mount[2], "ro", "{inside} could be written to");
    let rest = Path::new(inside).strip_prefix(mount[1]).unwrap();
    let path = files::path(DEMO).join(mount[0]);
    let path = if rest.as_os_str().is_empty() { path } else { path.join(rest) };
    path.canonicalize().unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()))
}

fn is(found: &Path, expected: &str) {
    assert_eq!(found, files::path(expected).canonicalize().unwrap());
}

/// Returns the default address of the example.
fn address_of_the_example() -> (String, String) {
    let source = files::read("examples/observe/args.rs");
    let (_, rest) = source.split_once("default_value = \"").unwrap();
    let (host, port) = rest.split_once('"').unwrap().0.split_once(':').unwrap();
    (host.to_owned(), port.to_owned())
}

#[test]
fn prometheus_looks_at_the_example_and_has_the_rules() {
    let config = demo("prometheus.yml");
    let beside = |name: &Value| files::path(DEMO).join(text(name)).canonicalize().unwrap();
    is(&beside(&config["rule_files"][0]), "dashboards/actix-timers.rules.yml");
    let job = &config["scrape_configs"][0];
    assert_eq!(job["job_name"], "observe");
    is(&beside(&job["file_sd_configs"][0]["files"][0]), "dashboards/demo/targets.yml");
    let (host, port) = address_of_the_example();
    assert_eq!(texts(&demo("targets.yml")[0]["targets"]), [format!("{host}:{port}")]);
}

#[test]
fn grafana_has_the_data_source_and_the_dashboards() {
    let source = demo("grafana/datasources/prometheus.yml")["datasources"][0].clone();
    assert_eq!((text(&source["type"]), &source["isDefault"]), ("prometheus", &Value::Bool(true)));
    let compose = demo("compose.yml");
    let (host, port) = text(&source["url"]).strip_prefix("http://").unwrap().split_once(':').unwrap();
    let published = texts(&compose["services"][host]["ports"]);
    assert!(published[0].ends_with(&format!(":{port}")), "{published:?}");
    // Grafana takes rates over at least some multiples of this interval.
    assert_eq!(source["jsonData"]["timeInterval"], demo("prometheus.yml")["global"]["scrape_interval"]);

    let provider = demo("grafana/dashboards/actix-timers.yml")["providers"][0].clone();
    assert_eq!(provider["type"], "file");
    let grafana = &compose["services"]["grafana"];
    is(&outside(grafana, text(&provider["options"]["path"])), "dashboards");
    is(&outside(grafana, "/etc/grafana/provisioning/datasources"), "dashboards/demo/grafana/datasources");
    is(&outside(grafana, "/etc/grafana/provisioning/dashboards"), "dashboards/demo/grafana/dashboards");
    let home = text(&grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]);
    is(&outside(grafana, home), "dashboards/actix-timers-overview.json");
}

#[test]
fn the_containers_are_pinned_and_stay_on_this_machine() {
    let compose = demo("compose.yml");
    for (name, service) in compose["services"].as_object().unwrap() {
        let (_, version) = text(&service["image"]).split_once(':').unwrap();
        let numbers: Vec<_> = version.trim_start_matches('v').split('.').collect();
        assert!(numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok()), "{name}: {version}");
        assert!(texts(&service["ports"]).iter().all(|port| port.starts_with("127.0.0.1:")), "{name}");
    }
    let prometheus = &compose["services"]["prometheus"];
    let config =
        texts(&prometheus["command"]).into_iter().find_map(|word| word.strip_prefix("--config.file=")).unwrap();
    is(&outside(prometheus, config), "dashboards/demo/prometheus.yml");
    let folder = Path::new(config).parent().unwrap();
    is(
        &outside(prometheus, folder.parent().unwrap().join("actix-timers.rules.yml").to_str().unwrap()),
        "dashboards/actix-timers.rules.yml",
    );
    is(&outside(prometheus, folder.join("targets.yml").to_str().unwrap()), "dashboards/demo/targets.compose.yml");
    let targets = demo("targets.compose.yml");
    let (host, port) = texts(&targets[0]["targets"])[0].split_once(':').unwrap();
    assert_eq!(texts(&prometheus["extra_hosts"]), [format!("{host}:host-gateway")]);
    assert_eq!(port, address_of_the_example().1);
}

#[test]
fn the_readme_tells_of_all_files_and_of_alerts_that_exist() {
    let readme = files::read("dashboards/README.md");
    let top = files::path("dashboards");
    for path in files::below(&top) {
        let name = path.strip_prefix(&top).unwrap().to_str().unwrap().replace('\\', "/");
        assert!(name == "README.md" || readme.contains(&format!("`{name}`")), "{name}");
    }
    let alerts = files::rules("alert");
    let words = readme.split(|letter: char| !letter.is_ascii_alphanumeric());
    for word in words.filter(|word| word.starts_with("ActixTimers")) {
        assert!(alerts.iter().any(|(alert, _)| alert == word), "there is no alert {word}");
    }
}
