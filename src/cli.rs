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
        TypedCommand::Run(typed) => Ok(Command::Run(typed.meant())),
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
    /// HOST:PORT[,weight=N] or unix:PATH[,weight=N]; connections go to each in turn
    #[arg(value_name = "BACKEND", required_unless_present = "config")]
    backends: Vec<Backend>,
    #[command(flatten)]
    common: Common,
}

impl TypedRun {
    fn meant(self) -> Run {
        let overrides = self.common.overrides();
        let level = self.common.level();
        let source = match self.config {
            Some(file) => Source::File(file),
            None => Source::Arguments { listen: self.listen, backends: self.backends },
        };
        Run { source, overrides, level }
    }
}

/// Options of every command that balances.
#[derive(Debug, Args)]
struct Common {
    /// How the next backend is chosen: round-robin
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
        let first = self.backend_port;
        let backend_ports = [first, first + 1, first + 2];
        let taken = self.listen.port().filter(|port| backend_ports.contains(port));
        if let Some(port) = taken {
            let message = format!(
                "port {port} of --listen is also the port of a backend; \
                 choose others with --backend-port or another with --listen"
            );
            return Err(demo_error(&message));
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

fn demo_error(message: &str) -> clap::Error {
    let mut command = Typed::command();
    command.build();
    let demo = command.find_subcommand_mut("demo");
    let mut demo = demo.cloned().unwrap_or_default();
    demo.error(clap::error::ErrorKind::ArgumentConflict, message)
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

--balance, --access-log and --log-format hold over the file. RUST_LOG holds over -q and -v.
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
