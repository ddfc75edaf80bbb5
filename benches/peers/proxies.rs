//! The proxies side by side, each configured to do all its work on one thread.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::process::{Process, configuration, evenkeel, find};
use crate::support::until;

/// Something between client and backends, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// No proxy: what the machine can do.
    Direct,
    /// HAProxy with splicing where it thinks fit.
    Haproxy,
    /// The stream module of nginx.
    Nginx,
    /// This project's daemon.
    Evenkeel,
    /// The same, told not to splice.
    EvenkeelCopy,
}

impl Peer {
    pub(crate) const ALL: [Self; 5] =
        [Self::Direct, Self::Haproxy, Self::Nginx, Self::Evenkeel, Self::EvenkeelCopy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Evenkeel => "evenkeel",
            Self::EvenkeelCopy => "evenkeel, splice off",
        }
    }

    /// Whether it is this project's, so that its failures are ours.
    pub(crate) fn is_ours(self) -> bool {
        match self {
            Self::Evenkeel | Self::EvenkeelCopy => true,
            Self::Direct | Self::Haproxy | Self::Nginx => false,
        }
    }

    /// What is not there to run it.
    pub(crate) fn missing(self) -> Option<&'static str> {
        match self {
            Self::Direct | Self::Evenkeel | Self::EvenkeelCopy => None,
            Self::Haproxy => find("haproxy").is_none().then_some("haproxy"),
            Self::Nginx if find("nginx").is_none() => Some("nginx"),
            Self::Nginx => (!nginx_has_stream()).then_some("libnginx-mod-stream"),
        }
    }

    /// What it calls its version.
    pub(crate) fn version(self) -> Option<String> {
        match self {
            Self::Direct | Self::EvenkeelCopy => None,
            Self::Haproxy => first_line("haproxy", "-v"),
            Self::Nginx => first_line("nginx", "-v"),
            Self::Evenkeel => Some(concat!("evenkeel ", env!("CARGO_PKG_VERSION")).to_owned()),
        }
    }

    /// Starts it in front of these backends; `probing` has it check their health where it can.
    pub(crate) fn start(
        self,
        folder: &Path,
        backends: &[SocketAddr],
        probing: bool,
    ) -> io::Result<Proxy> {
        let health = if probing { "tcp" } else { "none" };
        let (process, address) = match self {
            Self::Direct => return Ok(Proxy { process: None, targets: backends.to_vec() }),
            Self::Haproxy => {
                let address = free_address()?;
                let file = write(folder, "haproxy.cfg", &haproxy(address, backends, probing))?;
                let words = [program("haproxy"), "-db".into(), "-f".into(), file];
                (Process::start(self.name(), folder, &words)?, address)
            }
            Self::Nginx => {
                let address = free_address()?;
                let file = write(folder, "nginx.conf", &nginx(folder, address, backends))?;
                let log = folder.join("nginx.err").display().to_string();
                let words = [program("nginx"), "-c".into(), file, "-e".into(), log];
                (Process::start(self.name(), folder, &words)?, address)
            }
            Self::Evenkeel => evenkeel("evenkeel", folder, &configuration(backends, true, health))?,
            Self::EvenkeelCopy => {
                evenkeel("evenkeel-copy", folder, &configuration(backends, false, health))?
            }
        };
        let mut proxy = Proxy { process: Some(process), targets: vec![address] };
        until("the proxy listens", || {
            proxy.process.as_mut().map(Process::output).transpose()?;
            Ok(is_listening(address)?.then_some(()))
        })?;
        Ok(proxy)
    }
}

/// A running peer, and where its clients connect.
pub(crate) struct Proxy {
    process: Option<Process>,
    pub(crate) targets: Vec<SocketAddr>,
}

impl Proxy {
    /// CPU time used so far by all threads of all its processes.
    pub(crate) fn cpu(&self, family: &[u32]) -> io::Result<Option<Duration>> {
        if self.process.is_none() {
            return Ok(None);
        }
        let mut total = Duration::ZERO;
        for pid in family {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                total += run_time(&task?.path())?;
            }
        }
        Ok(Some(total))
    }

    /// Its processes.
    pub(crate) fn family(&self) -> io::Result<Vec<u32>> {
        self.process.as_ref().map_or_else(|| Ok(Vec::new()), Process::family)
    }
}

/// The run time of a thread: to the nanosecond where the kernel keeps it, else in ticks.
fn run_time(task: &Path) -> io::Result<Duration> {
    if let Ok(stat) = fs::read_to_string(task.join("schedstat"))
        && let Some(nanos) = stat.split_whitespace().next().and_then(|word| word.parse().ok())
    {
        return Ok(Duration::from_nanos(nanos));
    }
    let stat = fs::read_to_string(task.join("stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * MILLIS_PER_TICK))
}

/// Whether somebody listens there, without a connect that might disturb them.
pub(crate) fn is_listening(address: SocketAddr) -> io::Result<bool> {
    let place = format!(":{:04X} 00000000:0000 0A", address.port());
    Ok(fs::read_to_string("/proc/net/tcp")?.contains(&place))
}

/// A loopback address that was free a moment ago.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The first line a program prints about its version.
pub(crate) fn first_line(name: &str, option: &str) -> Option<String> {
    let output = Command::new(find(name)?).arg(option).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // HAProxy adds where it is from.
    text.lines().next().map(|line| line.split(" - ").next().unwrap_or(line).to_owned())
}

/// The program's own path, or its name where it is not found.
pub(crate) fn program(name: &str) -> String {
    find(name).map_or_else(|| name.to_owned(), |file| file.display().to_string())
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let file = folder.join(name);
    fs::write(&file, text)?;
    Ok(file.display().to_string())
}

fn haproxy(address: SocketAddr, backends: &[SocketAddr], probing: bool) -> String {
    let check = if probing { " check inter 2s" } else { "" };
    let servers: String = backends
        .iter()
        .enumerate()
        .map(|(number, backend)| format!("  server s{number} {backend}{check}\n"))
        .collect();
    format!(
        "global\n  nbthread 1\n  maxconn 4000\n\
         defaults\n  mode tcp\n  option splice-auto\n\
         \x20 timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         frontend clients\n  bind {address}\n  maxconn 4000\n  default_backend servers\n\
         backend servers\n  balance roundrobin\n{servers}"
    )
}

fn nginx(folder: &Path, address: SocketAddr, backends: &[SocketAddr]) -> String {
    let load = if Path::new(NGINX_STREAM).exists() {
        format!("load_module {NGINX_STREAM};\n")
    } else {
        String::new()
    };
    let servers: String = backends.iter().map(|backend| format!("server {backend}; ")).collect();
    let folder = folder.display();
    format!(
        "{load}daemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\n\
         error_log {folder}/nginx.err error;\n\
         events {{ worker_connections 4000; }}\n\
         stream {{\n  upstream servers {{ {servers}}}\n\
         \x20 server {{\n    listen {address} backlog=4096;\n    proxy_pass servers;\n\
         \x20   proxy_connect_timeout 5s;\n    proxy_timeout 1h;\n  }}\n}}\n"
    )
}

fn nginx_has_stream() -> bool {
    let built_in = || {
        let output = Command::new(program("nginx")).arg("-V").output().ok()?;
        Some(
            String::from_utf8_lossy(&output.stderr)
                .split_whitespace()
                .any(|o| o == "--with-stream"),
        )
    };
    Path::new(NGINX_STREAM).exists() || built_in().unwrap_or(false)
}

/// Where Debian's package puts the module.
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
/// Linux counts in hundredths of a second towards user space.
const MILLIS_PER_TICK: u64 = 10;
