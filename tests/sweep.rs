//! Many seeds, in parts and resumed, and finished runs side by side: the real binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rlhf-lab")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(args: &[&str]) -> String {
    let output = lab(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The report in a directory, less what varies.
fn report(directory: &Path) -> Value {
    let mut report: Value =
        serde_json::from_slice(&fs::read(directory.join("report.json")).unwrap()).unwrap();
    report.as_object_mut().unwrap().remove("timing");
    report
}

fn path(directory: &Path) -> &str {
    directory.to_str().unwrap()
}

const QUICK: [&str; 4] = ["toy-rlhf", "--quick", "--seed", "3"];

fn run(more: &[&str]) -> String {
    done(&[&QUICK, more].concat())
}

/// The error of a command that fails with `code`, in one line unless it is a usage error.
fn fails(args: &[&str], code: i32) -> String {
    let output = lab(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty() && (code == 2 || stderr.lines().count() == 1), "{args:?}: {stderr}");
    stderr
}

#[test]
fn parts_merged_are_the_whole_and_its_seeds_are_single_runs() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    run(&["--seeds", "5", "--out", path(&at("whole")), "--threads", "2"]);
    for part in ["0", "1"] {
        run(&["--seeds", "5", "--shard", &format!("{part}/2"), "--out", path(&at(part))]);
    }
    done(&["merge", path(&at("0")), path(&at("1")), "--out", path(&at("merged"))]);
    let whole = report(&at("whole"));
    assert_eq!(whole, report(&at("merged")));
    assert_eq!(whole["seeds"], serde_json::json!([3, 4, 5, 6, 7]));
    assert_eq!(
        fs::read(at("whole").join("curves.csv")).unwrap(),
        fs::read(at("merged").join("curves.csv")).unwrap()
    );
    done(&["toy-rlhf", "--quick", "--seed", "6", "--out", path(&at("single"))]);
    assert_eq!(report(&at("single")), report(&at("whole").join("seeds/6")));

    // By hand: the mean of what the single runs say, inside its interval.
    let tv = |seed: u64| {
        report(&at("whole").join(format!("seeds/{seed}")))["results"]["reinforce"]["tv"].as_f64().unwrap()
    };
    let mean = (3..8).map(tv).sum::<f64>() / 5.0;
    let metrics = whole["results"]["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|metric| metric["name"] == "reinforce.tv").unwrap();
    assert!((metric["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    let ends = |i: usize| metric["interval"][i].as_f64().unwrap();
    assert!(ends(0) < mean && mean < ends(1));
}

#[test]
fn finished_seeds_are_not_run_again_unless_they_differ() {
    let dir = tempfile::tempdir().unwrap();
    let out = path(dir.path());
    run(&["--seeds", "2", "--out", out]);
    let first = dir.path().join("seeds/3/report.json");
    // A mark that only a run that was taken from the file carries.
    let marked = fs::read_to_string(&first).unwrap().replacen("\"threads\": 1", "\"threads\": 77", 1);
    fs::write(&first, &marked).unwrap();
    run(&["--seeds", "3", "--out", out]);
    assert_eq!(fs::read_to_string(&first).unwrap(), marked);
    assert_eq!(report(dir.path())["seeds"], serde_json::json!([3, 4, 5]));
    run(&["--seeds", "1", "--out", out, "--steps", "7"]);
    assert_eq!(report(&dir.path().join("seeds/3"))["config"]["steps"], 7);
    // Half a report, as a full disk may leave: said, and run again.
    fs::write(&first, &marked[..marked.len() / 2]).unwrap();
    let output = lab(&[&QUICK, &["--seeds", "1", "--out", out] as &[&str]].concat());
    assert!(output.status.success() && text(&output.stderr).contains("running again"));
    assert_eq!(report(&dir.path().join("seeds/3"))["config"]["steps"], 300);
}

#[test]
fn runs_are_compared_settings_first() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    run(&["--out", path(&at("a"))]);
    run(&["--beta", "0.2", "--out", path(&at("b"))]);
    let shown = done(&["compare", path(&at("a")), path(&at("b/report.json")), "--out", path(&at("c"))]);
    let (settings, figures) = (shown.find("One thing differs: beta.").unwrap(), shown.find("B − A").unwrap());
    assert!(settings < figures && shown.contains("REINFORCE, distance to π*"), "{shown}");
    assert!(shown.contains("does not tell a difference from chance"), "{shown}");
    let results = &report(&at("c"))["results"];
    assert_eq!(results["settings"][0], serde_json::json!({ "name": "beta", "values": ["0.5", "0.2"] }));
    assert!(at("c").join("curve_00.svg").exists());

    let same = done(&["compare", path(&at("a")), path(&at("a"))]);
    assert!(same.contains("Nothing differs"), "{same}");
    run(&["--seeds", "3", "--out", path(&at("many"))]);
    let many = done(&["compare", path(&at("many")), path(&at("many"))]);
    assert!(many.contains("do not overlap in 0 of"), "{many}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    run(&["--seeds", "1", "--out", path(&at("a"))]);
    run(&["--seeds", "1", "--beta", "0.2", "--out", path(&at("b"))]);
    done(&["overopt", "--quick", "--out", path(&at("o"))]);
    let error = fails(&["merge", path(&at("a")), path(&at("b"))], 1);
    assert!(error.contains("beta is 0.5 in one and 0.2 in the other"), "{error}");
    assert!(fails(&["merge", path(&at("o"))], 1).contains("--seeds"));
    assert!(fails(&["merge", path(&at("nowhere"))], 1).contains("nowhere"));
    let error = fails(&["compare", path(&at("a")), path(&at("o"))], 1);
    assert!(error.contains("toy-rlhf") && error.contains("overopt"), "{error}");
    fs::write(at("o").join("report.json"), "{}").unwrap();
    assert!(fails(&["compare", path(&at("o")), path(&at("o"))], 1).contains("report.json"));
    fails(&["compare", path(&at("a"))], 2);
    for wrong in [
        &["--seeds", "0"] as &[&str],
        &["--seeds", "2", "--shard", "2/2", "--out", "x"],
        &["--shard", "0/2"],
        &["--seeds", "2", "--shard", "0/2"],
    ] {
        let error = fails(&[&QUICK, wrong].concat(), 2);
        assert!(error.contains("--s") || error.contains("--out"), "{error}");
    }
    let none =
        fails(&[&QUICK, &["--seeds", "1", "--shard", "1/2", "--out", path(&at("x"))] as &[&str]].concat(), 1);
    assert!(none.contains("no seed"), "{none}");
}
