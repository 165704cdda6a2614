//! What LinkBench's generator costs: CPU an operation and memory, with 16 requesters against a target that does nothing.
//!
//! `cargo bench -p tidemill-bench --bench generator`. First as fast as it goes, then at 48,000 operations a second, where waiting for
//! the next operation is part of the cost.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Launcher {
    #[command(flatten)]
    bench: tidemill_bench::Arguments,
}

fn main() -> ExitCode {
    let runs = [&["-D", "requests=200000"][..], &["-D", "requestrate=3000", "-D", "maxtime=5"]];
    for run in runs {
        let fixed = ["bench", "linkbench", "request", "--nodes", "10000000", "--target", "noop:"];
        let quiet = ["-D", "requesters=16", "-D", "req_progress_interval=0"];
        let arguments = fixed.iter().chain(&quiet).chain(run);
        let code = tidemill_bench::main(Launcher::parse_from(arguments).bench);
        if code != ExitCode::SUCCESS {
            return code;
        }
    }
    ExitCode::SUCCESS
}
