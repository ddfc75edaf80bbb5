//! Reading a machine: the kernel's settings and tables, and files that the configuration names.
//!
//! Everything is read below a root folder, so that tests can bring a machine of their own. What
//! cannot be read is left out.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, access};

use super::doors::STATE_FILE;
use super::facts::{Facts, Folder, Place, Taken};
use crate::config::{BindAddress, Config};

/// What files tell; who can be reached is left for others.
#[must_use]
pub fn read(root: &Path, config: &Config) -> Facts {
    let number = |path: &str| text(root, path)?.trim().parse().ok();
    let sysctl = |name: &str| number(&format!("proc/sys/{}", name.replace('.', "/")));
    let capabilities = text(root, "proc/self/status").and_then(|text| capabilities(&text));
    let has = |bit: u32| capabilities.is_some_and(|set| set >> bit & 1 == 1);
    let conntrack =
        sysctl("net.netfilter.nf_conntrack_max").zip(sysctl("net.netfilter.nf_conntrack_count"));
    let token = config.admin.as_ref().and_then(|admin| admin.token_file.as_ref());
    Facts {
        kernel: text(root, "proc/sys/kernel/osrelease").and_then(|text| version(&text)),
        somaxconn: sysctl("net.core.somaxconn"),
        syn_backlog: sysctl("net.ipv4.tcp_max_syn_backlog"),
        syncookies: sysctl("net.ipv4.tcp_syncookies"),
        local_ports: text(root, "proc/sys/net/ipv4/ip_local_port_range")
            .and_then(|text| range(&text.split_whitespace().collect::<Vec<_>>().join("-"))),
        reserved_ports: text(root, "proc/sys/net/ipv4/ip_local_reserved_ports")
            .map(|text| text.trim().split(',').filter_map(range).collect())
            .unwrap_or_default(),
        unprivileged_ports: sysctl("net.ipv4.ip_unprivileged_port_start"),
        nonlocal_bind: sysctl("net.ipv4.ip_nonlocal_bind"),
        tw_reuse: sysctl("net.ipv4.tcp_tw_reuse"),
        migrate_req: sysctl("net.ipv4.tcp_migrate_req"),
        pipe_pages: sysctl("fs.pipe-user-pages-soft"),
        file_max: sysctl("fs.file-max"),
        conntrack,
        memory: memory(root),
        may_bind_low_ports: has(CAP_NET_BIND_SERVICE),
        has_all_pipes: has(CAP_SYS_RESOURCE) || has(CAP_SYS_ADMIN),
        listening: listening(root, config),
        token_mode: token.and_then(|file| fs::metadata(file).ok()).map(|file| file.mode() & 0o7777),
        folders: folders(config),
        ..Facts::default()
    }
}

fn text(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// `1-2`, or a single number.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(u16::from_str(first.trim()).ok()?..=last.trim().parse().ok()?)
}

/// The effective ones of this process.
fn capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The least of the machine's memory and the limits of the control groups around this process.
fn memory(root: &Path) -> Option<(u64, String)> {
    let mut all = Vec::new();
    let total = text(root, "proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim();
        line.split(' ').next()?.parse::<u64>().ok()
    });
    all.extend(total.map(|kib| (kib * 1024, "of the machine".to_owned())));
    for line in text(root, "proc/self/cgroup").unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            "memory" => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let file = Path::new(base).join(group).join(file);
            let limit =
                text(root, &file.to_string_lossy()).and_then(|text| text.trim().parse().ok());
            all.extend(limit.map(|limit: u64| (limit, format!("/{}", file.display()))));
        }
    }
    all.into_iter().min()
}

/// Those of the wanted addresses on which somebody listens.
fn listening(root: &Path, config: &Config) -> Vec<Taken> {
    let binds: Vec<&BindAddress> = config
        .listeners
        .iter()
        .flat_map(|listener| &listener.bind)
        .chain(config.admin.iter().map(|admin| &admin.listen))
        .collect();
    let mut found = Vec::new();
    for table in ["proc/net/tcp", "proc/net/tcp6"] {
        for line in text(root, table).unwrap_or_default().lines().skip(1) {
            let Some((address, inode)) = listening_line(line) else { continue };
            if binds.iter().any(|bind| bind.port() == Some(address.port())) {
                found.push((Place::Tcp(address), inode));
            }
        }
    }
    for line in text(root, "proc/net/unix").unwrap_or_default().lines().skip(1) {
        let Some((path, inode)) = listening_socket(line) else { continue };
        if binds.iter().any(|bind| matches!(bind, BindAddress::Unix(other) if *other == path)) {
            found.push((Place::Unix(path), inode));
        }
    }
    let owners = if found.is_empty() { HashMap::new() } else { owners(root, &found) };
    let taken = |(at, inode): (Place, u64)| Taken { at, owner: owners.get(&inode).cloned() };
    found.into_iter().map(taken).collect()
}

/// A line of `/proc/net/tcp` whose socket listens: where, and its inode.
fn listening_line(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != LISTENS {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    // Each four bytes are a number as this machine writes it.
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
        _ => return None,
    };
    Some((SocketAddr::new(ip, port), fields.get(9)?.parse().ok()?))
}

/// A line of `/proc/net/unix` whose socket listens at a path.
fn listening_socket(line: &str) -> Option<(PathBuf, u64)> {
    let mut fields = line.split_whitespace();
    let accepts = fields.nth(3)? == ACCEPTS;
    let inode = fields.nth(2)?.parse().ok()?;
    let path = fields.next().filter(|path| accepts && path.starts_with('/'))?;
    Some((PathBuf::from(path), inode))
}

/// The programs that have these sockets open, as far as this user may see.
fn owners(root: &Path, sockets: &[(Place, u64)]) -> HashMap<u64, (String, u32)> {
    let mut owners = HashMap::new();
    for process in fs::read_dir(root.join("proc")).into_iter().flatten().flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let target = target.to_string_lossy();
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            let Some(inode) = inode.and_then(|inode| inode.parse().ok()) else { continue };
            if sockets.iter().any(|(_, wanted)| *wanted == inode) {
                let name = text(&process.path(), "comm").unwrap_or_default();
                owners.insert(inode, (name.trim().to_owned(), id));
            }
        }
    }
    owners
}

/// Folders in which sockets and the state file are made.
fn folders(config: &Config) -> Vec<Folder> {
    let mut wanted: Vec<(PathBuf, String)> = Vec::new();
    for listener in &config.listeners {
        for bind in &listener.bind {
            if let BindAddress::Unix(path) = bind {
                wanted.push((path.clone(), format!("listener {}", listener.name)));
            }
        }
    }
    if let Some(BindAddress::Unix(path)) = config.admin.as_ref().map(|admin| &admin.listen) {
        wanted.push((path.clone(), "[admin]".to_owned()));
    }
    wanted.extend(config.global.state_file.clone().map(|path| (path, STATE_FILE.to_owned())));
    wanted.into_iter().map(|(file, purpose)| folder(&file, purpose)).collect()
}

fn folder(file: &Path, purpose: String) -> Folder {
    let path = match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    let error = access(&path, Access::WRITE_OK | Access::EXEC_OK).err();
    let trouble = error.map(|error| {
        let text = io::Error::from(error).to_string();
        text.split(" (os error").next().unwrap_or_default().to_lowercase()
    });
    Folder { path, purpose, trouble }
}

const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
/// TCP_LISTEN in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// SO_ACCEPTCON in `/proc/net/unix`.
const ACCEPTS: &str = "00010000";
