//! The command line: from arguments to what is meant.
//!
//! The private structs are what can be typed, for clap; the public ones are what it means: plain
//! values, every address and duration read, every default filled in. Nothing is opened, resolved
//! or printed here. A usage error is clap's [`clap::Error`], whose exit code is 2.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
use log::LevelFilter;

use crate::config::{
    AccessLog, Backend, BindAddress, LOG_FORMATS, LogFormat, Overrides, Policy, balance_by_name,
    log_format_by_name, parse_duration,
};

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
}

/// `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Where the configuration comes from.
    pub source: Source,
    /// Options that hold over the configuration.
    pub overrides: Overrides,
    /// The level of the log, unless `RUST_LOG` says something else.
    pub level: LevelFilter,
}

/// Where the configuration of `run` comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The arguments themselves; neither list is empty.
    Arguments {
        /// Addresses to listen on.
        listen: Vec<BindAddress>,
        /// Backends, in turn.
        backends: Vec<Backend>,
    },
}

/// `check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The file to check.
    pub file: PathBuf,
    /// Whether names are left unresolved.
    pub offline: bool,
}

/// `demo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demo {
    /// Where the balancer listens.
    pub listen: BindAddress,
    /// Ports of the three backends.
    pub backend_ports: [u16; 3],
    /// Options that hold over the defaults.
    pub overrides: Overrides,
    /// The level of the log, unless `RUST_LOG` says something else.
    pub level: LevelFilter,
}

/// `backend`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestBackend {
    /// Where it listens; ignored with [`TestBackend::inherit_listener`].
    pub listen: BindAddress,
    /// Whether it speaks HTTP instead of lines.
    pub http: bool,
    /// How long each answer waits.
    pub delay: Duration,
    /// What it calls itself; its port when `None`.
    pub name: Option<String>,
    /// Whether standard input is the listening socket.
    pub inherit_listener: bool,
    /// The process it ends with.
    pub exit_with: Option<NonZeroU32>,
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
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "evenkeel",
    version,
    about = "A TCP load balancer: one process, one event loop, every byte accounted for.",
    after_help = MAIN_HELP,
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
}

#[derive(Debug, Args)]
struct TypedRun {
    /// Address to listen on: HOST:PORT, [V6]:PORT, :PORT for all interfaces, or unix:PATH
    ///
    /// May be given several times. Port 0 takes a free port, which the log names.
    #[arg(short, long, value_name = "ADDR", default_value = ":3030")]
    listen: Vec<BindAddress>,
    /// Configuration file, instead of addresses
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["listen", "backends"])]
    config: Option<PathBuf>,
    /// HOST:PORT[,weight=N][,backup], or with unix:PATH instead of HOST:PORT
    ///
    /// A weight gives it a larger share; a backup serves only while no other backend can.
    #[arg(value_name = "BACKEND", required_unless_present = "config")]
    backends: Vec<Backend>,
    #[command(flatten)]
    common: Common,
}

impl TypedRun {
    fn meant(self) -> Result<Run, clap::Error> {
        let overrides = self.common.overrides();
        let level = self.common.level();
        let source = match self.config {
            Some(file) => Source::File(file),
            None => {
                self.common.check_without_file("run")?;
                Source::Arguments { listen: self.listen, backends: self.backends }
            }
        };
        Ok(Run { source, overrides, level })
    }
}

/// Options of every command that balances.
#[derive(Debug, Args)]
struct Common {
    /// How the next backend is chosen: round-robin, least-connections, source-hash, two-choices,
    /// response-time, resource or first
    #[arg(long, value_name = "NAME", value_parser = balance_by_name)]
    balance: Option<Policy>,
    /// Log one line for each ended connection
    #[arg(long)]
    access_log: bool,
    /// How log lines are written
    #[arg(long, value_name = "FORMAT", value_parser = log_formats())]
    log_format: Option<LogFormat>,
    /// Log warnings and errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Log more: single health checks, and with -vv everything
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl Common {
    fn overrides(&self) -> Overrides {
        Overrides {
            policy: self.balance,
            access_log: self.access_log.then_some(AccessLog::Close),
            log_format: self.log_format,
        }
    }

    /// Whether the options can hold over the defaults.
    fn check_without_file(&self, command: &str) -> Result<(), clap::Error> {
        if self.balance == Some(Policy::Resource) {
            let message = "--balance resource needs agents, which only a configuration file can \
                           name; give one with `run -c FILE`";
            return Err(conflict(command, message));
        }
        Ok(())
    }

    fn level(&self) -> LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::Warn,
            (false, 0) => LevelFilter::Info,
            (false, 1) => LevelFilter::Debug,
            (false, _) => LevelFilter::Trace,
        }
    }
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

#[derive(Debug, Args)]
struct TypedDemo {
    /// Address the balancer listens on
    #[arg(short, long, value_name = "ADDR", default_value = "127.0.0.1:3030")]
    listen: BindAddress,
    /// Port of the first of three backends; the others take the next two
    #[arg(long, value_name = "N", default_value_t = 5001)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=65533))]
    backend_port: u16,
    #[command(flatten)]
    common: Common,
}

impl TypedDemo {
    fn meant(self) -> Result<Demo, clap::Error> {
        self.common.check_without_file("demo")?;
        let first = self.backend_port;
        let backend_ports = [first, first + 1, first + 2];
        let taken = self.listen.port().filter(|port| backend_ports.contains(port));
        if let Some(port) = taken {
            let message = format!(
                "port {port} of --listen is also the port of a backend; \
                 choose others with --backend-port or another with --listen"
            );
            return Err(conflict("demo", &message));
        }
        Ok(Demo {
            listen: self.listen,
            backend_ports,
            overrides: self.common.overrides(),
            level: self.common.level(),
        })
    }
}

