//! The supported version of the database's files.

use std::fs;
use std::path::Path;

use crate::shown::shown;

/// The content of the file `version`.
pub(super) const MARKER: [u8; 4] = *b"FJL\x03";

/// Rejects files of another version.
pub(super) fn check(data: &Path) -> Result<(), String> {
    let path = data.join("version");
    let marker = fs::read(&path).map_err(|error| format!("{}: {error}", shown(&path)))?;
    if marker == MARKER {
        return Ok(());
    }
    Err(format!(
        "{} holds `{}` and not `{}`: another version of the database has written these files, and a build with that has to read them",
        shown(&path),
        marker.escape_ascii(),
        MARKER.escape_ascii()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The version of fjall against which the list below was last verified.
    const VERIFIED: &str = "3.1.13";

    fn locked(lock: &str) -> Option<&str> {
        let package = lock.split("[[package]]").find(|package| package.contains("\nname = \"fjall\"\n"))?;
        package.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
    }

    #[test]
    fn the_form_of_the_journals_was_verified_for_the_locked_version_of_the_database() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let lock = [package.join("../../Cargo.lock"), package.join("Cargo.lock")];
        let lock = lock.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap();
        assert_eq!(
            locked(&lock),
            Some(VERIFIED),
            "Cargo.lock has another version of fjall. `src/store/embedded/journals` reads and cuts its private files, whose form \
             fjall may change in any version. Compare both versions of fjall:\n\
             1. `src/version.rs`, `src/file.rs`: the file `version` still holds `{}`, and another form would have another one;\n\
             2. `src/journal/entry.rs`, `writer.rs`: tags, kinds, lengths, checksum and end of a group, as in `journals/mod.rs`; \
             nothing is compressed;\n\
             3. `src/journal/reader.rs`, `batch_reader.rs`, `recovery.rs`: the names of journals, their order, and what is cut off \
             from a journal with a torn end;\n\
             4. `cargo test -p actix-timers-durable --test store_faults` and the fuzz target `journal` pass.\n\
             Then set `VERIFIED`.",
            MARKER.escape_ascii()
        );
    }
}
