//! Directories, files and links of other users: rejected before anything is opened or changed.
//!
//! Most tests act as root against the user 65534, and do nothing as another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{EmbeddedStore, Store};
use tempfile::TempDir;

use crate::workshop::{apply, open, pending, put};

/// The user `nobody`.
const OTHER: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give_away(path: &Path) {
    lchown(path, Some(OTHER), Some(OTHER)).unwrap();
}

/// Makes a directory of another user.
fn foreign_directory(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    set_mode(path, mode);
    give_away(path);
}

/// Makes a store with a timer.
fn make_store(path: &Path) {
    apply(&mut open(path).unwrap(), &[put(1, 10)]).unwrap();
}

/// Returns all below a directory, and the directory itself, with modes, owners, sizes and times of the last change.
fn state(path: &Path) -> Vec<(PathBuf, u32, u32, u64, i64)> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut all = vec![(path.to_owned(), found.mode(), found.uid(), found.size(), found.ctime_nsec())];
    if found.is_dir() {
        all.extend(fs::read_dir(path).unwrap().flat_map(|entry| state(&entry.unwrap().path())));
        all.sort();
    }
    all
}

/// Tries all that opens a directory: a store, a check, a backup.
fn attempts(path: &Path) -> [Result<(), StoreError>; 3] {
    let source = tempfile::tempdir().unwrap();
    let mut source = open(&source.path().join("source")).unwrap();
    let backed_up = source.back_up(path).and_then(|back_up| back_up());
    [open(path).map(drop), EmbeddedStore::integrity_check(path).map(drop), backed_up]
}

/// Asserts that `path` is not opened because of `culprit`, and that nothing below `watched` has changed.
#[track_caller]
fn assert_untrusted(path: &Path, culprit: &Path, reason: &str, watched: &Path) {
    let before = state(watched);
    for rejected in attempts(path) {
        let error = rejected.expect_err("it is not trusted");
        let text = error.to_string();
        assert!(format!("{error:?}").starts_with("Untrusted"), "{error:?}");
        assert!(text.contains(&format!("{} cannot be trusted", culprit.display())) && text.contains(reason), "{text}");
    }
    assert_eq!(state(watched), before);
}

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_directory_of_another_user_is_rejected_and_left_alone() {
    if !is_root() {
        return;
    }
    let home = home();
    let [empty, store] = ["empty", "store"].map(|name| home.path().join(name));
    for mode in [0o755, 0o700] {
        let _ = fs::remove_dir_all(&empty);
        foreign_directory(&empty, mode);
        assert_untrusted(&empty, &empty, "the user 65534 owns it", home.path());
    }
    make_store(&store);
    give_away(&store);
    assert_untrusted(&store, &store, "`chown`", home.path());
    chown(&store, Some(0), None).unwrap();
    assert_eq!(pending(&mut open(&store).unwrap()).unwrap().len(), 1);
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    if !is_root() {
        return;
    }
    let home = home();
    let [link, target, missing] = ["link", "target", "missing"].map(|name| home.path().join(name));
    fs::create_dir(&target).unwrap();
    for to in [&target, &missing] {
        symlink(to, &link).unwrap();
        give_away(&link);
        assert_untrusted(&link, &link, "a symbolic link of the user 65534", home.path());
        fs::remove_file(&link).unwrap();
    }
    // Nor behind a link of our own.
    let second = home.path().join("second");
    symlink(&target, &second).unwrap();
    give_away(&second);
    symlink("second", &link).unwrap();
    assert_untrusted(&link, &second, "a symbolic link of the user 65534", home.path());
}

/// A data directory on another disk.
#[test]
fn a_link_of_ones_own_is_followed() {
    let home = home();
    let [link, target] = ["link", "disk"].map(|name| home.path().join(name));
    fs::create_dir(&target).unwrap();
    symlink("disk/timers", &link).unwrap();
    make_store(&link);
    let mut store = open(&link).unwrap();
    assert_eq!(pending(&mut store).unwrap().len(), 1);
    for name in [&link, &target.join("timers"), &home.path().join("disk/../link")] {
        assert!(matches!(open(name), Err(StoreError::InUse(path)) if path == *name));
    }
    let copy = home.path().join("copy");
    symlink(target.join("backup"), &copy).unwrap();
    store.back_up(&copy).unwrap()().unwrap();
    assert_eq!(pending(&mut open(&target.join("backup")).unwrap()).unwrap().len(), 1);
    // It is a circle.
    let circle = home.path().join("circle");
    symlink("circle", &circle).unwrap();
    assert!(matches!(open(&circle), Err(StoreError::Unreadable { .. })));
}

/// `/tmp`, for example: others may have made the files there.
#[test]
fn nothing_of_others_is_trusted_below_a_directory_for_all() {
    if !is_root() {
        return;
    }
    let home = home();
    let public = home.path().join("public");
    fs::create_dir(&public).unwrap();
    set_mode(&public, 0o1777);
    let planted = public.join("planted");
    foreign_directory(&planted, 0o755);
    assert_untrusted(&planted.join("store"), &planted, "the user 65534 owns it", home.path());
    assert_untrusted(&planted.join("a/b/store"), &planted, "the user 65534 owns it", home.path());
    let link = public.join("link");
    symlink(home.path(), &link).unwrap();
    give_away(&link);
    assert_untrusted(&link.join("store"), &link, "a symbolic link of the user 65534", home.path());
    make_store(&public.join("ours/store"));
    // Elsewhere the owner of the directory above has decided.
    let administered = home.path().join("administered");
    foreign_directory(&administered, 0o755);
    fs::create_dir(administered.join("ours")).unwrap();
    make_store(&administered.join("ours"));
}

