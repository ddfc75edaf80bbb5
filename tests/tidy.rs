//! Shape as a test: what the compiler and clippy do not check about how the code is written.
//!
//! Walks `src` and collects every finding as `path:line: rule, do X instead`, so that one run shows
//! all there is to do. Comments and the contents of strings never count, because the text is
//! blanked there first. The rules are tested on small bad samples further down: a checker that
//! cannot fail proves nothing. Long functions and the like are left to clippy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Which module may use which, from the top down: each uses only what stands below it.
const ARROWS: [(&str, &[&str]); 22] = [
    ("main", &["admin", "answer", "cli", "config", "demo", "doctor", "logging", "reactor", "top"]),
    ("connections", &["admin", "cli", "reactor"]),
    ("lib", &[]),
    ("demo", &["cli", "config", "reactor"]),
    (
        "reactor",
        &[
            "admin",
            "answer",
            "check",
            "config",
            "doctor",
            "decisions",
            "edge",
            "http",
            "lifecycle",
            "measure",
            "pair",
            "pool",
            "stats",
            "timers",
            "top",
        ],
    ),
    ("top", &["admin"]),
    ("doctor", &["admin", "config"]),
    ("admin", &["answer", "config", "http", "measure"]),
    ("answer", &["http"]),
    ("check", &["http"]),
    ("decisions", &["measure", "pair", "pool"]),
    ("stats", &["pair"]),
    ("pair", &["edge", "http", "measure"]),
    ("pool", &["measure", "timers"]),
    ("cli", &["config"]),
    ("logging", &["config"]),
    ("config", &[]),
    ("edge", &[]),
    ("http", &[]),
    ("lifecycle", &[]),
    ("measure", &[]),
    ("timers", &[]),
];

/// Words that stand nowhere, and what to do instead.
const NOWHERE: [(&str, &str); 9] = [
    ("Rc", "give everything one owner and hold an id"),
    ("RefCell", "pass &mut"),
    ("thread_local!", "pass the value to those who need it"),
    ("macro_rules!", "write a function or a generic"),
    ("unsafe", "use what rustix and socket2 offer"),
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
    ("dbg!", "remove it, or log what the operator needs to know"),
    ("SystemTime::now", "take `now` as an argument; only the monotonic clock is used"),
];

/// Words that only the shell may use: `src/reactor/`, `src/main.rs` and `src/main/`.
const SHELL_ONLY: [(&str, &str); 9] = [
    ("mio", "answer with what is to be done and let the reactor do it"),
    ("socket2", "let src/reactor/ set options on sockets"),
    ("TcpStream", "be generic over Stream and let the reactor open sockets"),
    ("TcpListener", "let src/reactor/listener.rs bind and accept"),
    ("UdpSocket", "let the reactor open sockets"),
    ("UnixStream", "be generic over Stream and let the reactor open sockets"),
    ("UnixListener", "let src/reactor/listener.rs bind and accept"),
    ("UnixDatagram", "let the reactor open sockets"),
    ("Instant::now", "take `now` as an argument"),
];

/// What the top level of the repository holds, besides dot files and licences.
const TOP_LEVEL: [&str; 8] =
    ["Cargo.toml", "Cargo.lock", "src", "benches", "tests", "README.md", "packaging", "target"];

const MOST_LINES: usize = 400;
const MOST_COLUMNS: usize = 100;

#[test]
fn the_source_keeps_its_shape() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = rust_files(&root.join("src")).unwrap();
    assert!(files.contains(&root.join("src/lib.rs")), "the walk has missed src/lib.rs");
    let mut findings = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let path = file.strip_prefix(root).unwrap().to_str().unwrap();
        findings.extend(examine(path, &text));
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn the_top_level_holds_only_what_belongs_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name == "Cargo.toml"), "the walk has missed Cargo.toml");
    let findings = strangers(&names);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Every finding in one file; `path` is relative to the repository.
