//! Writes the dashboards and rules to a folder.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().filter(|folder| !folder.as_encoded_bytes().starts_with(b"-"));
    let (Some(folder), None) = (folder, arguments.next()) else {
        eprintln!("usage: actix-timers-dashboards FOLDER\n\nwrites the Grafana dashboards and Prometheus rules there");
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
