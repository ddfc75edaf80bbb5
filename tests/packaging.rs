//! What is shipped beside the program says the truth about it: the example configuration, the unit
//! and the files in the README are accepted, and the defaults written in them are the defaults.

#![expect(clippy::panic, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use evenkeel::config::{self, Config};

#[test]
fn the_example_is_accepted_without_a_warning() {
    let output = check(&shipped("packaging/evenkeel.toml"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout.contains("fine (1 listener, 1 pool, 3 backends)"), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "warnings");
}

#[test]
fn defaults_shown_in_the_example_are_the_defaults() {
    let text = read("packaging/evenkeel.toml");
    let shown = text.lines().filter(|line| is_default(line)).count();
    assert!(shown >= 16, "only {shown} lines show a default");
    let spelt_out: String = text
        .lines()
        .map(|line| if is_default(line) { &line[1..] } else { line })
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut spelt_out = parse("the example with its defaults", &spelt_out);
    // These two have no default but show what a limit looks like.
    assert_eq!(spelt_out.global.max_connections.take(), Some(10_000));
    assert_eq!(spelt_out.listeners[0].max_connections.take(), Some(5_000));
    assert_eq!(spelt_out, parse("the example", &text));
}

#[test]
fn the_unit_waits_longer_than_connections_may_last() {
    let unit = read("packaging/evenkeel.service");
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("the unit has no {key}")).to_owned()
    };
    let patience = config::parse_duration(&value("TimeoutStopSec")).unwrap();
    let example = parse("the example", &read("packaging/evenkeel.toml"));
    let deadline = example.global.drain_deadline.unwrap();
    assert!(patience >= deadline + Duration::from_secs(5), "{patience:?} for {deadline:?}");
}

#[test]
fn commands_of_the_unit_are_understood() {
    let unit = read("packaging/evenkeel.service");
    let mut seen = 0;
    for line in unit.lines().filter(|line| line.starts_with("Exec")) {
        let (_, command) = line.split_once('=').unwrap();
        let command = command.replace("/etc/evenkeel/evenkeel.toml", "example.toml");
        let meant = evenkeel::cli::parse(command.split_whitespace());
        assert!(meant.is_ok(), "{line}: {meant:?}");
        seen += 1;
    }
    assert_eq!(seen, 2, "ExecStartPre and ExecStart");
}

#[test]
fn files_in_the_readme_are_accepted() {
    let readme = read("README.md");
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for block in readme.split("```toml\n").skip(1) {
        let (text, _) = block.split_once("```").expect("the block has no end");
        let path = folder.path().join(format!("{seen}.toml"));
        fs::write(&path, text).unwrap();
        let output = check(&path);
        assert!(output.status.success() && output.stderr.is_empty(), "{text}\n{output:?}");
        seen += 1;
    }
    assert!(seen > 0, "the README shows no file");
}

/// Whether a line is a key with its default, commented out: a "#" without a space.
fn is_default(line: &str) -> bool {
    line.strip_prefix('#').is_some_and(|rest| rest.starts_with(char::is_alphabetic))
}

fn check(file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["check", "--offline", "-c"]).arg(file);
    command.output().unwrap_or_else(|error| panic!("the program does not start: {error}"))
}

fn parse(name: &str, text: &str) -> Config {
    config::parse(name, text).unwrap_or_else(|error| panic!("{error}")).config
}

fn read(path: &str) -> String {
    fs::read_to_string(shipped(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
