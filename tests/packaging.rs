//! What is shipped beside the program says the truth about it: the example configuration, the unit
//! and the files in the README are accepted, and the defaults written in them are the defaults.

#![expect(clippy::panic, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
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
    assert!(shown >= 18, "only {shown} lines show a default");
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
fn units_wait_longer_than_connections_may_last() {
    for name in UNITS {
        let patience = config::parse_duration(&value(name, "TimeoutStopSec")).unwrap();
        let example = parse("the example", &read("packaging/evenkeel.toml"));
        let deadline = example.global.drain_deadline.unwrap();
        let least = deadline + Duration::from_secs(5);
        assert!(patience >= least, "{name}: {patience:?} for {deadline:?}");
    }
}

/// systemd before 253 does not know the second type, and keeps to the one before.
#[test]
fn units_wait_for_the_program_to_say_that_it_is_ready_and_watch_it() {
    for name in UNITS {
        assert_eq!(settings(name)["Type"], ["notify", "notify-reload"], "{name}");
        let watchdog = config::parse_duration(&value(name, "WatchdogSec")).unwrap();
        assert!(watchdog >= Duration::from_secs(10), "{name}: a busy machine is no stuck loop");
    }
}

#[test]
fn commands_of_units_are_understood() {
    for name in UNITS {
        let unit = read(name);
        let mut seen = 0;
        for line in unit.lines().filter(|line| line.starts_with("Exec")) {
            let (_, command) = line.split_once('=').unwrap();
            let command = command.replace("/etc/evenkeel/evenkeel.toml", "example.toml");
            let meant = evenkeel::cli::parse(command.split_whitespace());
            assert!(meant.is_ok(), "{name}: {line}: {meant:?}");
            seen += 1;
        }
        assert_eq!(seen, 2, "{name}: ExecStartPre and ExecStart");
    }
}

/// The kernel lets only processes of one user share a port, and a user made for each instance
/// would be another one each time.
#[test]
fn processes_of_the_template_are_of_one_user_and_told_apart() {
    let [single, template] = UNITS;
    assert_eq!(value(template, "DynamicUser"), "yes");
    assert_eq!(value(template, "User"), "evenkeel", "a name that does not vary");
    assert!(value(template, "SyslogIdentifier").contains("%i"));
    // A folder of all of them would be removed when the first one stops.
    assert!(!settings(template).contains_key("RuntimeDirectory"));
    // They would overwrite each other's state_file.
    assert!(!settings(template).contains_key("StateDirectory"));
    let mut others = (settings(single), settings(template));
    for key in ["Description", "RuntimeDirectory", "StateDirectory", "SyslogIdentifier", "User"] {
        others.0.remove(key);
        others.1.remove(key);
    }
    assert_eq!(others.0, others.1, "the two units differ in nothing else");
}

#[test]
fn files_in_the_readme_are_accepted() {
    let readme = read("README.md");
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for block in readme.split("```toml\n").skip(1) {
        let (text, _) = block.split_once("```").expect("the block has no end");
        let path = folder.path().join(format!("{seen}.toml"));
        // The folder of the state file is there only where it is installed.
        let here = folder.path().to_string_lossy();
        fs::write(&path, text.replace("/var/lib/evenkeel", &here)).unwrap();
        let output = check(&path);
        assert!(output.status.success() && output.stderr.is_empty(), "{text}\n{output:?}");
        seen += 1;
    }
    assert!(seen > 0, "the README shows no file");
}

#[test]
fn every_key_stands_in_the_readme() {
    let readme = read("README.md");
    let (_, chapter) = readme.split_once("## Configuration").expect("there is a chapter");
    let (chapter, _) = chapter.split_once("### Coming from").expect("the chapter has an end");
    let text = "[global]\nx=1\n[admin]\nlisten=':2'\nx=1\n[listener.web]\nbind=':1'\nx=1\n[pool.web]\nx=1\n\
                backends=[{ address='a:1', x=1 }]\n[pool.web.health]\nx=1\n";
    let refusal = config::parse("every table", text).expect_err("x is no key").to_string();
    let mut keys = 0;
    for list in refusal.split("known keys are ").skip(1) {
        for key in list.lines().next().unwrap_or_default().split(", ") {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let stands = chapter.split(|c| !is_word(c)).any(|word| word == key);
            assert!(stands, "{key} does not stand in the README");
            keys += 1;
        }
    }
    assert!(keys >= 50, "only {keys} keys were found");
}

/// The value of a key that a unit has once.
fn value(unit: &str, key: &str) -> String {
    let values = settings(unit).remove(key);
    let values = values.unwrap_or_else(|| panic!("{unit} has no {key}"));
    assert_eq!(values.len(), 1, "{unit}: {key}");
    values.concat()
}

/// What a unit sets, by key; comments aside.
fn settings(unit: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in read(unit).lines().filter(|line| !line.starts_with('#')) {
        if let Some((key, value)) = line.split_once('=') {
            all.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    all
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

/// For one process, and for each of several.
const UNITS: [&str; 2] = ["packaging/evenkeel.service", "packaging/evenkeel@.service"];
