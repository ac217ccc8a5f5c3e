//! A machine whose power can be cut.
//!
//! It is a file system in a file, and in it a file that is the disk of the test, with its own file system. A disk
//! guarantees to keep data written before a completed flush, and nothing else. Neither does this one: its writes lie in
//! the memory of the outer file system until a flush, which is an fsync there.
//!
//! The power is cut by `EXT4_IOC_SHUTDOWN`, with the flag that leaves even the log unflushed: from then on nothing
//! reaches either file system, and the contents of memory are lost. The outer one is cut first, so that the inner one
//! finds its disk gone.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Sizes in MiB. Only the used parts take room.
const MACHINE: u64 = 1536;
const DISK: u64 = 1024;

pub(crate) struct Machine {
    root: tempfile::TempDir,
    is_on: bool,
}

impl Machine {
    /// Makes a machine with an empty disk, switched on.
    pub(crate) fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap(), is_on: true };
        for name in ["machine", "disk"] {
            std::fs::create_dir(machine.root.path().join(name)).unwrap();
        }
        make_disk(&machine.root.path().join("machine.img"), MACHINE);
        mount(&machine.root.path().join("machine.img"), &machine.memory());
        make_disk(&machine.memory().join("disk.img"), DISK);
        // The unmount flushes everything written so far; the tests concern later writes.
        umount(&machine.memory());
        mount(&machine.root.path().join("machine.img"), &machine.memory());
        mount(&machine.memory().join("disk.img"), &machine.disk());
        machine
    }

    /// Returns the mount point of its disk.
    pub(crate) fn disk(&self) -> PathBuf {
        self.root.path().join("disk")
    }

    fn memory(&self) -> PathBuf {
        self.root.path().join("machine")
    }

    /// Prepares a power cut, so that it takes no time later.
    pub(crate) fn cord(&self) -> Cord {
        // Rust has no ioctl without `unsafe`. _IOR('X', 125, __u32), and EXT4_GOING_FLAGS_NOLOGFLUSH.
        const PULL: &str = r#"
            my @disks = map { open(my $disk, "<", $_) or die "$_: $!"; $disk } @ARGV;
            $| = 1;
            print "ready\n";
            <STDIN>;
            for my $disk (@disks) { my $flag = pack("L", 2); ioctl($disk, 0x8004587D, $flag) or die $!; }
            print "cut\n";
        "#;
        let mut hand = Command::new("perl");
        hand.args(["-e", PULL]).args([self.memory(), self.disk()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cord = Cord(hand.spawn().expect("perl is there"));
        cord.hears("ready");
        cord
    }

    /// Switches the machine on again, after a cut and when no file is open any more. The disk has all writes before its
    /// last flush, and some of the later ones.
    pub(crate) fn restart(&mut self) {
        self.switch_off();
        mount(&self.root.path().join("machine.img"), &self.memory());
        mount(&self.memory().join("disk.img"), &self.disk());
        self.is_on = true;
    }

    fn switch_off(&mut self) {
        self.is_on = false;
        umount(&self.disk());
        umount(&self.memory());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Lazily, since it may be in use.
            for path in [self.disk(), self.memory()] {
                let _ = Command::new("umount").arg("-l").arg(path).status();
            }
        } else if self.is_on {
            self.switch_off();
        }
    }
}

/// A prepared process that cuts the power.
pub(crate) struct Cord(Child);

impl Cord {
    pub(crate) fn pull(mut self) {
        self.0.stdin.take().unwrap().write_all(b"now\n").unwrap();
        self.hears("cut");
        assert!(self.0.wait().unwrap().success());
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        // It prints one line at a time, and waits after the first.
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    }
}

fn make_disk(path: &Path, megabytes: u64) {
    std::fs::File::create(path).unwrap().set_len(megabytes << 20).unwrap();
    do_it(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path));
}

fn mount(what: &Path, to: &Path) {
    do_it(Command::new("mount").args(["-o", "loop"]).arg(what).arg(to));
}

fn umount(path: &Path) {
    // The kernel may take a moment to release a loop device or the files of an ended process.
    let began = Instant::now();
    while !Command::new("umount").arg(path).stderr(Stdio::null()).status().unwrap().success() {
        assert!(began.elapsed() < Duration::from_secs(30), "{} is in use", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn do_it(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
