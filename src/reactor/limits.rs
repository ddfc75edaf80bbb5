//! What the descriptor limit allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::StartError;
use super::admin;
use super::socket::SourcePorts;
use crate::doctor::facts::Descriptors;

/// Raises the soft descriptor limit to the hard one.
///
/// # Errors
/// When the kernel refuses; the soft limit stays as it was.
pub fn raise_descriptor_limit() -> std::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(())
}

/// How many descriptors this process has open.
pub(super) fn open_descriptors() -> usize {
    // Without /proc, assume a generous number; it only sets some descriptors aside.
    std::fs::read_dir("/proc/self/fd").map_or(64, Iterator::count)
}

/// How many clients may be inside at once: what is wanted, or what the descriptors allow. Two for
/// each connection; `others`, two for each pipe, and a few for the rest are set aside.
pub(super) fn max_connections(wanted: Option<usize>, others: usize) -> Result<Most, StartError> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let aside = aside(others, most_pipes());
    let allowed = usize::try_from(limit.saturating_sub(aside) / 2).unwrap_or(usize::MAX).min(MOST);
    if allowed == 0 {
        return Err(StartError::Descriptors { limit, needed: aside + 2 });
    }
    match wanted {
        Some(wanted) if wanted > allowed => {
            let needed = aside + 2 * wanted as u64;
            Ok(Most { connections: allowed, lacking: Some(Lacking { wanted, limit, needed }) })
        }
        Some(_) | None => Ok(Most { connections: wanted.unwrap_or(allowed), lacking: None }),
    }
}

/// How many clients may be inside at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) connections: usize,
    /// Why there are not as many as wanted.
    lacking: Option<Lacking>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lacking {
    wanted: usize,
    limit: u64,
    needed: u64,
}

impl Most {
    /// Tells when there are not as many as wanted.
    pub(super) fn warn(self) {
        if let Some(Lacking { wanted, limit, needed }) = self.lacking {
            log::warn!(
                "max_connections = {wanted} needs {needed} descriptors, the limit is {limit}: \
                 at most {} connections; raise the limit (ulimit -n, or LimitNOFILE= in \
                 the systemd unit)",
                self.connections
            );
        }
    }
}

/// Not for connections: `others`, pipes, and a few for the rest.
fn aside(others: usize, pipes: usize) -> u64 {
    others as u64 + 2 * pipes as u64 + SPARE
}

/// The limit that the program will have, and what it will set aside of it.
pub(super) fn descriptors(probes: usize, has_admin: bool) -> Descriptors {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let others = open_descriptors() + probes + if has_admin { admin::MOST_CLIENTS } else { 0 };
    Descriptors { hard, aside: aside(others, pipes_of(hard)) }
}

/// How many pipes may carry bulk data at one time: a small share of the descriptors.
pub(super) fn most_pipes() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    pipes_of(limit)
}

fn pipes_of(limit: u64) -> usize {
    usize::try_from(limit / PIPE_SHARE).unwrap_or(usize::MAX).min(MOST_PIPES)
}

/// The ports from which the kernel chooses that of an outgoing connection, as set at the start.
pub(super) fn source_ports() -> SourcePorts {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let mut ports = text.iter().flat_map(|text| text.split_whitespace()).map(str::parse);
    match (ports.next(), ports.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        _ => ANY_SOURCE_PORT,
    }
}

/// What may be chosen where the kernel does not tell.
const ANY_SOURCE_PORT: SourcePorts = 1024..=u16::MAX;
/// One pipe for so many descriptors.
const PIPE_SHARE: u64 = 64;
const MOST_PIPES: usize = 128;
/// Descriptors set aside for what comes and goes: names being resolved, sockets parting.
const SPARE: u64 = 8;
/// No machine serves more from one thread.
const MOST: usize = 10_000_000;
