//! `evenkeel check` as its user sees it: the real program, its output and its exit code.
//!
//! Each `golden/NAME.toml` is wrong in some way, and `golden/NAME.stderr` is exactly what is said
//! about it. `UPDATE_GOLDEN=1` writes the expectations anew; read the difference before it is kept.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot reach its files or the program has failed"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn every_wrong_file_is_answered_as_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut names = golden_names();
    names.sort();
    let mut failures = String::new();
    for name in &names {
        let output = check(&golden(), &["check", "-c", &format!("{name}.toml")]);
        let stderr = text(&output.stderr);
        let expectation = golden().join(format!("{name}.stderr"));
        if update {
            std::fs::write(&expectation, &stderr).unwrap();
        }
        let expected = std::fs::read_to_string(&expectation).unwrap_or_default();
        if stderr != expected || expected.is_empty() {
            failures += &format!("\n{name}: expected\n{expected}\n{name}: got\n{stderr}");
        }
        if output.status.code() != Some(3) || !output.stdout.is_empty() {
            let stdout = text(&output.stdout);
            failures += &format!("\n{name}: exit {:?}, stdout {stdout:?}", output.status);
        }
    }
    assert!(names.len() >= 25, "only {} cases were found", names.len());
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_expectation_has_its_file() {
    let with = |extension: &str| {
        let mut names = golden_names_with(extension);
        names.sort();
        names
    };
    assert_eq!(with("toml"), with("stderr"));
}

#[test]
fn a_state_file_is_looked_at_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let file = format!(
        "[global]\nstate_file = '{}'\n[listener.web]\nbind = ':3030'\n[pool.web]\n\
         backends = ['127.0.0.1:5001']\n",
        state.display()
    );
    std::fs::write(folder.path().join("x.toml"), file).unwrap();
    let look = || {
        let Output { status, stdout, stderr } = check(folder.path(), &["check", "-c", "x.toml"]);
        (status.code(), text(&stdout), text(&stderr))
    };
    let fine = "x.toml: fine (1 listener, 1 pool, 1 backend)\n".to_owned();
    assert_eq!(look(), (Some(0), fine.clone(), String::new()), "there is none yet");
    let kept = r#"{"evenkeel_state":1,"pools":{"web":[{"address":"127.0.0.1:5001","weight":2}]}}"#;
    std::fs::write(&state, kept).unwrap();
    let line = format!("{}: 1 backend was changed at run time\n", state.display());
    assert_eq!(look(), (Some(0), fine + &line, String::new()));
    std::fs::write(&state, "stray\n").unwrap();
    let (code, shown, errors) = look();
    assert_eq!((code, shown.as_str()), (Some(3), ""));
    assert!(errors.contains("is no state file of evenkeel") && errors.contains("move it away"));
    std::fs::remove_file(&state).unwrap();
    let moved = format!("{}/none/state", folder.path().display());
    let file = std::fs::read_to_string(folder.path().join("x.toml")).unwrap();
    let file = file.replace(&*state.to_string_lossy(), &moved);
    std::fs::write(folder.path().join("x.toml"), file).unwrap();
    let (code, _, errors) = look();
    assert!(code == Some(0) && errors.starts_with("warning: changes made at"), "{errors}");
    assert!(errors.contains("make its folder"), "{errors}");
}