fn examine(path: &str, text: &str) -> Vec<String> {
    let code = blank(text);
    let tests_from = tests_from(&code);
    let mut findings = Vec::new();
    let mut find = |line: usize, what: String| findings.push(format!("{path}:{line}: {what}"));

    if !text.starts_with("//!") {
        find(1, "no `//!` at the top, open with what the file is for instead".into());
    }
    if tests_from - 1 > MOST_LINES {
        let what = format!("{} lines before the tests, split it instead", tests_from - 1);
        find(MOST_LINES + 1, what);
    }
    for (number, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > MOST_COLUMNS {
            find(number, format!("{columns} columns, break the line at {MOST_COLUMNS} instead"));
        }
    }
    let is_shell = path.starts_with("src/reactor/") || path.starts_with("src/main");
    for (number, line) in (1..).zip(code.lines()) {
        for (word, instead) in NOWHERE {
            if has_word(line, word) {
                find(number, format!("`{word}` is not used here, {instead} instead"));
            }
        }
        for (word, instead) in SHELL_ONLY {
            // A test needs some instant to count from; clippy wants a reason for it there.
            let excused = is_shell || (word == "Instant::now" && number >= tests_from);
            if !excused && has_word(line, word) {
                find(number, format!("`{word}` outside src/reactor/, {instead} instead"));
            }
        }
    }
    for (number, what) in against_arrows(path, &code, tests_from) {
        find(number, what);
    }
    findings
}

/// Uses of other modules that [`ARROWS`] does not allow, by line.
fn against_arrows(path: &str, code: &str, tests_from: usize) -> Vec<(usize, String)> {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inside = inside.trim_end_matches("/mod");
    let module = inside.split('/').next().unwrap_or(inside);
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
        let what = format!("`{module}` is a new module, give it a place in tests/tidy.rs instead");
        return vec![(1, what)];
    };
    let is_root = matches!(module, "main" | "lib");
    let depth = if is_root { 0 } else { inside.split('/').count() };
    let mut findings = Vec::new();
    for (at, used) in uses(code, depth, tests_from) {
        let known = ARROWS.iter().any(|(name, _)| *name == used);
        if known && used != module && !allowed.contains(&used.as_str()) {
            let what = format!(
                "`{module}` uses `{used}` against the arrows of the design, \
                 take a plain value or turn the call round instead"
            );
            findings.push((at, what));
        }
    }
    findings
}

/// Every name that is reached from the root of the crate, with its line: after `crate::`,
/// `evenkeel::`, or as many `super::` as the file is deep (one more in its tests).
fn uses(code: &str, depth: usize, tests_from: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let roots = ["crate::", "evenkeel::", "super::"];
    let places = |root| code.match_indices(root);
    for (at, root) in roots.into_iter().flat_map(places) {
        let before = &code[..at];
        let line = before.matches('\n').count() + 1;
        if before.ends_with(is_word) || before.ends_with("super::") {
            continue;
        }
        let mut rest = &code[at + root.len()..];
        if root == "super::" {
            let mut climbed = 1;
            while let Some(further) = rest.strip_prefix("super::") {
                rest = further;
                climbed += 1;
            }
            if climbed < depth + usize::from(line >= tests_from) {
                continue;
            }
        }
        found.extend(first_names(rest).into_iter().map(|name| (line, name)));
    }
    found
}

/// The first name of a path, or of each path in `{a::b, c::{d, e}}`.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![path.chars().take_while(|c| is_word(*c)).collect()];
    };
    let (mut names, mut depth, mut start) = (Vec::new(), 1, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                names.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            names.push(&group[start..at]);
            break;
        }
    }
    let first = |path: &str| path.trim().chars().take_while(|c| is_word(*c)).collect();
    names.into_iter().map(first).collect()
}

/// The line on which the tests begin, or the one after the last.
fn tests_from(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().collect();
    let begins = |at: usize| {
        let mut following = lines[at + 1..].iter().skip_while(|line| line.starts_with("#["));
        // Others may use what these tests are made with.
        let is_module =
            |line: &&str| line.strip_prefix("pub(super) ").unwrap_or(line).starts_with("mod ");
        lines[at] == "#[cfg(test)]" && following.next().is_some_and(is_module)
    };
    (0..lines.len()).find(|&at| begins(at)).unwrap_or(lines.len()) + 1
}

