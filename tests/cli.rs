//! The real binary, used well and badly.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn lab(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rlhf-lab"));
    command.args(args).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The parsed JSON of a successful run.
fn json(args: &[&str]) -> Value {
    let output = lab(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const DEMOS: [&str; 6] = ["toy-rlhf", "overopt", "reason-grpo", "star", "test-time", "pretrain"];

#[test]
fn json_follows_the_contract() {
    for demo in DEMOS {
        let report = json(&[demo, "--quick", "--seed", "5"]);
        assert_eq!(report["schema"], 1);
        assert_eq!(report["command"], demo);
        assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!((&report["seed"], &report["quick"]), (&Value::from(5), &Value::from(true)));
        assert!(report["timing"]["seconds"].as_f64().unwrap() >= 0.0);
        assert!(report["config"].is_object());
    }
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let has = |value: &Value, wanted: &[&str]| {
        let keys = keys(value);
        for key in wanted {
            assert!(keys.iter().any(|k| k == key), "{key} is not among {keys:?}");
        }
    };
    let toy = &json(&["toy-rlhf", "--quick"])["results"];
    has(toy, &["closed_form", "reinforce", "dpo", "implicit_reward", "dpo_trap"]);
    has(&toy["closed_form"], &["answers", "r_true", "pi_ref", "reference_reward", "rows"]);
    has(&toy["closed_form"]["rows"][0], &["beta", "expected_reward", "kl", "policy"]);
    has(&toy["reinforce"], &["beta", "target", "policy", "tv", "curve"]);
    has(&toy["reinforce"]["curve"][0], &["step", "tv", "expected_reward", "kl"]);
    has(&toy["dpo"], &["beta", "rows"]);
    has(&toy["dpo"]["rows"][0], &["pairs", "tv", "expected_reward", "kl", "policy"]);
    has(&toy["implicit_reward"], &["true_centered", "implicit_centered"]);
    has(&toy["dpo_trap"], &["beta", "target_p0", "target_kl", "rows", "ipo"]);
    has(&toy["dpo_trap"]["rows"][0], &["step", "p0", "kl"]);
    assert_eq!(toy["closed_form"]["answers"].as_array().unwrap().len(), 6);

    let overopt = &json(&["overopt", "--quick"])["results"];
    has(overopt, &["seed0", "mean", "seeds", "declined"]);
    has(&overopt["seed0"], &["n_seen", "corr_weighted", "corr", "rows"]);
    has(&overopt["seed0"]["rows"][0], &["n", "kl", "kl_formula", "proxy", "gold", "gold_select"]);
    has(&overopt["mean"], &["n", "proxy", "gold", "gold_se"]);

    let reason = &json(&["reason-grpo", "--quick"])["results"];
    let examination = ["greedy", "sampled", "forced"];
    has(&reason["base"], &examination);
    has(&reason["base"]["greedy"], &["acc", "length", "chain_ok", "share"]);
    for part in [&reason["base"]["sampled"]["share"], &reason["base"]["forced"]] {
        has(part, &["direct", "short", "full"]);
    }
    assert_eq!(
        (&reason["runs"][0]["algo"], &reason["runs"][1]["algo"]),
        (&"grpo".into(), &"reinforce".into())
    );
    for run in reason["runs"].as_array().unwrap() {
        has(&run["final"], &examination);
        has(&run["curve"][0], &["step", "reward", "acc", "length", "share", "kl"]);
        assert_eq!(run["curve"][0]["kl"], 0.0);
        assert!(run["diverged"].is_null());
    }

    let star = &json(&["star", "--quick"])["results"];
    has(&star["start"], &["acc", "chain_ok"]);
    has(&star["rounds"][1], &["round", "sampled", "kept", "kept_wrong_chain", "acc", "chain_ok"]);
    has(&star["controls"][1], &["name", "acc", "chain_ok"]);

    let test_time = &json(&["test-time", "--quick"])["results"];
    has(&test_time["rows"][0], &["strategy", "k", "acc", "tokens"]);
}

#[test]
fn results_do_not_depend_on_threads_or_repetition() {
    for demo in DEMOS {
        let stable = |threads: &str| {
            let mut report = json(&[demo, "--quick", "--threads", threads]);
            report.as_object_mut().unwrap().remove("timing");
            serde_json::to_string(&report).unwrap()
        };
        let one = stable("1");
        assert_eq!(one, stable("2"));
        assert_eq!(one, stable("7"));
        assert_eq!(one, stable("1"));
        assert_ne!(one, serde_json::to_string(&json(&[demo, "--quick", "--seed", "1"])).unwrap());
    }
}

/// Every leaf of a JSON document with its path.
fn leaves<'a>(path: String, value: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                leaves(format!("{path}[{i}]"), item, found);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                leaves(format!("{path}.{key}"), item, found);
            }
        }
        leaf => found.push((path, leaf)),
    }
}

