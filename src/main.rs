//! The `rlhf-lab` command.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    rlhf_lab::cli::run().unwrap_or_else(|error| {
        // Not `eprintln!`, which panics where stderr cannot be written to.
        let _ = writeln!(std::io::stderr(), "rlhf-lab: {error:#}");
        ExitCode::FAILURE
    })
}
