//! `tidemill bench` without the server, so that this crate's tests need not build it.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Launcher {
    #[command(flatten)]
    bench: tidemill_bench::Arguments,
}

fn main() -> ExitCode {
    tidemill_bench::main(Launcher::parse().bench)
}
