//! What the command line tells of itself: shell completions, and the manual page.
//!
//! Both are made from the definition of the arguments, so they cannot fall behind it. The page has
//! every command with its options and examples, and what no option says: signals, exit codes, the
//! environment, files. The tables of signals and exit codes stand here once; `--help` shows them
//! as well.

use std::io;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::Typed;

/// The completions of a shell, to be read by it.
#[must_use]
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut command = Typed::command().mut_subcommands(without_hidden);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

/// The manual page, for section 8.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn manual() -> io::Result<Vec<u8>> {
    let mut command = Typed::command();
    command.build();
    let source = format!("evenkeel {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title("EVENKEEL").section("8");
    let man = man.date(DATE).source(source).manual("System Manager's Manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let mut roff = Roff::new();
    synopsis(&mut roff);
    for (heading, text) in [("DESCRIPTION", DESCRIPTION), ("CONFIGURATION", CONFIGURATION)] {
        roff.control("SH", [heading]);
        prose(&mut roff, text);
    }
    roff.control("SH", ["COMMANDS"]);
    for subcommand in command.get_subcommands_mut().filter(|one| !one.is_hide_set()) {
        section(&mut roff, subcommand);
    }
    for (heading, rows) in [
        ("SIGNALS", &SIGNALS[..]),
        ("EXIT STATUS", &EXIT_CODES),
        ("ENVIRONMENT", &ENVIRONMENT),
        ("FILES", &FILES),
    ] {
        roff.control("SH", [heading]);
        for (term, meaning) in rows {
            roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
        }
    }
    for (heading, text) in [("EXAMPLES", EXAMPLES), ("SEE ALSO", SEE_ALSO)] {
        roff.control("SH", [heading]);
        prose(&mut roff, text);
    }
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// What `--help` says behind the list of commands.
pub(super) fn main_help() -> String {
    let mut text = format!("Examples:\n{}", MAIN_EXAMPLES);
    for (heading, rows) in [("Exit codes", &EXIT_CODES[..]), ("Signals", &SIGNALS)] {
        text.push_str(&format!("\n\n{heading}:"));
        let width = rows.iter().map(|(term, _)| term.len()).max().unwrap_or_default();
        for (term, meaning) in rows {
            text.push_str(&format!("\n  {term:width$}  {meaning}"));
        }
    }
    text
}

/// Some shells' completions would offer what is hidden.
fn without_hidden(command: Command) -> Command {
    if !command.get_arguments().any(Arg::is_hide_set) {
        return command;
    }
    let about = command.get_about().cloned().unwrap_or_default();
    let shown = command.get_arguments().filter(|one| !one.is_hide_set()).cloned();
    Command::new(command.get_name().to_owned()).about(about).args(shown)
}

fn synopsis(roff: &mut Roff) {
    roff.control("SH", ["SYNOPSIS"]);
    for (arguments, rest) in [("run", " [-l ADDR]... BACKEND..."), ("run", " -c FILE")] {
        roff.text([bold(format!("evenkeel {arguments}")), roman(rest)]).control("br", []);
    }
    roff.text([bold("evenkeel"), roman(" COMMAND [OPTIONS]")]);
}

/// One command: how it is called, what it does, its options, its examples.
fn section(roff: &mut Roff, command: &mut Command) {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:");
    let name = format!("evenkeel {}", command.get_name());
    roff.control("SS", [name.as_str()]);
    for (number, line) in usage.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
        if number > 0 {
            roff.control("br", []);
        }
        let rest = line.strip_prefix(&name);
        match rest {
            Some(rest) => roff.text([bold(&name), roman(rest)]),
            None => roff.text([roman(line)]),
        };
    }
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        roff.control("PP", []).text([roman(format!("{about}."))]);
    }
    let shown = |one: &&Arg| !one.is_hide_set() && one.get_id() != "help";
    for argument in command.get_arguments().filter(shown) {
        option(roff, argument);
    }
    if let Some(text) = command.get_after_help() {
        roff.control("PP", []);
        prose(roff, &text.to_string());
    }
}

