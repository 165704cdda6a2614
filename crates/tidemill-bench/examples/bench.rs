//! `tidemill bench` without the server, so that this crate's tests need not build it.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Launcher {
    #[command(flatten)]
    bench: tidemill_bench::Arguments,
}

fn main() -> ExitCode {
    match tidemill_bench::parse::<Launcher>() {
        Ok(launcher) => tidemill_bench::main(launcher.bench),
        Err(code) => code,
    }
}
