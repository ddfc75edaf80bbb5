//! The command `backend`: a backend for tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;

use crate::config::{BindAddress, parse_duration};

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

#[derive(Debug, Args)]
pub(super) struct TypedBackend {
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
    pub(super) fn meant(self) -> TestBackend {
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

/// A name goes into answers as it is: one short line.
fn parse_name(text: &str) -> Result<String, &'static str> {
    let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    let named = fits.then(|| text.to_owned());
    named.ok_or("write 1 to 64 characters without line breaks")
}

const TEST_BACKEND_PORT: u16 = 5001;

pub(super) const BACKEND_HELP: &str = "\
Examples:
  evenkeel backend --port 5001
  evenkeel backend --listen [::1]:5001 --name blue
  evenkeel backend --http --delay 250ms

Line mode answers `hello` with `[backend:5001] hello`. TERM and INT end it.";
