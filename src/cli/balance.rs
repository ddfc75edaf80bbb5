//! The commands that balance: `run` and `demo`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory};
use log::LevelFilter;

use super::Typed;
use crate::config::{
    AccessLog, Backend, BindAddress, LOG_FORMATS, LogFormat, Overrides, Policy, balance_by_name,
    log_format_by_name,
};

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

#[derive(Debug, Args)]
pub(super) struct TypedRun {
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
    pub(super) fn meant(self) -> Result<Run, clap::Error> {
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
    /// Address of the admin interface and the dashboard: HOST:PORT on this machine, or unix:PATH
    #[arg(long, value_name = "ADDR")]
    admin: Option<BindAddress>,
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
            admin: self.admin.clone(),
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
pub(super) struct TypedDemo {
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
    pub(super) fn meant(self) -> Result<Demo, clap::Error> {
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
        let on_loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT));
        let admin = self.common.admin.clone().unwrap_or(BindAddress::Inet(on_loopback));
        Ok(Demo {
            listen: self.listen,
            backend_ports,
            overrides: Overrides { admin: Some(admin), ..self.common.overrides() },
            level: self.common.level(),
        })
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

fn log_formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LOG_FORMATS).try_map(|name| log_format_by_name(&name))
}

/// Where client commands look for a balancer, see `ADMIN_ADDRESS`.
const ADMIN_PORT: u16 = 9930;

pub(super) const RUN_USAGE: &str = "evenkeel run [OPTIONS] [-l ADDR]... BACKEND...
       evenkeel run [OPTIONS] -c FILE";

pub(super) const RUN_HELP: &str = "\
Examples:
  evenkeel run localhost:5001 localhost:5002
  evenkeel run -l 127.0.0.1:3030 -l [::1]:3030 10.0.0.1:80,weight=2 10.0.0.2:80
  evenkeel run -l unix:/run/front.sock unix:/run/app1.sock unix:/run/app2.sock
  evenkeel run -c evenkeel.toml --access-log

--admin, --balance, --access-log and --log-format hold over it; `resource` needs one with agents.
RUST_LOG holds over -q and -v.
TERM and INT let live connections finish and exit with 0, or with 5 when they had to be cut.
Other exit codes: 1 failed, 2 usage, 3 configuration invalid, 4 an address could not be bound.";

pub(super) const DEMO_HELP: &str = "\
Examples:
  evenkeel demo
  evenkeel demo --listen 127.0.0.1:8080 --backend-port 7001

In another terminal:
  echo hello | nc -N 127.0.0.1 3030
  curl http://127.0.0.1:9930/targets

Ctrl-C ends it.";
