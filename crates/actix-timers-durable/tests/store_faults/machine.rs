//! A machine whose power can be cut.
//!
//! It is a file system in a file, and in that a file which is the disk of the test, with a file system of its own. A disk
//! promises to keep what was written before a flush was answered, and nothing else. This one keeps no more than that for sure: what
//! it is given lies in the memory of the outer file system until a flush, which is an fsync there.
//!
//! The power is cut by `EXT4_IOC_SHUTDOWN`, with the flag that says that not even the log is to be flushed: in the same moment
//! nothing reaches either file system any more, and what was in memory is lost. First the outer one, so that the inner one finds its
//! disk gone.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Sizes in MiB. Only what is used of them takes room.
const MACHINE: u64 = 1536;
const DISK: u64 = 1024;

pub(crate) struct Machine {
    root: tempfile::TempDir,
    is_on: bool,
}

impl Machine {
    /// A new one with an empty disk, switched on.
    pub(crate) fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap(), is_on: true };
        for name in ["machine", "disk"] {
            std::fs::create_dir(machine.root.path().join(name)).unwrap();
        }
        make_disk(&machine.root.path().join("machine.img"), MACHINE);
        mount(&machine.root.path().join("machine.img"), &machine.memory());
        make_disk(&machine.memory().join("disk.img"), DISK);
        // What is there before the first cut is not what this is about.
        umount(&machine.memory());
        mount(&machine.root.path().join("machine.img"), &machine.memory());
        mount(&machine.memory().join("disk.img"), &machine.disk());
        machine
    }

    /// Where its disk is mounted.
    pub(crate) fn disk(&self) -> PathBuf {
        self.root.path().join("disk")
    }

    fn memory(&self) -> PathBuf {
        self.root.path().join("machine")
    }

    /// Makes ready to cut the power, so that it takes no time when the moment has come.
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

    /// After a cut, and when nobody has a file open any more: the machine is switched on again. What the disk has is what it was
    /// given before its last flush, and some of what came later.
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

/// Pulled, it cuts the power.
pub(crate) struct Cord(Child);

impl Cord {
    pub(crate) fn pull(mut self) {
        self.0.stdin.take().unwrap().write_all(b"now\n").unwrap();
        self.hears("cut");
        assert!(self.0.wait().unwrap().success());
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        // It says one line at a time, and waits after the first.
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
    // The kernel may take a moment to let go of a loop device or of the files of a process that has ended.
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
