//! The command line: from arguments to what is meant.
//!
//! The private structs are what can be typed, for clap; the public ones are what it means: plain
//! values, every address and duration read, every default filled in. Nothing is opened, resolved
//! or printed here. A usage error is clap's [`clap::Error`], whose exit code is 2. Each group of
//! commands has a file.

mod backend;
mod balance;
mod change;
mod client;
mod doctor;
mod explain;
mod manual;
mod membership;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub use backend::TestBackend;
use backend::{BACKEND_HELP, TypedBackend};
use balance::{DEMO_HELP, RUN_HELP, RUN_USAGE, TypedDemo, TypedRun};
pub use balance::{Demo, Run, Source};
pub use change::{Backend, Change, Wait, Wish};
use change::{CHANGE_HELP, DRAIN_HELP, TypedChange, TypedDrain, TypedWeight};
pub use client::{Admin, Status};
use client::{STATUS_HELP, TypedStatus};
pub use doctor::Doctor;
use doctor::{DOCTOR_HELP, TypedDoctor};
pub use explain::{About, Explain, Sessions, SessionsWish};
use explain::{EXPLAIN_HELP, SESSIONS_HELP, TypedExplain, TypedSessions};
use manual::main_help;
pub use manual::{completions, manual};
use membership::{
    ADD_HELP, PLAN_HELP, RELOAD_HELP, REMOVE_HELP, TypedAdd, TypedPlan, TypedReload, TypedRemove,
};
pub use membership::{Add, PlanFile, Reload, Remove};
pub use top::Top;
use top::{TOP_HELP, TypedTop};

/// What the program is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Balance.
    Run(Run),
    /// Check a configuration file.
    Check(Check),
    /// Balance over backends of our own, to be tried out.
    Demo(Demo),
    /// Be a backend for tests.
    Backend(TestBackend),
    /// Show the state of a running balancer.
    Status(Status),
    /// Change a backend of a running balancer.
    Change(Change),
    /// Add a backend to a running balancer.
    Add(Add),
    /// Remove a backend from a running balancer.
    Remove(Remove),
    /// Let a running balancer read its file again.
    Reload(Reload),
    /// Ask a running balancer what a reload would do.
    Plan(PlanFile),
    /// Tell why connections went where they went.
    Explain(Explain),
    /// Show the connections that live, or cut one.
    Sessions(Sessions),
    /// Show the state of a running balancer live.
    Top(Top),
    /// Compare the machine with a configuration.
    Doctor(Doctor),
    /// Print the completions of a shell.
    Completions(Shell),
    /// Print the manual page.
    Manual,
}

/// `check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The file to check.
    pub file: PathBuf,
    /// Whether names are left unresolved.
    pub offline: bool,
}

