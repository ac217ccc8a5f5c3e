//! Draws the pictures of `docs/guide/benchmarks.md`, and writes its figures: see [`bench::plot`].

fn main() -> Result<(), String> {
    bench::plot::run(bench::arguments::parse())
}
