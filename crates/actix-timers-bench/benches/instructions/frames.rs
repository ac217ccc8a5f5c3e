//! Checks the stack frames of all functions of actix-timers in this program.
//!
//! A function with a frame of a page or more probes the stack, page by page, on each call, and so does every function
//! that the owner of a large local variable is inlined into. Counts of instructions show it only on the measured paths.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;

/// The smallest frame that counts as large: a page, at which the compiler begins to probe.
const LARGE: u64 = 4096;

/// Fails if a function of actix-timers has a large frame. Understands the code of x86-64 only, like the baseline.
pub(crate) fn check() -> Result<(), String> {
    if cfg!(not(target_arch = "x86_64")) {
        println!("stack frames are checked on x86-64 only");
        return Ok(());
    }
    function_with_a_large_frame();
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("objdump").args(["--disassemble", "--no-show-raw-insn"]).arg(program).output();
    let output = output.map_err(|error| format!("objdump: {error}; on Debian: apt-get install binutils"))?;
    let code = String::from_utf8_lossy(&output.stdout);
    let large = large_frames(&code);
    if !large.keys().any(|function| function.contains("function_with_a_large_frame")) {
        return Err("the large frame of the check itself was not found: is the output of objdump different?".to_owned());
    }
    let ours: Vec<_> = large.iter().filter(|(function, _)| function.contains("actix_timers")).collect();
    for (function, bytes) in &ours {
        println!("{function}: a stack frame of at least {bytes} bytes");
    }
    if ours.is_empty() {
        return Ok(());
    }
    Err(format!("frames of {LARGE} bytes or more: move what is large to the heap, or out of line"))
}

/// Shows that the check finds large frames.
#[inline(never)]
fn function_with_a_large_frame() {
    black_box([0_u8; 2 * LARGE as usize]);
}

/// Returns the functions that make room for a page or more at once. A larger frame is made page by page.
fn large_frames(code: &str) -> BTreeMap<&str, u64> {
    let mut function = "";
    let mut large = BTreeMap::new();
    for line in code.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| Some(line.split_once('<')?.1)) {
            function = name;
        } else if let Some((_, bytes)) = line.strip_suffix(",%rsp").and_then(|line| line.split_once("sub "))
            && let Some(bytes) = bytes.trim_start().strip_prefix("$0x")
            && let Ok(bytes @ LARGE..) = u64::from_str_radix(bytes, 16)
        {
            large.insert(function, bytes);
        }
    }
    large
}
