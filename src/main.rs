//! The `rlhf-lab` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rlhf_lab::cli::run().unwrap_or_else(|error| {
        eprintln!("rlhf-lab: {error:#}");
        ExitCode::FAILURE
    })
}
