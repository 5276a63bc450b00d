//! The architecture as a test: imports point down, and what only one layer may do, no other does.

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer with the layers it may import.
const LAYERS: [(&str, &[&str]); 8] = [
    ("foundation", &[]),
    ("model", &["foundation"]),
    ("policy", &["model", "foundation"]),
    ("algorithms", &["policy", "model", "foundation"]),
    ("worlds", &["policy", "model", "foundation"]),
    ("demos", &["worlds", "algorithms", "policy", "model", "foundation"]),
    ("report", &["demos", "worlds", "algorithms", "policy", "model", "foundation"]),
    ("cli", &["report", "demos", "foundation"]),
];

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The layer of a file: the first component of its path below `src`, without extension.
fn layer(path: &Path) -> String {
    let below = path.strip_prefix(src()).unwrap();
    below.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_string()
}

/// Code without its unit tests, which may look anywhere below, and without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Every `crate::x` in `text`, grouped imports included: `use crate::{x::y, z}`.
fn crate_paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut fresh = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => fresh = true,
                    c if fresh && (c.is_alphanumeric() || c == '_') => word.push(c),
                    _ if !word.is_empty() => {
                        found.push(std::mem::take(&mut word));
                        fresh = false;
                    }
                    _ => {}
                }
            }
            found.extend((!word.is_empty()).then_some(word));
        } else {
            found.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found
}

#[test]
fn grouped_imports_are_seen() {
    assert_eq!(
        crate_paths("use crate::{demos::{a, b}, report};\nuse crate::policy::x;"),
        ["demos", "report", "policy"]
    );
}

#[test]
fn imports_point_down() {
    let mut wrong = Vec::new();
    for path in sources(&src()) {
        let layer = layer(&path);
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
            assert!(layer == "lib" || layer == "main", "{} belongs to no layer", path.display());
            continue;
        };
        for target in crate_paths(&code(&path)) {
            if target != layer && !allowed.contains(&target.as_str()) {
                wrong.push(format!("{} imports crate::{target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_the_report_prints_and_only_demos_and_cli_know_clap() {
    let mut wrong = Vec::new();
    for path in sources(&src()) {
        let (layer, code) = (layer(&path), code(&path));
        for word in ["println!", "print!(", "stdout()", "dbg!("] {
            let stderr_of_main = layer == "main" && word == "println!";
            if code.contains(word) && layer != "report" && !stderr_of_main {
                wrong.push(format!("{} uses {word}", path.display()));
            }
        }
        if code.contains("clap::") && !["demos", "cli"].contains(&layer.as_str()) {
            wrong.push(format!("{} uses clap", path.display()));
        }
        if layer == "foundation" && code.contains("candle") {
            wrong.push(format!("{} uses candle", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn randomness_comes_from_the_seeded_generator_only() {
    for path in sources(&src()) {
        let code = code(&path);
        for word in ["rand::rng(", "thread_rng", "rand_like", "::randn(", "Init::", "SystemTime"] {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn the_binary_is_thin_and_mod_files_only_declare() {
    for path in sources(&src()) {
        let code = code(&path);
        if path.ends_with("src/main.rs") {
            assert!(code.lines().count() <= 60);
        } else if path.ends_with("mod.rs") {
            for line in code.lines().filter(|line| !line.trim().is_empty()) {
                assert!(
                    line.starts_with("pub mod ") || line.starts_with("mod "),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }
}
