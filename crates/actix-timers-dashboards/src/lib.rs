// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest)), doc = include!("links.in"))]
#![doc = include_str!("../README.md")]

use std::path::Path;
use std::{fs, io};

/// Returns a file with its name. `files` has links to the folder `dashboards` of the repository; a package has the files.
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../files/", $name)))
    };
}

/// The dashboards for Grafana: names of files, and JSON. The ones for durable timers and nodes stay empty without them.
pub const DASHBOARDS: &[(&str, &str)] = &[
    file!("actix-timers-overview.json"),
    file!("actix-timers-wheel.json"),
    file!("actix-timers-durable.json"),
    file!("actix-timers-nodes.json"),
];

/// The recording rules and alerts for Prometheus: name of the file, and YAML. The dashboards need the rules.
pub const RULES: (&str, &str) = file!("actix-timers.rules.yml");

/// Writes the dashboards and rules to a folder, which is created if necessary. Earlier versions are replaced.
///
/// # Errors
/// The error of the file system. Some files may have been written.
pub fn write_to(folder: impl AsRef<Path>) -> io::Result<()> {
    let folder = folder.as_ref();
    fs::create_dir_all(folder)?;
    DASHBOARDS.iter().chain([&RULES]).try_for_each(|(name, content)| fs::write(folder.join(name), content))
}