/// One option or argument, with its default, its variable and its words.
fn option(roff: &mut Roff, argument: &Arg) {
    let mut term: Vec<Inline> = Vec::new();
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    for name in [short, long].into_iter().flatten() {
        if !term.is_empty() {
            term.push(roman(", "));
        }
        term.push(bold(name));
    }
    let takes_value = argument.get_num_args().is_some_and(|count| count.takes_values());
    if takes_value || argument.is_positional() {
        if !term.is_empty() {
            term.push(roman(" "));
        }
        let names = argument.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
        term.push(italic(names.join(" ")));
    }
    let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
    for note in notes(argument) {
        meaning.push_str(&note);
    }
    roff.control("TP", []).text(term).text([roman(meaning)]);
}

fn notes(argument: &Arg) -> Vec<String> {
    let mut notes = Vec::new();
    let takes_value = argument.get_num_args().is_some_and(|count| count.takes_values());
    let words: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|word| takes_value && !word.is_hide_set())
        .map(|word| word.get_name().to_owned())
        .collect();
    if !words.is_empty() {
        notes.push(format!(" [one of {}]", words.join(", ")));
    }
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        notes.push(format!(" [default: {}]", defaults.join(" ")));
    }
    if let Some(variable) = argument.get_env() {
        notes.push(format!(" [environment: {}]", variable.to_string_lossy()));
    }
    notes
}

/// Paragraphs; one whose lines are indented, perhaps below a heading, is shown as it is.
fn prose(roff: &mut Roff, text: &str) {
    for (number, block) in text.split("\n\n").enumerate() {
        if number > 0 {
            roff.control("PP", []);
        }
        let (heading, shown): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| !line.starts_with("  "));
        if !heading.is_empty() {
            roff.text([roman(heading.join(" "))]);
        }
        if !shown.is_empty() {
            roff.control("RS", ["4"]).control("EX", []);
            for line in shown {
                roff.text([roman(line.trim_start())]);
            }
            roff.control("EE", []).control("RE", []);
        }
    }
}

/// Of the last change to the page's own words.
const DATE: &str = "2026-11-30";

const MAIN_EXAMPLES: &str = "  evenkeel demo
  evenkeel run -l :3030 localhost:5001 localhost:5002 localhost:5003
  evenkeel run -c evenkeel.toml";

const SIGNALS: [(&str, &str); 6] = [
    ("TERM, INT", "stop accepting, let live connections finish; a second one ends at once"),
    ("QUIT", "end at once"),
    ("HUP", "read the configuration file again; one with errors changes nothing"),
    ("USR1", "write the status to the log"),
    ("USR2", "nothing yet; reserved for handing over to a new program"),
    ("PIPE", "ignored"),
];

const EXIT_CODES: [(&str, &str); 8] = [
    ("0", "fine"),
    ("1", "failed while running"),
    ("2", "usage"),
    ("3", "configuration invalid"),
    ("4", "an address could not be bound"),
    ("5", "connections were cut: the drain deadline passed, or it was told to end at once"),
    ("6", "the admin address did not answer"),
    ("7", "drain --wait: connections were left; doctor: errors or warnings were found"),
];

const ENVIRONMENT: [(&str, &str); 5] = [
    ("EVENKEEL_ADMIN", "Where client commands find the balancer, unless --admin says it."),
    ("EVENKEEL_TOKEN_FILE", "The file of its token, unless --token-file says it."),
    ("RUST_LOG", "Which log lines are written, as in \"debug\" or \"evenkeel=trace\"."),
    (
        "NOTIFY_SOCKET",
        "Where a service manager is told of start, reload and stop; see sd_notify(3).",
    ),
    ("WATCHDOG_USEC", "In which time it wants to hear from the event loop, in microseconds."),
];

const FILES: [(&str, &str); 4] = [
    ("/etc/evenkeel/evenkeel.toml", "The configuration that the systemd units use."),
    ("/etc/evenkeel/token", "The usual place for the token of the admin address."),
    ("/run/evenkeel", "Made by the systemd unit, for unix sockets."),
    ("/var/lib/evenkeel", "Made by the systemd unit, for what state_file names."),
];