/// serde_json writes NaN and infinities as null, so a null that the contract does not know is one.
#[test]
fn no_run_reports_a_number_that_is_none() {
    let extremes: [&[&str]; 16] = [
        &["toy-rlhf", "--quick", "--sweep", "-0,0,1"],
        &["overopt", "--quick", "--l2", "-0", "--n", "5"],
        &["toy-rlhf", "--quick"],
        &["toy-rlhf", "--quick", "--pairs", "1", "--trap-pairs", "1"],
        &["toy-rlhf", "--quick", "--lr", "10", "--beta", "0.001"],
        &["toy-rlhf", "--quick", "--beta", "1000", "--sweep", "0,1e-300,1e9"],
        &["toy-rlhf", "--steps", "1", "--batch", "2", "--dpo-steps", "1"],
        &["overopt", "--quick", "--n", "1,1000000000000000000"],
        &["overopt", "--quick", "--concentration", "0.05", "--answers", "20000", "--steps", "20"],
        &["overopt", "--quick", "--pairs", "20", "--lr", "10", "--l2", "1000"],
        &["overopt", "--quick", "--concentration", "1000"],
        &["reason-grpo", "--quick", "--k-min", "1", "--k-max", "1", "--group", "2", "--prompts", "1"],
        &["reason-grpo", "--quick", "--lr", "0", "--beta", "0", "--clip", "0", "--inner", "1"],
        &["star", "--quick", "--rounds", "1", "--problems", "1", "--evaluation", "1", "--batch", "1"],
        &["test-time", "--quick", "--k", "3", "--problems", "2"],
        &["pretrain", "--quick", "--models", "star-base"],
    ];
    for args in extremes {
        let report = json(args);
        let mut found = Vec::new();
        leaves(String::new(), &report, &mut found);
        for (path, leaf) in found {
            let may_be_missing =
                ["loose_from", "corr", "corr_weighted", "tv_expected", "chain_ok", "diverged", "check"];
            let may_be_missing = may_be_missing.iter().any(|key| path.ends_with(key));
            assert!(!leaf.is_null() || may_be_missing, "{args:?}: {path} is null");
        }
    }
    let alone = json(&["overopt", "--quick", "--seeds", "1", "--answers", "2", "--pairs", "1"]);
    assert!(alone["results"]["mean"]["gold_se"][0].is_null(), "one world has no standard error");
}

/// A learning rate of 1e9 ends in a report that says at which step, and not in one full of NaN.
#[test]
fn divergence_is_a_result() {
    let report = json(&["reason-grpo", "--quick", "--steps", "20", "--lr", "1e9"]);
    for run in report["results"]["runs"].as_array().unwrap() {
        let step = run["diverged"]["step"].as_u64().expect("training at 1e9 diverges");
        assert_eq!(run["curve"].as_array().unwrap().len() as u64, step - 1);
        assert!(run["final"].is_null() && step < 20);
    }
    let stdout = text(&lab(&["reason-grpo", "--quick", "--steps", "20", "--lr", "1e9"]).stdout);
    assert!(
        stdout.contains("GRPO diverged") && stdout.contains("at step") && !stdout.contains("NaN"),
        "{stdout}"
    );
    let output = lab(&["star", "--quick", "--lr", "1e30"]);
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("diverged") && stderr.contains("step"), "{stderr}");
}