/// Reads the command line; the first argument is the name of the program.
///
/// # Errors
///
/// What clap says: a usage error (exit code 2), or the text of `--help` or `--version`
/// (exit code 0). Print it and exit with its code.
pub fn parse<I, T>(arguments: I) -> Result<Command, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    match Typed::try_parse_from(arguments)?.command {
        TypedCommand::Run(typed) => typed.meant().map(Command::Run),
        TypedCommand::Check(typed) => {
            Ok(Command::Check(Check { file: typed.config, offline: typed.offline }))
        }
        TypedCommand::Demo(typed) => typed.meant().map(Command::Demo),
        TypedCommand::Backend(typed) => Ok(Command::Backend(typed.meant())),
        TypedCommand::Status(typed) => Ok(Command::Status(typed.meant())),
        TypedCommand::Drain(typed) => Ok(Command::Change(typed.meant())),
        TypedCommand::Ready(typed) => Ok(Command::Change(typed.meant(Wish::Ready))),
        TypedCommand::Maintenance(typed) => Ok(Command::Change(typed.meant(Wish::Maintenance))),
        TypedCommand::Weight(typed) => Ok(Command::Change(typed.meant())),
        TypedCommand::Add(typed) => Ok(Command::Add(typed.meant())),
        TypedCommand::Remove(typed) => Ok(Command::Remove(typed.meant())),
        TypedCommand::Reload(typed) => Ok(Command::Reload(typed.meant())),
        TypedCommand::Plan(typed) => Ok(Command::Plan(typed.meant())),
        TypedCommand::Explain(typed) => Ok(Command::Explain(typed.meant())),
        TypedCommand::Sessions(typed) => Ok(Command::Sessions(typed.meant())),
        TypedCommand::Top(typed) => Ok(Command::Top(typed.meant())),
        TypedCommand::Doctor(typed) => Ok(Command::Doctor(typed.meant())),
        TypedCommand::Completions { shell } => Ok(Command::Completions(shell)),
        TypedCommand::Man => Ok(Command::Manual),
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    about = "A TCP load balancer: one process, one event loop, every byte accounted for.",
    after_help = main_help(),
    max_term_width = 100,
    subcommand_required = true,
    disable_help_subcommand = true
)]
struct Typed {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Debug, Subcommand)]
enum TypedCommand {
    /// Balance TCP connections over backends
    #[command(override_usage = RUN_USAGE, after_help = RUN_HELP)]
    Run(TypedRun),
    /// Check a configuration file and show every problem in it
    #[command(after_help = CHECK_HELP)]
    Check(TypedCheck),
    /// Start three echo backends and a balancer to try it out
    #[command(after_help = DEMO_HELP)]
    Demo(TypedDemo),
    /// Start a backend for tests
    #[command(after_help = BACKEND_HELP)]
    Backend(TypedBackend),
    /// Show the state of a running balancer
    #[command(after_help = STATUS_HELP)]
    Status(TypedStatus),
    /// Show the state of a running balancer live, with keys to change it
    #[command(after_help = TOP_HELP)]
    Top(TypedTop),
    /// Send no new clients to a backend; its connections go on
    #[command(after_help = DRAIN_HELP)]
    Drain(TypedDrain),
    /// Take back a drain or a maintenance
    #[command(after_help = CHANGE_HELP)]
    Ready(TypedChange),
    /// Send no new clients and no probes to a backend
    #[command(after_help = CHANGE_HELP)]
    Maintenance(TypedChange),
    /// Change a backend's share of new connections
    #[command(after_help = CHANGE_HELP)]
    Weight(TypedWeight),
    /// Add a backend to a pool
    #[command(after_help = ADD_HELP)]
    Add(TypedAdd),
    /// Remove a backend from its pool; its connections go on
    #[command(after_help = REMOVE_HELP)]
    Remove(TypedRemove),
    /// Read the configuration file again and do what it says
    #[command(after_help = RELOAD_HELP)]
    Reload(TypedReload),
    /// Show what a reload would change
    #[command(after_help = PLAN_HELP)]
    Plan(TypedPlan),
    /// Tell why a connection went where it went, and why it ended
    #[command(after_help = EXPLAIN_HELP)]
    Explain(TypedExplain),
    /// Show the connections that live, or cut one of them
    #[command(after_help = SESSIONS_HELP)]
    Sessions(TypedSessions),
    /// Check whether this machine can do what a configuration asks of it
    #[command(after_help = DOCTOR_HELP)]
    Doctor(TypedDoctor),
    /// Print the completions of a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the manual page
    #[command(after_help = MAN_HELP)]
    Man,
}

#[derive(Debug, Args)]
struct TypedCheck {
    /// Configuration file to check
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Resolve no host names
    #[arg(long)]
    offline: bool,
}

const CHECK_HELP: &str = "\
Examples:
  evenkeel check -c evenkeel.toml
  evenkeel check --offline -c evenkeel.toml

Exit codes: 0 fine, perhaps with warnings; 2 usage; 3 configuration invalid.";

const COMPLETIONS_HELP: &str = "\
Examples:
  source <(evenkeel completions bash)
  evenkeel completions bash > /usr/share/bash-completion/completions/evenkeel
  evenkeel completions zsh > /usr/share/zsh/site-functions/_evenkeel
  evenkeel completions fish > ~/.config/fish/completions/evenkeel.fish";