#[test]
fn a_good_file_is_fine() {
    let directory = tempfile::tempdir().unwrap();
    let file = "
        [listener.web]
        bind = [':3030', '[::1]:0']
        [listener.api]
        bind = ['unix:/run/api.sock']
        pool = 'web'
        [pool.web]
        backends = ['127.0.0.1:5001', { address = 'localhost:5002', weight = 0 }]
    ";
    std::fs::write(directory.path().join("good.toml"), file).unwrap();
    let output = check(directory.path(), &["check", "--offline", "-c", "good.toml"]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "good.toml: fine (2 listeners, 1 pool, 2 backends)\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn warnings_do_not_make_a_file_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let file = "[listener.web]\nbind = ':3030'\n[pool.web]\nbackends = ['a:1']\n\
                [pool.spare]\nbackends = ['b:1']\n[pool.web.health]\ntimeout = '3s'\n";
    std::fs::write(directory.path().join("c.toml"), file).unwrap();
    let output = check(directory.path(), &["check", "-c", "c.toml", "--offline"]);
    assert_eq!(
        text(&output.stderr),
        "c.toml:5:7: warning: no listener uses [pool.spare]\n  |\n5 | [pool.spare]\n  \
         |       ^^^^^ write pool = \"spare\" in a listener, or remove it\n\n\
         c.toml:8:11: warning: `timeout` 3s is longer than `interval` 2s\n  |\n\
         8 | timeout = '3s'\n  |           ^^^^ a backend that does not answer is probed less \
         often than the interval says\n"
    );
    assert_eq!(text(&output.stdout), "c.toml: fine (1 listener, 2 pools, 2 backends)\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn what_is_odd_but_possible_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    for (pool, expected) in [
        (
            "backends = [{ address = 'a:1', backup = true }]",
            "every backend of [pool.web] is a backup, so all serve as if none were",
        ),
        (
            "balance = 'first'\nbackends = ['a:1', 'b:1']",
            "`a:1` has no `max_connections`: while it is up, those after it get no clients",
        ),
        ("queue = 7\nbackends = ['a:1']", "no backend of [pool.web] can be full"),
        ("queue_timeout = '7s'\nbackends = ['a:1']", "no backend of [pool.web] can be full"),
        // None of these is odd.
        ("balance = 'first'\nbackends = [{ address = 'a:1', max_connections = 1 }, 'b:1']", ""),
        ("balance = 'first'\nbackends = ['a:1', 'b:1']\nhealth.agent = ':9'", ""),
        ("backends = ['a:1', { address = 'b:1', backup = true }]", ""),
        ("queue = 7\nbackends = [{ address = 'a:1', max_connections = 1 }]", ""),
        ("queue = 7\nbackends = ['a:1']\nhealth.agent = ':9'", ""),
        ("queue = 0\nbackends = ['a:1']", ""),
        ("on_down = 'close'\nbackends = ['a:1']\nhealth = { type = 'none', agent = ':9' }", ""),
        ("source = '::1'\nbackends = ['a:1', 'unix:/x']", ""),
        ("balance = 'resource'\nbackends = ['a:1']\nhealth.agent = ':9'", ""),
    ] {
        let file = format!("[listener.web]\nbind = ':3030'\n[pool.web]\n{pool}\n");
        std::fs::write(directory.path().join("c.toml"), &file).unwrap();
        let output = check(directory.path(), &["check", "-c", "c.toml", "--offline"]);
        let stderr = text(&output.stderr);
        let as_expected = match expected {
            "" => stderr.is_empty(),
            _ => stderr.contains("warning: ") && stderr.contains(expected),
        };
        assert!(as_expected && output.status.success(), "{file}\n{stderr}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let large = directory.path().join("large.toml");
    std::fs::write(&large, "#".repeat(1024 * 1024 + 1)).unwrap();
    std::fs::create_dir(directory.path().join("conf.d")).unwrap();
    for (file, expected) in [
        ("none.toml", "none.toml: there is no such file; give the path"),
        ("conf.d", "conf.d: this is a directory; give the path"),
        ("large.toml", "large.toml: the file is larger than 1024 KiB"),
    ] {
        let output = check(directory.path(), &["check", "-c", file]);
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with(expected), "{stderr}");
        assert!(stderr.ends_with('\n') && output.stdout.is_empty());
        assert_eq!(output.status.code(), Some(3));
    }
}

#[test]
fn a_file_of_exactly_the_limit_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[listener.web]\nbind = ':1'\n[pool.web]\nbackends = ['a:1']\n#";
    let full = format!("{text}{}", "#".repeat(1024 * 1024 - text.len()));
    std::fs::write(directory.path().join("full.toml"), full).unwrap();
    let output = check(directory.path(), &["check", "--offline", "-c", "full.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", self::text(&output.stderr));
}

fn check(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden_names() -> Vec<String> {
    golden_names_with("toml")
}

fn golden_names_with(extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(golden()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let matching = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    matching.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
