//! `evenkeel demo`: three echo backends and a balancer, to be tried out and played with.
//!
//! The backends are processes of their own, so that one can be killed to see what happens. Their
//! listening sockets are bound here and handed over as standard input: a port that is taken is
//! noticed before anything starts, and the first client finds all three.

use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::cli::Demo;
use crate::config::{Amendments, Backend, BackendAddress, Config, LoadError};
use crate::reactor::{Ending, Reactor, StartError, listening_descriptor};

/// Runs the demo until it is told to end. What to try is written to `out`.
///
/// # Errors
/// A port that is taken, or a process that cannot be started.
pub fn run(demo: &Demo, out: &mut impl Write) -> Result<Ending, DemoError> {
    let mut backends = Backends::default();
    for port in demo.backend_ports {
        backends.start(port)?;
    }
    let addresses: Vec<Backend> = demo.backend_ports.map(backend).to_vec();
    let listen = std::slice::from_ref(&demo.listen);
    let mut config = Config::from_arguments(listen, &addresses).map_err(DemoError::from_config)?;
    config.global.drain_deadline = Some(PATIENCE);
    config.apply(&demo.overrides).map_err(DemoError::from_config)?;
    let reactor =
        Reactor::balancing(config, None, Amendments::default()).map_err(DemoError::Start)?;
    let front = reactor.addresses().into_iter().next().unwrap_or_default();
    // A closed standard output is no reason not to balance.
    let admin = reactor.admin_addresses().into_iter().next().unwrap_or_default();
    let _ = backends.explain(&front, &admin, out).and_then(|()| out.flush());
    reactor.run().map_err(DemoError::System)
}

/// Ends this process when `parent` ends; true if it has ended already.
///
/// # Errors
/// When the kernel does not offer that.
pub fn is_orphaned(parent: NonZeroU32) -> io::Result<bool> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    Ok(now.and_then(|pid| u32::try_from(pid).ok()) != Some(parent.get()))
}

/// Why the demo could not run.
#[derive(Debug)]
pub enum DemoError {
    /// The port of a backend could not be bound.
    BackendPort {
        /// The port.
        port: u16,
        /// What the kernel said.
        error: io::Error,
    },
    /// The balancer could not start.
    Start(StartError),
    /// Something else that the kernel refused.
    System(io::Error),
}

impl DemoError {
    fn from_config(error: LoadError) -> Self {
        Self::System(io::Error::other(error.to_string()))
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BackendPort { port, error } => write!(
                f,
                "cannot start the backend on 127.0.0.1:{port}: {error}; choose three other ports \
                 with --backend-port N"
            ),
            Self::Start(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

/// The backends' processes, ended when this is dropped.
#[derive(Debug, Default)]
struct Backends(Vec<(u16, Child)>);

impl Backends {
    fn start(&mut self, port: u16) -> Result<(), DemoError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let socket = listening_descriptor(address)
            .map_err(|error| DemoError::BackendPort { port, error })?;
        let program = std::env::current_exe().map_err(DemoError::System)?;
        let child = Command::new(program)
            .args(["backend", "--inherit-listener", "--exit-with"])
            .arg(std::process::id().to_string())
            .env("RUST_LOG", "warn")
            .stdin(Stdio::from(socket))
            .spawn()
            .map_err(DemoError::System)?;
        self.0.push((port, child));
        Ok(())
    }

    fn explain(&self, front: &str, admin: &str, out: &mut impl Write) -> io::Result<()> {
        let program = std::env::args().next().unwrap_or_else(|| "evenkeel".to_owned());
        let place = match (front.strip_prefix("unix:"), front.rsplit_once(':')) {
            (Some(path), _) => format!("-U {path}"),
            (None, Some((host, port))) => format!("{} {port}", host.trim_matches(['[', ']'])),
            (None, None) => front.to_owned(),
        };
        writeln!(out, "\nThe balancer is at {front}; behind it are")?;
        for (port, child) in &self.0 {
            writeln!(out, "  an echo backend at 127.0.0.1:{port} (process {})", child.id())?;
        }
        writeln!(out, "\nTry in another terminal:")?;
        writeln!(out, "  for i in 1 2 3 4; do echo \"request $i\" | nc -N {place}; done")?;
        match admin.strip_prefix("unix:") {
            Some(path) => {
                writeln!(out, "  curl --unix-socket {path} http://localhost/targets")?;
            }
            None => {
                writeln!(out, "  curl http://{admin}/targets    # the state of each backend")?;
                writeln!(out, "  http://{admin}/    # the dashboard, for a browser")?;
            }
        }
        writeln!(out, "  {program} status --admin {admin}    # the same and more as a table")?;
        if let Some((port, child)) = self.0.get(1) {
            writeln!(
                out,
                "  kill {}    # a backend leaves, and clients do not notice",
                child.id()
            )?;
            writeln!(out, "  {program} backend --port {port}    # it comes back and rejoins")?;
        }
        writeln!(out, "What happens is told here. Ctrl-C ends it.\n")
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // One that has ended already needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn backend(port: u16) -> Backend {
    Backend::new(BackendAddress::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

/// How long connections may go on after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(2);