/// Copies the committed checkpoints into a directory that a test may spoil.
fn checkpoints() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["reason-base", "star-base"] {
        let (from, to) = (Path::new("checkpoints").join(name), copy.path().join(name));
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

#[test]
fn a_damaged_checkpoint_is_an_error_that_names_the_file() {
    for (file, content) in [
        ("model.safetensors", ""),
        ("config.json", "{}"),
        ("recipe.json", "nonsense"),
        ("tokenizer.json", "[]"),
    ] {
        let copy = checkpoints();
        fs::write(copy.path().join("reason-base").join(file), content).unwrap();
        let output = lab(&["reason-grpo", "--quick", "--checkpoints", copy.path().to_str().unwrap()]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {stderr}");
        assert!(stderr.contains(file) && stderr.lines().count() == 1, "{file}: {stderr}");
        assert!(output.stdout.is_empty(), "{file}");
    }
}

#[test]
fn pretrain_checks_what_is_there_and_needs_it_whole() {
    let (empty, copy) = (tempfile::tempdir().unwrap(), checkpoints());
    let quick = lab(&["pretrain", "--quick", "--checkpoints", empty.path().to_str().unwrap()]);
    assert!(quick.status.success());
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "a shortened model is not kept");
    let none = lab(&["pretrain", "--check", "--quick", "--checkpoints", copy.path().to_str().unwrap()]);
    assert_eq!(none.status.code(), Some(2), "{}", text(&none.stderr));
}

#[test]
fn bad_input_is_a_usage_error_that_names_the_flag() {
    let many = (1..=2000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let cases: [(&[&str], &str); 47] = [
        (&["toy-rlhf", "--dpo-steps", "10000000", "--pairs", &many], "--pairs"),
        (&["toy-rlhf", "--sweep", &many], "--sweep"),
        (
            &["overopt", "--seeds", "10000", "--answers", "2", "--pairs", "1", "--steps", "1", "--n", &many],
            "--n",
        ),
        (&["overopt", "--seeds", "1", "--pairs", "10000000", "--steps", "90000"], "--steps"),
        (&["toy-rlhf", "--pairs", "1e3"], "whole number from 1 to"),
        (&[], "Usage"),
        (&["toy-rhlf"], "toy-rlhf"),
        (&["toy-rlhf", "--beta", "0"], "--beta"),
        (&["toy-rlhf", "--beta", "-1"], "--beta"),
        (&["toy-rlhf", "--beta", "nan"], "--beta"),
        (&["toy-rlhf", "--beta", "inf"], "--beta"),
        (&["toy-rlhf", "--beta", ""], "--beta"),
        (&["toy-rlhf", "--sweep", "1,,2"], "--sweep"),
        (&["toy-rlhf", "--sweep", "1,-2"], "--sweep"),
        (&["toy-rlhf", "--lr", "1e9"], "--lr"),
        (&["toy-rlhf", "--steps", "0"], "--steps"),
        (&["toy-rlhf", "--steps", "-5"], "--steps"),
        (&["toy-rlhf", "--steps", "1000000000000000000"], "--steps"),
        (&["toy-rlhf", "--steps", "10000000", "--batch", "100000"], "--batch"),
        (&["toy-rlhf", "--batch", "1"], "--batch"),
        (&["toy-rlhf", "--pairs", "0"], "--pairs"),
        (&["toy-rlhf", "--pairs", "1000000000000000000"], "--pairs"),
        (&["toy-rlhf", "--dpo-steps", "1.5"], "--dpo-steps"),
        (&["toy-rlhf", "--seed", "-1"], "--seed"),
        (&["toy-rlhf", "--seed", "99999999999999999999"], "--seed"),
        (&["toy-rlhf", "--threads", "0"], "--threads"),
        (&["overopt", "--threads", "1000000000000000000"], "--threads"),
        (&["overopt", "--seeds", "0"], "--seeds"),
        (&["overopt", "--seeds", "1000000000000000000"], "--seeds"),
        (&["overopt", "--seeds", "10000", "--steps", "1000000"], "--steps"),
        (&["overopt", "--n", "0"], "--n"),
        (&["overopt", "--concentration", "0"], "--concentration"),
        (&["reason-grpo", "--group", "1"], "--group"),
        (&["reason-grpo", "--k-min", "8", "--k-max", "2"], "--k-min"),
        (&["reason-grpo", "--k-max", "9"], "--k-max"),
        (&["reason-grpo", "--algo", "ppo"], "--algo"),
        (&["reason-grpo", "--algo", ""], "--algo"),
        (&["reason-grpo", "--lr", "nan"], "--lr"),
        (&["reason-grpo", "--beta", "-1"], "--beta"),
        (&["reason-grpo", "--clip", "2"], "--clip"),
        (&["reason-grpo", "--prompts", "4096", "--group", "4096"], "--prompts"),
        (&["star", "--rounds", "0"], "--rounds"),
        (&["star", "--batch", "1000000000"], "--batch"),
        (&["test-time", "--k", "0"], "--k"),
        (&["test-time", "--k", "1024", "--problems", "100000"], "--k"),
        (&["test-time", "--policy", "star,best"], "--policy"),
        (&["pretrain", "--models", "gpt-5"], "--models"),
    ];
    for (args, named) in cases {
        let output = lab(args);
        let shown: String = args.join(" ").chars().take(80).collect();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{shown}: {stderr}");
        assert!(stderr.contains(named), "{shown}: {stderr}");
        assert!(output.stdout.is_empty() && !stderr.contains("panicked"), "{shown}: {stderr}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    for args in [["toy-rlhf", "--quick", "--json"], ["overopt", "--quick", "--no-progress"]] {
        let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(child.wait().unwrap().success(), "{stderr}");
        assert_eq!(stderr, "");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_in_one_line() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["toy-rlhf", "--quick"]).stdout(full).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn nowhere_to_complain_is_no_panic() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (args, code) in [(["toy-rlhf", "--out=/proc/x"], 1), (["toy-rlhf", "--beta=0"], 2)] {
        assert_eq!(command(&args).stderr(full()).status().unwrap().code(), Some(code));
    }
    assert_eq!(command(&["--help"]).stdout(full()).status().unwrap().code(), Some(1));
}

#[test]
fn out_holds_every_file_and_the_same_json() {
    let dir = tempfile::tempdir().unwrap();
    let plots: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("toy-rlhf", &["frontier", "reinforce", "policies", "dpo", "implicit_reward", "dpo_trap"] as &[&str]),
        ("overopt", &["mean", "world0", "kl_bound"]),
        ("reason-grpo", &["formats", "accuracy", "length", "lazy", "kl"]),
        ("star", &["rounds"]),
        ("test-time", &["vote_base", "vote_grpo", "vote_star"]),
        ("pretrain", &[]),
    ]);
    for demo in DEMOS {
        let out = dir.path().join("deep").join(demo);
        let report = json(&[demo, "--quick", "--out", out.to_str().unwrap()]);
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&read("report.json")).unwrap(), report);
        let mut names: Vec<String> =
            fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let mut want: Vec<String> = plots[demo].iter().map(|id| format!("{id}.svg")).collect();
        want.extend(["curves.csv", "report.html", "report.json"].map(String::from));
        want.sort();
        assert_eq!(names, want);

        let html = read("report.html");
        assert!(html.contains(&format!("rlhf-lab {demo} --quick")));
        for plot in plots[demo] {
            let svg = read(&format!("{plot}.svg"));
            assert!(svg.starts_with("<svg") && svg.contains("viewBox"), "{plot}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{plot}");
        }
        let mut rows = csv::Reader::from_reader(fs::File::open(out.join("curves.csv")).unwrap());
        assert_eq!(rows.headers().unwrap(), vec!["curve", "x_name", "x", "metric", "value"]);
        let values: Vec<f64> = rows.records().map(|row| row.unwrap()[4].parse().unwrap()).collect();
        assert!(values.len() > 10 || demo == "pretrain", "{demo}");
        assert!(values.iter().all(|v| v.is_finite()), "{demo}");
    }
}