const MAN_HELP: &str = "\
Examples:
  evenkeel man | man -l -
  evenkeel man > /usr/local/share/man/man8/evenkeel.8";

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use log::LevelFilter;

    use super::*;
    use crate::config::{AccessLog, BindAddress, LogFormat, Overrides, Policy};

    fn meant(line: &str) -> Command {
        parse(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn refused(line: &str) -> (ErrorKind, String) {
        let error = parse(line.split(' ')).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        (error.kind(), error.to_string())
    }

    fn run(line: &str) -> Run {
        match meant(line) {
            Command::Run(run) => run,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn test_backend(line: &str) -> TestBackend {
        match meant(line) {
            Command::Backend(backend) => backend,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Typed::command().debug_assert();
    }

    #[test]
    fn run_takes_addresses_or_a_file() {
        let listen = vec![BindAddress::Any(3030)];
        let backends = vec!["localhost:5001".parse().unwrap(), "b:2,weight=3".parse().unwrap()];
        let source = Source::Arguments { listen, backends };
        assert_eq!(run("evenkeel run localhost:5001 b:2,weight=3").source, source);

        let several = run("evenkeel run -l :1 --listen unix:/x a:1").source;
        let listen = vec![BindAddress::Any(1), BindAddress::Unix("/x".into())];
        let backends = vec!["a:1".parse().unwrap()];
        assert_eq!(several, Source::Arguments { listen, backends });

        let file = run("evenkeel run -c x.toml").source;
        assert_eq!(file, Source::File("x.toml".into()));
    }

    #[test]
    fn run_needs_one_of_the_two_and_shows_both() {
        for line in [
            "evenkeel run",
            "evenkeel run -l :3030",
            "evenkeel run -c x.toml a:1",
            "evenkeel run -c x.toml -l :3030",
        ] {
            let (_, message) = refused(line);
            assert!(message.contains("run [OPTIONS] [-l ADDR]... BACKEND..."), "{message}");
            assert!(message.contains("run [OPTIONS] -c FILE"), "{message}");
        }
    }

    #[test]
    fn options_are_overrides_and_a_level() {
        let none = run("evenkeel run -c x");
        assert_eq!((none.overrides, none.level), (Overrides::default(), LevelFilter::Info));
        let line = "evenkeel run -c x --access-log --log-format json --balance resource -q";
        let all = run(&format!("{line} --admin unix:/a"));
        assert_eq!(all.level, LevelFilter::Warn);
        assert_eq!(
            all.overrides,
            Overrides {
                policy: Some(Policy::Resource),
                access_log: Some(AccessLog::Close),
                log_format: Some(LogFormat::Json),
                admin: Some(BindAddress::Unix("/a".into())),
            }
        );
        assert_eq!(run("evenkeel run -c x -v").level, LevelFilter::Debug);
        assert_eq!(run("evenkeel run -c x -vvv").level, LevelFilter::Trace);
        assert_eq!(refused("evenkeel run -c x -q -v").0, ErrorKind::ArgumentConflict);
    }

    #[test]
    fn wrong_values_are_named_with_their_cure() {
        for (line, culprit, cure) in [
            ("evenkeel run localhost", "localhost", "add one, as in \"localhost:5001\""),
            ("evenkeel run a:1,weight=300", "300", "from 0 to 256"),
            ("evenkeel run -l 3030 a:1", "--listen", "write \":3030\""),
            ("evenkeel run --balance roundrobin a:1", "--balance", "did you mean \"round-robin\"?"),
            ("evenkeel run --balance resource a:1", "--balance resource", "`run -c FILE`"),
            ("evenkeel demo --balance resource", "--balance resource", "`run -c FILE`"),
            ("evenkeel run a:1,backup,backup", "a:1,backup,backup", "remove one"),
            ("evenkeel run a:1,max_connections=2", "max_connections=2", "a configuration file"),
            ("evenkeel run --log-format xml a:1", "--log-format", "text, json"),
            ("evenkeel backend --delay 5", "--delay", "write \"5s\""),
            ("evenkeel backend --port 65536", "--port", "0..=65535"),
            ("evenkeel backend --name a\tb", "--name", "1 to 64 characters"),
            ("evenkeel demo --backend-port 65534", "--backend-port", "1..=65533"),
            ("evenkeel demo --listen :5003", "port 5003", "--backend-port"),
        ] {
            let (_, message) = refused(line);
            assert!(message.contains(culprit) && message.contains(cure), "{message}");
        }
    }

    #[test]
    fn check_needs_a_file() {
        let (file, offline) = ("x.toml".into(), true);
        let expected = Command::Check(Check { file, offline });
        assert_eq!(meant("evenkeel check --offline -c x.toml"), expected);
        assert_eq!(refused("evenkeel check").0, ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn demo_has_three_ports_in_a_row() {
        let Command::Demo(demo) = meant("evenkeel demo --backend-port 65533") else {
            panic!("this is a demo")
        };
        assert_eq!(demo.backend_ports, [65533, 65534, 65535]);
        assert_eq!(demo.listen.to_string(), "127.0.0.1:3030");
        assert_eq!(demo.overrides.admin, Some("127.0.0.1:9930".parse().unwrap()));
    }

    #[test]
    fn a_test_backend_has_a_port_of_its_own() {
        let plain = test_backend("evenkeel backend");
        assert_eq!(plain.listen.to_string(), "127.0.0.1:5001");
        assert_eq!((plain.http, plain.delay, plain.name), (false, Duration::ZERO, None));
        assert_eq!(test_backend("evenkeel backend -p 0").listen.port(), Some(0));
        let line = "evenkeel backend --listen [::1]:7 --http --delay 250ms --name blue";
        let all = test_backend(line);
        assert_eq!(all.listen.to_string(), "[::1]:7");
        assert!(all.http && all.delay == Duration::from_millis(250));
        assert_eq!(all.name.as_deref(), Some("blue"));
        let (kind, _) = refused("evenkeel backend --port 1 --listen :1");
        assert_eq!(kind, ErrorKind::ArgumentConflict);
    }

    #[test]
    fn a_balancer_is_asked_where_it_is_said_to_be() {
        let line = "evenkeel status --admin unix:/a --token-file /t --json";
        let address = "unix:/a".parse().unwrap();
        let admin = Admin { address, token_file: Some("/t".into()) };
        assert_eq!(meant(line), Command::Status(Status { admin, json: true }));
        let (_, message) = refused("evenkeel status --admin :9930");
        assert!(message.contains("write \"localhost:9930\""), "{message}");
    }

    #[test]
    fn a_change_names_a_backend_of_a_pool() {
        let change = |line: &str| match meant(line) {
            Command::Change(change) => change,
            other => panic!("{line}: {other:?}"),
        };
        let drain = change("evenkeel drain web/unix:/a/b --wait --deadline 10m --json");
        let backend = Backend { pool: "web".to_owned(), address: "unix:/a/b".to_owned() };
        let wait = Some(Wait { deadline: Some(Duration::from_secs(600)) });
        assert_eq!((drain.backend, drain.wait, drain.json), (backend, wait, true));
        let wait = change("evenkeel drain web/a:1 --wait --deadline 0s").wait;
        assert_eq!(wait, Some(Wait { deadline: None }));
        for (line, wish) in [
            ("evenkeel drain web/a:1", Wish::Drain),
            ("evenkeel ready web/a:1", Wish::Ready),
            ("evenkeel maintenance web/a:1", Wish::Maintenance),
            ("evenkeel weight web/a:1 256", Wish::Weight(256)),
        ] {
            let change = change(line);
            assert_eq!((change.wish, change.wait), (wish, None), "{line}");
        }
        for (line, cure) in [
            ("evenkeel drain a:1", "write POOL/ADDRESS"),
            ("evenkeel ready /a:1", "write POOL/ADDRESS"),
            ("evenkeel weight web/a:1 257", "0..=256"),
            ("evenkeel drain web/a:1 --deadline 5s", "--wait"),
        ] {
            let (_, message) = refused(line);
            assert!(message.contains(cure), "{message}");
        }
    }

    #[test]
    fn connections_are_asked_about_in_several_ways() {
        let about = |line: &str| match meant(line) {
            Command::Explain(explain) => explain.about,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(about("evenkeel explain"), About::Newest(20));
        assert_eq!(about("evenkeel explain --limit 100"), About::Newest(100));
        assert_eq!(about("evenkeel explain 17 --json"), About::Connection(17));
        let client = Some("192.0.2.7".parse().unwrap());
        let pool = About::Pool { pool: "web".to_owned(), client };
        assert_eq!(about("evenkeel explain --pool web --client 192.0.2.7"), pool);
        let wish = |line: &str| match meant(line) {
            Command::Sessions(sessions) => sessions.wish,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(wish("evenkeel sessions --cut 17"), SessionsWish::Cut(17));
        let (pool, backend) = (Some("web".to_owned()), Some("a:1".to_owned()));
        let list = SessionsWish::List { pool, backend, after: 5, limit: 5000 };
        let line = "evenkeel sessions --pool web --backend a:1 --limit 5000 --after 5";
        assert_eq!(wish(line), list);
        for line in [
            "evenkeel explain 17 --pool web",
            "evenkeel explain 17 --limit 5",
            "evenkeel explain --client 192.0.2.7",
            "evenkeel explain --pool web --client me",
            "evenkeel explain --limit 101",
            "evenkeel sessions --limit 0",
            "evenkeel sessions --cut 17 --pool web",
        ] {
            refused(line);
        }
    }

    #[test]
    fn backends_are_added_and_removed_by_name() {
        let Command::Add(add) = meant("evenkeel add web [0::1]:80 --weight 0 --backup --json")
        else {
            panic!("this adds")
        };
        assert_eq!((add.pool.as_str(), add.address.to_string()), ("web", "[::1]:80".to_owned()));
        assert_eq!((add.weight, add.max_connections, add.backup), (Some(0), None, true));
        let line = "evenkeel remove web/a:1 --wait --deadline 10m";
        let Command::Remove(remove) = meant(line) else { panic!("{line}") };
        assert_eq!(remove.wait, Some(Wait { deadline: Some(Duration::from_secs(600)) }));
        for (line, cure) in [
            ("evenkeel add web", "<ADDRESS>"),
            ("evenkeel add web a", "add one, as in \"a:5001\""),
            ("evenkeel add web a:1 --weight 257", "0..=256"),
            ("evenkeel remove a:1", "write POOL/ADDRESS"),
            ("evenkeel remove web/a:1 --deadline 5s", "--wait"),
        ] {
            let (_, message) = refused(line);
            assert!(message.contains(cure), "{message}");
        }
    }

    #[test]
    fn a_plan_is_about_a_file_or_the_one_that_runs() {
        let file = |line: &str| match meant(line) {
            Command::Plan(plan) => plan.file,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(file("evenkeel plan -c x.toml"), Some("x.toml".into()));
        assert_eq!(file("evenkeel plan --json"), None);
        assert!(matches!(
            meant("evenkeel reload --json"),
            Command::Reload(Reload { json: true, .. })
        ));
    }

    #[test]
    fn hidden_options_work_and_are_hidden() {
        let child = test_backend("evenkeel backend --inherit-listener --exit-with 42");
        assert!(child.inherit_listener && child.exit_with == NonZeroU32::new(42));
        let help = parse(["evenkeel", "backend", "--help"]).expect_err("help is no command");
        assert_eq!(help.exit_code(), 0);
        let help = help.to_string();
        assert!(help.contains("--delay") && !help.contains("inherit") && !help.contains("PID"));
    }
}