/// Whether `word` stands in the line by itself, not as a part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let goes_on = word.ends_with(is_word) && line[at + word.len()..].starts_with(is_word);
        !goes_on && !line[..at].ends_with(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text with comments and the contents of strings and characters blanked, line for line.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = literal(rest, code.chars().next_back());
        match length {
            Some(length) => {
                code.extend(rest[..length].chars().map(|c| if c == '\n' { c } else { ' ' }));
                rest = &rest[length..];
            }
            None => {
                code.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    code
}

/// How long the comment, string or character is that `text` begins with, if it does.
fn literal(text: &str, previous: Option<char>) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if text.starts_with('"') {
        return Some(quoted(text));
    }
    if let Some(length) = raw_string(text).filter(|_| !previous.is_some_and(is_word_not_prefix)) {
        return Some(length);
    }
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    // A lifetime has no closing quote after one character.
    let closes = inside[first.len_utf8()..].starts_with('\'');
    if first == '\\' {
        let end = inside[2..].find('\'')?;
        return Some(1 + 2 + end + 1);
    }
    closes.then_some(1 + first.len_utf8() + 1)
}

/// The `r` of a raw string follows nothing, or the `b` or `c` of its kind.
fn is_word_not_prefix(c: char) -> bool {
    is_word(c) && !matches!(c, 'b' | 'c')
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inside = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(1 + hashes + 1 + length)
}

fn strangers(names: &[String]) -> Vec<String> {
    let belongs = |name: &str| {
        TOP_LEVEL.contains(&name) || name.starts_with('.') || name.starts_with("LICENSE")
    };
    let strange = names.iter().filter(|name| !belongs(name));
    strange
        .map(|name| {
            format!("{name}:1: not for the top level, move it to one of its folders instead")
        })
        .collect()
}

fn rust_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The checker itself, on samples that are wrong in one way each.
mod checker {
    use super::*;

    /// What is found in a file that opens as it should and goes on with `body`.
    fn in_body(path: &str, body: &str) -> Vec<String> {
        examine(path, &format!("//! A sample.\n{body}\n"))
    }

    #[test]
    fn a_sound_file_has_no_findings() {
        assert_eq!(in_body("src/timers.rs", "use std::time::Instant;"), [""; 0]);
    }

    #[test]
    fn every_shape_rule_can_fail() {
        let headless = examine("src/timers.rs", "use std::fmt;\n");
        assert_eq!(headless.len(), 1, "{headless:?}");
        assert!(headless[0].starts_with("src/timers.rs:1: no `//!`"), "{headless:?}");

        let wide = in_body("src/timers.rs", &format!("// {}", "é".repeat(98)));
        assert_eq!(wide.len(), 1, "{wide:?}");
        assert!(wide[0].starts_with("src/timers.rs:2: 101 columns"), "{wide:?}");
        assert_eq!(in_body("src/timers.rs", &format!("// {}", "é".repeat(97))), [""; 0]);
    }

    #[test]
    fn only_lines_before_the_tests_count() {
        let long = "\n".repeat(MOST_LINES);
        let found = in_body("src/timers.rs", &format!("{long}const A: u8 = 0;"));
        assert_eq!(found, ["src/timers.rs:401: 402 lines before the tests, split it instead"]);
        let tested = format!("#[cfg(test)]\n#[expect(dead_code)]\nmod tests {{\n{long}}}");
        assert_eq!(in_body("src/timers.rs", &tested), [""; 0]);
        let shared = format!("#[cfg(test)]\npub(super) mod tests {{\n{long}}}");
        assert_eq!(in_body("src/timers.rs", &shared), [""; 0]);
        let disguised = format!("#[cfg(test)]\nuse std::fmt;\n{long}");
        assert_eq!(in_body("src/timers.rs", &disguised).len(), 1, "no way round the rule");
    }

    #[test]
    fn every_word_is_found_and_at_its_line() {
        let nowhere = NOWHERE.iter().map(|(word, _)| word);
        for word in nowhere.chain(SHELL_ONLY.iter().map(|(word, _)| word)) {
            let found = in_body("src/timers.rs", &format!("\nlet a = {word}(1);"));
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("src/timers.rs:3: `"), "{found:?}");
        }
        for body in
            ["use mio::{Poll};", "use std::net::{IpAddr, TcpStream};", "a: Rc<B>", "Rc::new"]
        {
            assert_eq!(in_body("src/timers.rs", body).len(), 1, "{body}");
        }
    }

    #[test]
    fn the_shell_may_do_what_others_may_not() {
        for (word, _) in SHELL_ONLY {
            let body = format!("let a = {word}(1);");
            assert_eq!(in_body("src/reactor/socket.rs", &body), [""; 0]);
            assert_eq!(in_body("src/main.rs", &body), [""; 0]);
        }
        assert_eq!(in_body("src/reactor/socket.rs", "unsafe { a() }").len(), 1);
    }

    #[test]
    fn tests_may_count_from_now_but_open_nothing() {
        let test = |body| format!("#[cfg(test)]\nmod tests {{\n    {body}\n}}");
        assert_eq!(in_body("src/timers.rs", &test("let now = Instant::now();")), [""; 0]);
        assert_eq!(in_body("src/timers.rs", &test("TcpStream::connect(a);")).len(), 1);
    }

    #[test]
    fn longer_names_comments_and_strings_are_no_hits() {
        for body in [
            "use std::sync::Arc; a: Arc<B>",
            "forbid(unsafe_code)",
            "let permio = 1;",
            "// unsafe, mio::Poll, crate::reactor",
            "/// Like [`mio::Poll`], without `dbg!`.",
            "/* unsafe /* nested unsafe */ unsafe */",
            "let a = \"unsafe \\\" mio::Poll\";",
            "let a = \"one\nunsafe\";",
            "let a = r#\"unsafe \" mio\"#;",
            "let a = br\"unsafe\\\";",
            "let a = '\"'; // unsafe",
            "let a = '\\''; // unsafe",
        ] {
            assert_eq!(in_body("src/timers.rs", body), [""; 0], "{body}");
        }
    }

    #[test]
    fn code_after_comments_and_strings_is_seen() {
        for body in [
            "/* a */ unsafe {}",
            "let a = \"//\"; unsafe {}",
            "let a = '\"'; unsafe {}",
            "let a = '\\\\'; unsafe {}",
            "fn a<'a>(b: &'a str) { unsafe {} }",
            "let a = r#\"\"\"#; unsafe {}",
            "let a = br\"\\\"; unsafe {}",
            "let var = \"\\\\\"; unsafe {}",
        ] {
            assert_eq!(in_body("src/timers.rs", body).len(), 1, "{body}");
        }
    }

    #[test]
    fn imports_against_the_arrows_are_found_however_they_are_written() {
        for (path, body) in [
            ("src/pool/mod.rs", "use crate::reactor::Reactor;"),
            ("src/pool/mod.rs", "let a = crate::reactor::look_up(b, c);"),
            (
                "src/pool/mod.rs",
                "use crate::{\n    timers::Timers,\n    reactor::{Reactor, Door},\n};",
            ),
            ("src/pool/mod.rs", "use super::reactor::Reactor;"),
            ("src/pool/picker/mod.rs", "use super::super::pair::Pair;"),
            ("src/pool/picker/round_robin.rs", "use super::super::super::pair::Pair;"),
            ("src/timers.rs", "use super::config::Config;"),
            ("src/timers.rs", "#[cfg(test)]\nmod tests {\n    use super::super::config::A;\n}"),
            ("src/pair/flow.rs", "use crate::stats::Stats;"),
            ("src/config/mod.rs", "use crate::cli::Demo;"),
            ("src/reactor/mod.rs", "use crate::cli::Demo;"),
            ("src/main.rs", "use evenkeel::pool::Pool;"),
        ] {
            let found = in_body(path, body);
            assert_eq!(found.len(), 1, "{path} {body}: {found:?}");
            assert!(found[0].contains("against the arrows"), "{found:?}");
        }
    }

    #[test]
    fn imports_along_the_arrows_are_fine() {
        for (path, body) in [
            ("src/pool/prober.rs", "use crate::timers::Timers;"),
            ("src/pool/prober.rs", "use crate::pool::backend::Backend;"),
            ("src/pool/prober.rs", "use super::backend::Backend;"),
            (
                "src/pool/prober.rs",
                "#[cfg(test)]\nmod tests {\n    use super::super::health::UP;\n}",
            ),
            ("src/pool/picker/round_robin.rs", "use super::super::health::UP;"),
            ("src/reactor/relay.rs", "use super::{Reactor, Service};"),
            ("src/reactor/mod.rs", "use crate::{pair::{Pair, Side}, stats::Stats};"),
            ("src/main.rs", "use evenkeel::reactor::{self, Reactor};"),
        ] {
            assert_eq!(in_body(path, body), [""; 0], "{path} {body}");
        }
    }

    #[test]
    fn a_module_without_a_place_is_a_finding() {
        let found = in_body("src/novel/route.rs", "use std::fmt;");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`novel` is a new module"), "{found:?}");
    }

    #[test]
    fn arrows_point_down() {
        for (index, (module, used)) in ARROWS.iter().enumerate() {
            for name in *used {
                let below = ARROWS[index + 1..].iter().any(|(below, _)| below == name);
                assert!(below, "{module} may use {name}, which does not stand below it");
            }
        }
    }

    #[test]
    fn a_stranger_at_the_top_level_is_found() {
        let names = ["src", "LICENSE", ".gitignore", "notes.txt"].map(str::to_owned);
        let found = strangers(&names);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("notes.txt:1: "), "{found:?}");
    }
}
