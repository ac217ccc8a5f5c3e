//! Writes the dashboards and rules to a folder.

use std::io::{self, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: actix-timers-dashboards FOLDER\n\nwrites the Grafana dashboards and Prometheus rules there";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    let answer = match first.as_ref().and_then(|first| first.to_str()) {
        Some("--help" | "-h") => Some(USAGE.to_owned()),
        Some("--version" | "-V") => Some(format!("actix-timers-dashboards {}", env!("CARGO_PKG_VERSION"))),
        _ => None,
    };
    if let Some(answer) = answer {
        // The reader may have closed the pipe.
        let _ = writeln!(io::stdout(), "{answer}");
        return ExitCode::SUCCESS;
    }
    let folder = first.filter(|folder| !folder.as_encoded_bytes().starts_with(b"-"));
    let (Some(folder), None) = (folder, arguments.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match actix_timers_dashboards::write_to(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("actix-timers-dashboards: {}: {wrong}", folder.display());
            ExitCode::FAILURE
        }
    }
}
