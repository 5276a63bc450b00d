//! The command line: what was typed, checked, and carried out.

mod invocation;
mod sweep;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use self::invocation::Invocation;
use self::sweep::SweepArgs;
use crate::demos::demo::Demo;
use crate::demos::{overopt, pretrain, reason_grpo, star, test_time, toy_rlhf};
use crate::report::emit;
use crate::report::pages::page::Page;

/// All of language-model post-training on a laptop CPU, with the exact optimum next to every trained policy.
#[derive(Parser)]
#[command(name = "rlhf-lab", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    demo: DemoCommand,
}

/// Flags of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Seed of every random draw; equal seeds give equal results
    #[arg(long, global = true, default_value_t = 0)]
    seed: u64,

    /// A smoke-size run of the same code
    #[arg(long, global = true)]
    quick: bool,

    /// Print one JSON document and nothing else
    #[arg(long, global = true)]
    json: bool,

    /// Also write report.json, curves.csv, SVG plots and report.html into this directory
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Worker threads [default: one per core]; they change the time, never the results
    #[arg(long, global = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Where trained base models are kept; one that is not there is trained first
    #[arg(long, global = true, value_name = "DIR", default_value = "checkpoints")]
    checkpoints: PathBuf,

    /// Train the base models a command needs anew, even if they are there
    #[arg(long, global = true)]
    retrain: bool,

    /// No progress bar on stderr
    #[arg(long, global = true)]
    no_progress: bool,
}

#[derive(Subcommand)]
enum DemoCommand {
    /// RLHF and DPO on six answers: closed-form optimum, REINFORCE, DPO, its implicit reward and its trap
    #[command(after_help = "Example: rlhf-lab toy-rlhf --beta 0.2 --pairs 100,1000000 --out report")]
    ToyRlhf(toy_rlhf::Config),
    /// Goodhart's law, exactly: best-of-n under a learned reward model against the true reward
    #[command(after_help = "Example: rlhf-lab overopt --pairs 10000 --seeds 100 --out report")]
    Overopt(overopt::Config),
    /// GRPO and REINFORCE with a rule reward: a small model learns to think, or to be lazy
    #[command(after_help = "Example: rlhf-lab reason-grpo --algo grpo --steps 300 --lr 1e-4 --out report")]
    ReasonGrpo(reason_grpo::Config),
    /// STaR: sample chains of thought, keep those with right answers, retrain, repeat
    #[command(after_help = "Example: rlhf-lab star --rounds 8 --problems 4000 --out report")]
    Star(star::Config),
    /// Test-time compute: forced formats, majority votes and a verifier of steps, accuracy against tokens
    #[command(after_help = "Example: rlhf-lab test-time --policy base --k 1,8,64 --out report")]
    TestTime(test_time::Config),
    /// Train the base models that the other commands start from, or check that training makes them again
    #[command(after_help = "Example: rlhf-lab pretrain --models reason-base --check")]
    Pretrain(pretrain::Config),
    /// Join the seeds of several --out directories to one report
    #[command(after_help = "Example: rlhf-lab merge part-0 part-1 --out whole")]
    Merge {
        /// Directories that were the --out of a command with --seeds
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
    /// Lay finished runs of one command side by side: settings, figures, curves
    #[command(after_help = "Example: rlhf-lab compare runs/a runs/b --out comparison")]
    Compare {
        /// A report.json, or the directory that was --out
        #[arg(required = true, num_args = 2.., value_name = "REPORT")]
        reports: Vec<PathBuf>,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: rlhf-lab completions bash > ~/.local/share/bash-completion/completions/rlhf-lab"
    )]
    Completions {
        /// The shell that reads the script
        shell: Shell,
    },
}