#[test]
fn an_unusable_out_is_reported_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    fs::write(&file, "keep me").unwrap();
    for out in [file.as_path(), &file.join("below"), Path::new("/proc/nowhere"), Path::new("")] {
        let output = lab(&["toy-rlhf", "--quick", "--out", out.to_str().unwrap()]);
        let stderr = text(&output.stderr);
        let code = if out == Path::new("") { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{out:?}: {stderr}");
        assert!(stderr.contains("--out") && output.stdout.is_empty(), "{out:?}: {stderr}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "keep me");
}

#[test]
fn text_is_plain_in_a_pipe_and_styled_on_demand() {
    let plain = text(&lab(&["toy-rlhf", "--quick"]).stdout);
    assert!(plain.contains("π*") && !plain.contains('\u{1b}'));
    let forced = command(&["toy-rlhf", "--quick"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(text(&forced.stdout).contains('\u{1b}'));
    let both =
        command(&["toy-rlhf", "--quick"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!text(&both.stdout).contains('\u{1b}'), "NO_COLOR wins");
}

#[test]
fn help_shows_defaults_and_an_example() {
    for demo in DEMOS {
        let help = text(&lab(&[demo, "--help"]).stdout);
        for wanted in ["[default: ", "[quick: ", "Example", "--seed", "--out"] {
            assert!(help.contains(wanted), "{demo}: {wanted}\n{help}");
        }
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(text(&lab(&["completions", shell]).stdout).contains("overopt"));
    }
    assert_eq!(text(&lab(&["--version"]).stdout), format!("rlhf-lab {}\n", env!("CARGO_PKG_VERSION")));
}
