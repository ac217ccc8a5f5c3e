//! The parts that the command lines of all benches share.

use std::str::FromStr;

use clap::Parser;

/// Parses the command line. Paths in it are relative to the root of the repository, the user's directory; Cargo starts a
/// bench in the folder of its package.
pub fn parse<A: Parser>() -> A {
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the root of the repository");
    // Cargo adds `--bench` to every bench.
    A::parse_from(std::env::args().filter(|argument| argument != "--bench"))
}

/// Parses a number above 0, such as `10_000`.
///
/// # Errors
/// Names the wrong text.
pub fn number<N: FromStr + PartialOrd + Default>(text: &str) -> Result<N, String> {
    match text.replace('_', "").parse() {
        Ok(number) if number > N::default() => Ok(number),
        _ => Err(format!("'{text}' is not a number above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_above_zero_and_may_have_underscores() {
        assert_eq!(number("10_000"), Ok(10_000_usize));
        assert!(["0", "-1", "ten", ""].iter().all(|text| number::<u64>(text).is_err()));
    }
}