#[derive(Debug, Args)]
struct TypedBackend {
    /// Address to listen on [default: 127.0.0.1:5001]
    #[arg(short, long, value_name = "ADDR", conflicts_with = "port")]
    listen: Option<BindAddress>,
    /// Short for --listen 127.0.0.1:N; 0 takes a free port
    #[arg(short, long, value_name = "N")]
    port: Option<u16>,
    /// Answer HTTP requests instead of echoing lines
    #[arg(long)]
    http: bool,
    /// Wait before each answer, such as 250ms or 1s
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true)]
    #[arg(value_parser = parse_duration)]
    delay: Duration,
    /// What it calls itself in answers [default: its port]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    /// Take standard input for the listening socket
    #[arg(long, hide = true, conflicts_with_all = ["listen", "port"])]
    inherit_listener: bool,
    /// End when this process has ended
    #[arg(long, hide = true, value_name = "PID")]
    exit_with: Option<NonZeroU32>,
}

impl TypedBackend {
    fn meant(self) -> TestBackend {
        let on_loopback = |port| BindAddress::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let port = self.port.unwrap_or(TEST_BACKEND_PORT);
        TestBackend {
            listen: self.listen.unwrap_or_else(|| on_loopback(port)),
            http: self.http,
            delay: self.delay,
            name: self.name,
            inherit_listener: self.inherit_listener,
            exit_with: self.exit_with,
        }
    }
}

/// Arguments of a subcommand that cannot stand together.
fn conflict(subcommand: &str, message: &str) -> clap::Error {
    let mut command = Typed::command();
    command.build();
    let subcommand = command.find_subcommand_mut(subcommand);
    let mut subcommand = subcommand.cloned().unwrap_or_default();
    subcommand.error(clap::error::ErrorKind::ArgumentConflict, message)
}

/// A name goes into answers as it is: one short line.
fn parse_name(text: &str) -> Result<String, &'static str> {
    let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    let named = fits.then(|| text.to_owned());
    named.ok_or("write 1 to 64 characters without line breaks")
}

fn log_formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LOG_FORMATS).try_map(|name| log_format_by_name(&name))
}

const TEST_BACKEND_PORT: u16 = 5001;

const RUN_USAGE: &str = "evenkeel run [OPTIONS] [-l ADDR]... BACKEND...
       evenkeel run [OPTIONS] -c FILE";

const MAIN_HELP: &str = "\
Examples:
  evenkeel demo
  evenkeel run -l :3030 localhost:5001 localhost:5002 localhost:5003
  evenkeel run -c evenkeel.toml

Exit codes:
  0 fine                         3 configuration invalid
  1 failed while running         4 an address could not be bound
  2 usage                        5 the drain deadline passed and connections were cut

Signals:
  TERM, INT  stop accepting, let live connections finish; a second one ends at once
  QUIT       end at once
  USR1       write the status to the log";

const RUN_HELP: &str = "\
Examples:
  evenkeel run localhost:5001 localhost:5002
  evenkeel run -l 127.0.0.1:3030 -l [::1]:3030 10.0.0.1:80,weight=2 10.0.0.2:80
  evenkeel run -l unix:/run/front.sock unix:/run/app1.sock unix:/run/app2.sock
  evenkeel run -c evenkeel.toml --access-log

--balance, --access-log and --log-format hold over the file; `resource` needs one with agents.
RUST_LOG holds over -q and -v.
TERM and INT let live connections finish and exit with 0, or with 5 when they had to be cut.
Other exit codes: 1 failed, 2 usage, 3 configuration invalid, 4 an address could not be bound.";

const CHECK_HELP: &str = "\
Examples:
  evenkeel check -c evenkeel.toml
  evenkeel check --offline -c evenkeel.toml

Exit codes: 0 fine, perhaps with warnings; 2 usage; 3 configuration invalid.";

const DEMO_HELP: &str = "\
Examples:
  evenkeel demo
  evenkeel demo --listen 127.0.0.1:8080 --backend-port 7001

In another terminal:
  echo hello | nc -N 127.0.0.1 3030

Ctrl-C ends it.";

const BACKEND_HELP: &str = "\
Examples:
  evenkeel backend --port 5001
  evenkeel backend --listen [::1]:5001 --name blue
  evenkeel backend --http --delay 250ms

Line mode answers `hello` with `[backend:5001] hello`. TERM and INT end it.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

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
            Command::Check(_) | Command::Demo(_) | Command::Backend(_) => panic!("{line}"),
        }
    }

    fn test_backend(line: &str) -> TestBackend {
        match meant(line) {
            Command::Backend(backend) => backend,
            Command::Check(_) | Command::Demo(_) | Command::Run(_) => panic!("{line}"),
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
        let all = run("evenkeel run -c x --access-log --log-format json --balance resource -q");
        assert_eq!(all.level, LevelFilter::Warn);
        assert_eq!(
            all.overrides,
            Overrides {
                policy: Some(Policy::Resource),
                access_log: Some(AccessLog::Close),
                log_format: Some(LogFormat::Json),
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
    fn hidden_options_work_and_are_hidden() {
        let child = test_backend("evenkeel backend --inherit-listener --exit-with 42");
        assert!(child.inherit_listener && child.exit_with == NonZeroU32::new(42));
        let help = parse(["evenkeel", "backend", "--help"]).expect_err("help is no command");
        assert_eq!(help.exit_code(), 0);
        let help = help.to_string();
        assert!(help.contains("--delay") && !help.contains("inherit") && !help.contains("PID"));
    }
}
