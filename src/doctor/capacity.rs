//! Whether there is enough of what connections take: descriptors, memory, local ports, pipes.

use std::collections::HashSet;

use super::facts::Facts;
use super::{Origin, Report, Severity, Subject, most_connections, sysctl};
use crate::config::{BackendAddress, Pool};

/// Two descriptors for each connection, within the limit of the process and of the machine.
pub(super) fn descriptors(subject: &Subject, facts: &Facts, report: &mut Report) {
    if subject.origin == Origin::Running {
        // It has limits of its own, which it knows; those of this shell say nothing about it.
        let most = most_connections(subject, facts);
        report.fine(format!("descriptors: the running balancer lets {most} connections in"));
        return;
    }
    let Some(limit) = facts.descriptors else { return };
    let allowed = limit.connections();
    let read = format!(
        "at most {} descriptors (ulimit -Hn of this shell), {} of them set aside",
        limit.hard, limit.aside
    );
    let wanted = subject.config.global.max_connections.map(|most| most as u64);
    let needed = wanted.map(|most| 2 * most + limit.aside);
    match (wanted, needed) {
        (Some(most), Some(needed)) if most > allowed => {
            let means = format!(
                "max_connections = {most} needs {needed}; only {allowed} connections are let in \
                 at once"
            );
            let mend = format!(
                "ulimit -Hn {needed} as root before the start; under systemd LimitNOFILE={needed}"
            );
            report.add(Severity::Error, "descriptors", [read, means, mend]);
        }
        (Some(most), _) => {
            report.fine(format!("descriptors: max_connections = {most} of {allowed} possible"));
        }
        (None, _) if allowed < FEW_CONNECTIONS => {
            let means = format!("{allowed} connections are let in at once");
            let mend = "ulimit -Hn 524288 as root before the start; under systemd \
                        LimitNOFILE=524288";
            report.add(Severity::Warning, "descriptors", [read, means, mend.to_owned()]);
        }
        (None, _) => report.fine(format!("descriptors: {allowed} connections at once")),
    }
    let needed = 2 * most_connections(subject, facts) + limit.aside;
    if let Some(all) = facts.file_max.filter(|&all| all < needed && wanted.is_some()) {
        let read = format!("fs.file-max is {all}, for the whole machine");
        let means = format!("{needed} may be needed here alone");
        report.add(
            Severity::Error,
            "descriptors",
            [read, means, sysctl("fs.file-max", 2 * needed)],
        );
    }
}

/// What the kernel keeps for two sockets of each connection, at least.
pub(super) fn memory(subject: &Subject, facts: &Facts, report: &mut Report) {
    let Some((limit, place)) = &facts.memory else { return };
    let most = most_connections(subject, facts);
    let (idle, busy) = (most.saturating_mul(IDLE), most.saturating_mul(IDLE + BUSY));
    let read = format!("{} MiB of memory ({place})", limit / MIB);
    let (all, worst) = (idle / MIB, busy / MIB);
    if idle > *limit {
        let means = format!(
            "{most} connections need {all} MiB even when nothing moves ({} KiB each, most of it \
             the kernel's)",
            IDLE / 1024
        );
        let most = limit / 2 / IDLE;
        let mend = format!("more memory, or max_connections = {most} in [global]");
        report.add(Severity::Error, "memory", [read, means, mend]);
    } else if busy > *limit && subject.config.global.max_connections.is_some() {
        let means = format!(
            "{most} connections need {all} MiB when nothing moves; if every one had a slow \
             reader in both directions, {worst} MiB"
        );
        report.add(Severity::Note, "memory", [read, means, String::new()]);
    } else {
        report.fine(format!("memory: {all} MiB for {most} idle connections of {read}"));
    }
}

/// A local port for each connection to one address of a backend.
pub(super) fn local_ports(subject: &Subject, facts: &Facts, report: &mut Report) {
    let Some(each) = local_ports_for_one(facts) else { return };
    let most = most_connections(subject, facts);
    for pool in &subject.config.pools {
        let destinations = inet_backends(pool);
        if destinations == 0 {
            continue;
        }
        let (sources, ports) =
            (pool.source.len().max(1) as u64, each * pool.source.len().max(1) as u64);
        let all = ports * destinations;
        let read = format!(
            "{each} local ports (net.ipv4.ip_local_port_range), {sources} source {}, \
             {destinations} backends in pool {}",
            plural(sources, "address", "addresses"),
            pool.name
        );
        let is_explicit =
            subject.origin == Origin::File && subject.config.global.max_connections.is_some();
        let mend = || {
            let wanted = most.div_ceil(ports.max(1)) * sources;
            format!(
                "{}; or {wanted} addresses in `source` of [pool.{}]",
                sysctl("net.ipv4.ip_local_port_range", "'1024 65535'"),
                pool.name
            )
        };
        if most > all && is_explicit {
            let means = format!(
                "at most {all} connections can be made to this pool, max_connections is {most}"
            );
            report.add(Severity::Warning, "local ports", [read, means, mend()]);
        } else if most > ports {
            let means = format!(
                "at most {ports} connections can be made to one backend, {all} to all; when one \
                 is left alone, {most} do not fit"
            );
            report.add(Severity::Note, "local ports", [read, means, mend()]);
        } else {
            report.fine(format!("local ports: {ports} for each backend of pool {}", pool.name));
        }
    }
}