const DESCRIPTION: &str = "\
evenkeel accepts TCP connections and spreads them over backends: a listener accepts clients, a \
pool is a set of backends, a backend is one destination. It is one process with one event loop. \
Backends are probed; a failed connect is tried elsewhere, and the client notices nothing.

`run` balances, `check` examines a configuration, and `demo` shows both without any file. The \
other commands ask a running balancer at its admin address. Addresses are HOST:PORT, [V6]:PORT \
or unix:PATH, and where clients are accepted also :PORT, for all interfaces.";

const CONFIGURATION: &str = "\
The file is TOML. Unknown keys are errors; durations are text with a unit. The least there can be:

  [listener.web]
  bind = [\":3030\"]
  [pool.web]
  backends = [\"10.0.0.1:5432\", \"10.0.0.2:5432\"]

All keys, with their defaults, stand in the README; `evenkeel check` names the nearest known key \
for one that is not.";

const EXAMPLES: &str = "\
Balance without a file, and look at it:

  evenkeel run -l :3030 --admin 127.0.0.1:9930 localhost:5001 localhost:5002
  evenkeel status
  evenkeel top

See whether this machine is fit for a file, what a reload would change, and reload:

  evenkeel doctor -c /etc/evenkeel/evenkeel.toml
  evenkeel plan -c /etc/evenkeel/evenkeel.toml
  evenkeel reload

Take a backend out, once its connections have ended:

  evenkeel drain --wait --deadline 10m web/10.0.0.1:5432

Read this page, and complete commands in bash:

  evenkeel man | man -l -
  source <(evenkeel completions bash)";

const SEE_ALSO: &str = "systemctl(1), sd_notify(3), ss(8), tcp(7), ip(7), haproxy(1), nginx(8)";

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        String::from_utf8(manual().unwrap()).unwrap()
    }

    #[test]
    fn the_page_has_every_command_and_every_option_that_is_shown() {
        let page = page();
        let mut command = Typed::command();
        command.build();
        let (mut commands, mut options) = (0, 0);
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            assert!(page.contains(&format!(".SS \"evenkeel {name}\"")), "{name} is missing");
            commands += 1;
            for option in subcommand.get_opts().filter(|option| !option.is_hide_set()) {
                let long = option.get_long().unwrap().replace('-', "\\-");
                assert!(page.contains(&format!("\\fB\\-\\-{long}\\fR")), "{name} --{long}");
                options += 1;
            }
        }
        assert!(commands >= 9 && options >= 20, "{commands} commands, {options} options");
        assert!(!page.contains("inherit"), "what is hidden stays so");
    }

    #[test]
    fn the_page_has_what_no_option_says() {
        let page = page();
        for heading in ["SIGNALS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "COMMANDS"] {
            let begins = [format!(".SH {heading}\n"), format!(".SH \"{heading}\"\n")];
            assert!(begins.iter().any(|begin| page.contains(begin)), "{heading} is missing");
        }
        assert!(page.contains("[environment: EVENKEEL_ADMIN]"), "{page}");
        assert!(page.contains("[default: 127.0.0.1:9930]"), "{page}");
    }

    #[test]
    fn no_line_of_a_text_is_taken_for_a_command() {
        let mut roff = Roff::new();
        prose(&mut roff, "Lines:\n  .so /etc/passwd\n  'sh\n\nA\nB");
        let text = roff.to_roff();
        assert!(!text.contains("\n.so") && !text.contains("\n'sh"), "{text}");
        assert!(text.ends_with("A B\n"), "{text}");
    }

    #[test]
    fn every_shell_gets_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = String::from_utf8(completions(shell)).unwrap();
            for word in ["evenkeel", "maintenance", "token-file", "offline"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains("inherit-listener"), "{shell}");
        }
    }

    #[test]
    fn the_help_has_both_tables() {
        let help = main_help();
        for (term, meaning) in EXIT_CODES.iter().chain(&SIGNALS) {
            assert!(help.contains(term) && help.contains(meaning), "{term}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