/// The links and files that a store could be led to.
#[test]
fn links_in_a_directory_are_not_followed() {
    let home = home();
    let victim = home.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    set_mode(&victim, 0o644);
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    set_mode(&elsewhere, 0o755);
    for (name, target) in [
        ("lock", &victim),
        ("timers.db", &victim),
        ("timers.db.new", &victim),
        ("timers.db.new-journal", &victim),
        ("timers.db.backup", &victim),
        ("timers.db-wal", &victim),
        ("data", &elsewhere),
    ] {
        let path = home.path().join("empty");
        fs::create_dir(&path).unwrap();
        let link = path.join(name);
        symlink(target, &link).unwrap();
        let before = state(home.path());
        for rejected in attempts(&path) {
            let error = rejected.expect_err("it is not trusted");
            // There is no store, but something else.
            let is_foreign = matches!(error, StoreError::Foreign { .. }) && ["data", "timers.db-wal"].contains(&name);
            assert!(format!("{error:?}").starts_with("Untrusted") || is_foreign, "{name}: {error:?}");
        }
        assert_eq!(state(home.path()), before, "{name}");
        fs::remove_dir_all(path).unwrap();
    }
    for name in ["lock", "timers.db", "timers.db-wal", "timers.db-shm", "timers.db-journal", "other"] {
        let path = home.path().join("store");
        make_store(&path);
        let place = path.join(name);
        let moved = home.path().join("moved");
        if place.exists() {
            fs::rename(&place, &moved).unwrap();
            symlink(&moved, &place).unwrap();
        } else {
            symlink(&victim, &place).unwrap();
        }
        let before = state(home.path());
        for rejected in [open(&path).map(drop), EmbeddedStore::integrity_check(&path).map(drop)] {
            let error = rejected.expect_err("it is not trusted");
            let text = error.to_string();
            assert!(text.contains(&format!("{} cannot be trusted", place.display())), "{text}");
            assert!(text.contains("it is a symbolic link"), "{text}");
        }
        assert_eq!(state(home.path()), before, "{name}");
        fs::remove_dir_all(path).unwrap();
        let _ = fs::remove_file(&moved).or_else(|_| fs::remove_dir_all(&moved));
    }
}

#[test]
fn files_of_two_names_or_another_kind_are_rejected() {
    let home = home();
    let victim = home.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    set_mode(&victim, 0o644);
    let path = home.path().join("store");
    make_store(&path);
    let assert_rejected = |place: &Path, reason: &str| {
        let before = state(home.path());
        for rejected in [open(&path).map(drop), EmbeddedStore::integrity_check(&path).map(drop)] {
            let text = rejected.expect_err("it is not trusted").to_string();
            assert!(text.contains(&format!("{} cannot be trusted", place.display())), "{text}");
            assert!(text.contains(reason), "{text}");
        }
        assert_eq!(state(home.path()), before);
        fs::remove_file(place).unwrap();
    };
    for name in ["lock", "timers.db-wal", "timers.db-journal"] {
        let place = path.join(name);
        let _ = fs::remove_file(&place);
        fs::hard_link(&victim, &place).unwrap();
        assert_rejected(&place, "it has 2 names");
    }
    let pipe = path.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o644)).unwrap();
    assert_rejected(&pipe, "neither a file nor a directory");
    if is_root() {
        let place = path.join("timers.db-wal");
        fs::write(&place, "").unwrap();
        give_away(&place);
        assert_rejected(&place, "the user 65534 owns it");
    }
}

/// As with a volume whose root is the directory of the store.
#[test]
fn a_directory_that_a_file_system_makes_is_no_hindrance() {
    let home = home();
    let lost = home.path().join("lost+found");
    fs::create_dir(&lost).unwrap();
    symlink("nowhere", lost.join("#12")).unwrap();
    make_store(home.path());
    open(home.path()).unwrap();
}

/// Runs a test as another user: a thread, and those that it starts, have its rights.
#[cfg(target_os = "linux")]
fn as_other(run: impl FnOnce() + Send) {
    let run = || {
        rustix::thread::set_thread_gid(rustix::fs::Gid::from_raw(OTHER)).unwrap();
        rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(OTHER)).unwrap();
        run();
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap();
}

/// As of a service whose data directory the administrator has made, with a link to another disk.
#[cfg(target_os = "linux")]
#[test]
fn a_user_follows_links_of_root_and_no_others() {
    if !is_root() {
        return;
    }
    let home = home();
    set_mode(home.path(), 0o755);
    let [disk, by_root, by_third] = ["disk", "by_root", "by_third"].map(|name| home.path().join(name));
    foreign_directory(&disk, 0o755);
    for (link, owner) in [(&by_root, 0), (&by_third, 4321)] {
        symlink("disk/timers", link).unwrap();
        lchown(link, Some(owner), None).unwrap();
    }
    let of_root = home.path().join("of_root");
    make_store(&of_root);
    as_other(|| {
        make_store(&by_root);
        assert_eq!(pending(&mut open(&disk.join("timers")).unwrap()).unwrap().len(), 1);
        let error = open(&by_third).unwrap_err();
        assert!(error.to_string().contains("a symbolic link of the user 4321"), "{error}");
        // Of root, and closed to others.
        assert!(matches!(open(&of_root), Err(StoreError::Unreadable { .. })));
    });
}