/// A port is not free for a minute after a connection that this side has ended.
pub(super) fn time_wait(subject: &Subject, facts: &Facts, report: &mut Report) {
    let (Some(each), Some(reuse)) = (local_ports_for_one(facts), facts.tw_reuse) else { return };
    if reuse == 1 {
        report.fine("TIME_WAIT: net.ipv4.tcp_tw_reuse is 1".to_owned());
        return;
    }
    for listener in &subject.config.listeners {
        let Some(rate) = listener.accept_rate.map(u64::from) else { continue };
        let Some(pool) = subject.config.pools.get(listener.pool) else { continue };
        let sources = pool.source.len().max(1) as u64;
        // 2 is for this machine's own addresses.
        let is_spared = |address: &BackendAddress| reuse == 2 && is_loopback(address);
        let addresses = pool.backends.iter().map(|backend| &backend.address);
        let exposed = addresses.filter(|one| is_inet(one) && !is_spared(one)).count() as u64;
        let possible = each * sources * exposed / TIME_WAIT_SECONDS;
        if exposed > 0 && rate > possible {
            let read = format!("net.ipv4.tcp_tw_reuse is {reuse}, {each} local ports");
            let means = format!(
                "accept_rate = {rate} of listener {} may use them up: where this side ends \
                 connections first, a port rests for {TIME_WAIT_SECONDS} s, which leaves \
                 {possible} new connections in a second",
                listener.name
            );
            let mend = sysctl("net.ipv4.tcp_tw_reuse", 1);
            report.add(Severity::Warning, "TIME_WAIT", [read, means, mend]);
        }
    }
}

/// Each connection is tracked twice: the client's and the backend's.
pub(super) fn conntrack(subject: &Subject, facts: &Facts, report: &mut Report) {
    let Some((most, count)) = facts.conntrack else { return };
    let connections = most_connections(subject, facts);
    let read = format!("net.netfilter.nf_conntrack_max is {most}, {count} are in use");
    let mend = || {
        let wanted = (2 * connections).next_power_of_two().max(2 * most);
        sysctl("net.netfilter.nf_conntrack_max", wanted)
    };
    if count >= most / 10 * 9 {
        let means = "new connections are about to be dropped by the kernel".to_owned();
        report.add(Severity::Error, "conntrack", [read, means, mend()]);
    } else if subject.config.global.max_connections.is_some() && 2 * connections > most {
        let means = format!(
            "{connections} connections take {}, two each; beyond the limit the kernel drops new \
             ones without a word to anybody here",
            2 * connections
        );
        report.add(Severity::Warning, "conntrack", [read, means, mend()]);
    } else {
        report.fine(format!("conntrack: {count} of {most}"));
    }
}

/// Pages of pipes for bulk data, which are limited for each user.
pub(super) fn pipes(subject: &Subject, facts: &Facts, report: &mut Report) {
    let Some(pages) = facts.pipe_pages else { return };
    let splices = subject.config.listeners.iter().any(|listener| listener.splice);
    if facts.has_all_pipes || pages == 0 || !splices {
        return;
    }
    let whole = pages / PAGES_OF_PIPE;
    if whole < FEW_PIPES {
        let read = format!("fs.pipe-user-pages-soft is {pages} pages");
        let means = format!(
            "bytes of {whole} streams at once can wait in a whole pipe of 1 MiB; further streams \
             are copied, at two to four times the processor time"
        );
        let mend = sysctl("fs.pipe-user-pages-soft", MOST_PIPES * PAGES_OF_PIPE);
        report.add(Severity::Warning, "pipes", [read, means, mend]);
    } else {
        report.fine(format!("pipes: {whole} whole ones for this user"));
    }
}

/// From one address to one destination.
fn local_ports_for_one(facts: &Facts) -> Option<u64> {
    let range = facts.local_ports.as_ref()?;
    let reserved: HashSet<u16> =
        facts.reserved_ports.iter().flat_map(Clone::clone).filter(|p| range.contains(p)).collect();
    Some((range.len() as u64).saturating_sub(reserved.len() as u64))
}

fn inet_backends(pool: &Pool) -> u64 {
    pool.backends.iter().filter(|backend| is_inet(&backend.address)).count() as u64
}

fn is_inet(address: &BackendAddress) -> bool {
    !matches!(address, BackendAddress::Unix(_))
}

fn is_loopback(address: &BackendAddress) -> bool {
    match address {
        BackendAddress::Inet(address) => address.ip().is_loopback(),
        BackendAddress::Name { host, .. } => host == "localhost",
        BackendAddress::Unix(_) => false,
    }
}

fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

const MIB: u64 = 1024 * 1024;
/// In bytes: two sockets with their files and inodes (3.9 KiB each on Linux 6.18, growth of the
/// slabs over 8000 of them, 2026-11-30), and what the program keeps.
const IDLE: u64 = 8 * 1024;
/// What waits in both directions of a connection at most, outside of the kernel.
const BUSY: u64 = 2 * 64 * 1024;
const TIME_WAIT_SECONDS: u64 = 60;
/// Nobody balances for fewer by intention.
const FEW_CONNECTIONS: u64 = 1000;
const PAGES_OF_PIPE: u64 = 256;
const MOST_PIPES: u64 = 128;
const FEW_PIPES: u64 = 16;