/// Parses the process's arguments and runs the command. Usage errors are printed by clap and give
/// exit code 2; an error that is returned is a run-time failure.
pub fn run() -> Result<ExitCode> {
    let matches = match parse(std::env::args_os()) {
        Ok(matches) => matches,
        Err(error) => {
            let text = error.render();
            if error.use_stderr() {
                emit::to_stderr(&text.ansi().to_string());
            } else {
                emit::to_stdout(&text.ansi().to_string())?; // help and version, which were asked for
            }
            return Ok(ExitCode::from(error.exit_code() as u8));
        }
    };
    let cli = Cli::from_arg_matches(&matches).map_err(anyhow::Error::from)?;
    let invocation =
        Invocation { global: cli.global, sweep: sweep_args(&matches)?, typed: reproducing_command(&matches) };
    match cli.demo {
        DemoCommand::ToyRlhf(config) => invocation.execute(&config),
        DemoCommand::Overopt(config) => invocation.execute(&config),
        DemoCommand::ReasonGrpo(config) => invocation.execute(&config),
        DemoCommand::Star(config) => invocation.execute(&config),
        DemoCommand::TestTime(config) => invocation.execute(&config),
        DemoCommand::Pretrain(config) => invocation.execute(&config),
        DemoCommand::Merge { directories } => invocation.merge(&directories),
        DemoCommand::Compare { reports } => invocation.compare(&reports),
        DemoCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(false), "rlhf-lab", &mut script);
            emit::to_stdout(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Parses twice where `--quick` is given: it replaces defaults, and what was typed wins over both.
fn parse<I, T>(args: I) -> Result<ArgMatches, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<std::ffi::OsString> + Clone,
{
    let args: Vec<T> = args.into_iter().collect();
    let matches = command(false).try_get_matches_from(args.clone())?;
    let quick = matches.subcommand().is_some_and(|(_, demo)| demo.get_flag("quick"));
    if quick { command(true).try_get_matches_from(args) } else { Ok(matches) }
}

/// Demos that can be run with many seeds. `overopt` averages over worlds by itself.
const SWEEPABLE: [&str; 4] = [
    <toy_rlhf::Config as Demo>::COMMAND,
    <reason_grpo::Config as Demo>::COMMAND,
    <star::Config as Demo>::COMMAND,
    <test_time::Config as Demo>::COMMAND,
];

/// What was typed of the flags for many seeds.
fn sweep_args(matches: &ArgMatches) -> Result<SweepArgs> {
    match matches.subcommand() {
        Some((name, typed)) if SWEEPABLE.contains(&name) => Ok(SweepArgs::from_arg_matches(typed)?),
        _ => Ok(SweepArgs::default()),
    }
}

/// The whole command line, with the defaults of a full or of a quick run.
fn command(quick: bool) -> Command {
    let command = Cli::command();
    let command = with_quick::<toy_rlhf::Config>(command, quick);
    let command = with_quick::<overopt::Config>(command, quick);
    let command = with_quick::<reason_grpo::Config>(command, quick);
    let command = with_quick::<star::Config>(command, quick);
    let command = with_quick::<test_time::Config>(command, quick);
    let command = with_quick::<pretrain::Config>(command, quick);
    let command = SWEEPABLE
        .iter()
        .fold(command, |command, demo| command.mut_subcommand(demo, <SweepArgs as Args>::augment_args));
    command.mut_args(considerate).mut_subcommands(|demo| demo.mut_args(considerate))
}

/// Lets `--beta -1` be told what β may be, instead of that there is no flag `-1`, and shows the
/// default of a list as it would be typed, with commas. A list may begin with a negative number too.
fn considerate(arg: Arg) -> Arg {
    let arg = arg.allow_negative_numbers(true);
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_value_delimiter().is_none() || defaults.is_empty() {
        return arg;
    }
    let help = format!("{} [default: {}]", arg.get_help().unwrap_or_default(), defaults.join(","));
    arg.help(help).hide_default_value(true).allow_hyphen_values(true)
}

/// Makes the quick values of `D` its defaults, or mentions them in the help.
fn with_quick<D: Page>(command: Command, quick: bool) -> Command {
    command.mut_subcommand(D::COMMAND, |demo| {
        D::QUICK.iter().fold(demo, |demo, &(field, value)| {
            demo.mut_arg(field, |arg| {
                if quick {
                    return arg.default_value(value);
                }
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                arg.help(format!("{help} [quick: {value}]"))
            })
        })
    })
}

/// The command line that gives the same results: what was typed, less where and how to show them.
fn reproducing_command(matches: &ArgMatches) -> String {
    const PRESENTATION: [&str; 7] =
        ["json", "out", "threads", "no_progress", "checkpoints", "retrain", "shard"];
    let Some((name, typed)) = matches.subcommand() else {
        return "rlhf-lab".into();
    };
    let mut words = vec!["rlhf-lab".to_string(), name.to_string()];
    let mut command = command(false);
    command.build(); // hands the global flags down
    let flags = command.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
    for flag in flags.filter(|flag| !PRESENTATION.contains(&flag.get_id().as_str())) {
        let id = flag.get_id().as_str();
        if let (Some(long), Some(ValueSource::CommandLine)) = (flag.get_long(), typed.value_source(id)) {
            words.push(format!("--{long}"));
            if flag.get_action().takes_values() {
                let values = typed.get_raw(id).into_iter().flatten();
                words.push(values.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(","));
            }
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command(false).debug_assert();
        command(true).debug_assert();
    }

    fn config(line: &str) -> toy_rlhf::Config {
        let matches = parse(line.split(' ')).unwrap();
        match Cli::from_arg_matches(&matches).unwrap().demo {
            DemoCommand::ToyRlhf(config) => config,
            _ => panic!("{line} is not toy-rlhf"),
        }
    }

    #[test]
    fn quick_replaces_defaults_and_what_was_typed_wins() {
        for line in ["rlhf-lab --quick toy-rlhf --steps 7", "rlhf-lab toy-rlhf --steps 7 --quick"] {
            let config = config(line);
            assert_eq!((config.steps, config.dpo_steps, config.pairs), (7, 400, vec![100, 1000]));
        }
        assert_eq!(config("rlhf-lab toy-rlhf").steps, toy_rlhf::Config::default().steps);
    }

    #[test]
    fn the_reproducing_command_keeps_what_matters() {
        let line = "rlhf-lab --json toy-rlhf --quick --seed 3 --pairs 10,20 --threads 2 --out /tmp/x";
        let typed = reproducing_command(&parse(line.split(' ')).unwrap());
        assert_eq!(typed, "rlhf-lab toy-rlhf --pairs 10,20 --seed 3 --quick");
    }
}
