//! Whether clients find the doors open: queues, ports, addresses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::facts::{Facts, Folder, Place, Taken};
use super::{Origin, Report, Severity, Subject, sysctl};
use crate::config::BindAddress;

/// The kernel cuts every queue to its own limit.
pub(super) fn backlog(subject: &Subject, facts: &Facts, report: &mut Report) {
    let listeners = &subject.config.listeners;
    let longest = listeners.iter().map(|listener| u64::from(listener.backlog)).max();
    let longest = longest.unwrap_or(USUAL_BACKLOG);
    let Some(most) = facts.somaxconn else { return };
    if most < longest {
        let read = format!("net.core.somaxconn is {most}");
        let means = format!(
            "backlog = {longest} is cut to {most}: of more clients that come at one moment, the \
             rest is dropped and tries again after a second"
        );
        let mend = sysctl("net.core.somaxconn", longest);
        report.add(Severity::Warning, "backlog", [read, means, mend]);
    } else {
        report.fine(format!("backlog: {longest} of net.core.somaxconn = {most}"));
    }
    let (Some(syn), Some(cookies)) = (facts.syn_backlog, facts.syncookies) else { return };
    if syn < longest {
        let read =
            format!("net.ipv4.tcp_max_syn_backlog is {syn}, net.ipv4.tcp_syncookies is {cookies}");
        let mend = sysctl("net.ipv4.tcp_max_syn_backlog", longest);
        if cookies == 0 {
            let means = format!(
                "of more than {syn} clients in the middle of their handshake the rest is dropped"
            );
            report.add(Severity::Warning, "handshakes", [read, means, mend]);
        } else {
            let means = format!(
                "more than {syn} clients in the middle of their handshake are served by cookies, \
                 which lose some TCP options"
            );
            report.add(Severity::Note, "handshakes", [read, means, mend]);
        }
    }
}

/// Somebody listens there already.
pub(super) fn taken(subject: &Subject, facts: &Facts, report: &mut Report) {
    if subject.origin != Origin::File {
        return;
    }
    let mut free = 0;
    for (name, address, reuse_port) in all_binds(subject) {
        let Some(taken) = facts.listening.iter().find(|taken| is_in_the_way(&address, taken))
        else {
            free += 1;
            continue;
        };
        let (who, is_ours) = match &taken.owner {
            Some((program, id)) => (format!("{program} (process {id})"), program == "evenkeel"),
            None => ("another program, whose name only root may read".to_owned(), false),
        };
        let read = format!("{who} listens on {}", place(&taken.at));
        if is_ours {
            let means = format!("{name} is served already; a second one cannot start beside it");
            let means = if reuse_port { format!("{name} is shared with it") } else { means };
            report.add(Severity::Note, "addresses", [read, means, String::new()]);
        } else {
            let means = format!("{name} cannot listen on {address}, the start fails with 4");
            let mend = match &taken.owner {
                Some((_, id)) => format!("end it (kill {id}), or choose another address"),
                None => "find it with `ss -ltnp` as root, or choose another address".to_owned(),
            };
            report.add(Severity::Error, "addresses", [read, means, mend]);
        }
    }
    if free > 0 {
        report.fine(format!("addresses: {free} free to listen on"));
    }
}

/// Ports that need a privilege.
pub(super) fn low_ports(subject: &Subject, facts: &Facts, report: &mut Report) {
    let first = facts.unprivileged_ports.unwrap_or(1024);
    if facts.may_bind_low_ports || subject.origin != Origin::File {
        return;
    }
    for (name, address, _) in all_binds(subject) {
        let Some(port) = address.port().filter(|&port| port > 0 && u64::from(port) < first) else {
            continue;
        };
        let read = format!(
            "this user has no CAP_NET_BIND_SERVICE, net.ipv4.ip_unprivileged_port_start is {first}"
        );
        let means = format!("{name} cannot listen on port {port}, the start fails with 4");
        let mend = "setcap cap_net_bind_service=+ep on the program; under systemd \
                    AmbientCapabilities=CAP_NET_BIND_SERVICE, as the unit has it"
            .to_owned();
        report.add(Severity::Error, "low ports", [read, means, mend]);
    }
}

/// A port that the kernel may give to an outgoing connection while nobody listens there.
pub(super) fn reserved(subject: &Subject, facts: &Facts, report: &mut Report) {
    let Some(range) = &facts.local_ports else { return };
    let is_reserved = |port: u16| facts.reserved_ports.iter().any(|range| range.contains(&port));
    for (name, address, _) in all_binds(subject) {
        let Some(port) = address.port().filter(|&port| range.contains(&port)) else { continue };
        if is_reserved(port) {
            continue;
        }
        let read = format!("local ports are {}-{}", range.start(), range.end());
        let means = format!(
            "port {port} of {name} is among them: an outgoing connection may have it when the \
             program starts again, and the start fails with 4"
        );
        let mut all: Vec<String> = facts
            .reserved_ports
            .iter()
            .map(|range| format!("{}-{}", range.start(), range.end()))
            .collect();
        all.push(port.to_string());
        let mend = sysctl("net.ipv4.ip_local_reserved_ports", all.join(","));
        let severity = match subject.origin {
            Origin::File => Severity::Warning,
            Origin::Running | Origin::Nothing => Severity::Note,
        };
        report.add(severity, "reserved ports", [read, means, mend]);
    }
}

/// Addresses that the machine does not have, and folders of unix sockets.
pub(super) fn addresses(subject: &Subject, facts: &Facts, report: &mut Report) {
    let may_be_foreign = facts.nonlocal_bind == Some(1);
    for (listener, address) in facts.missing_binds.iter().filter(|_| !may_be_foreign) {
        let read = format!("this machine has no address {address}");
        let means = format!("{listener} cannot listen there, the start fails with 4");
        let mend = format!(
            "choose one of `ip addr`, or add it: ip addr add {address} dev DEVICE; for one that \
             comes later: {}",
            sysctl("net.ipv4.ip_nonlocal_bind", 1)
        );
        report.add(Severity::Error, "addresses", [read, means, mend]);
    }
    let sockets = facts.folders.iter().filter(|folder| folder.purpose != STATE_FILE);
    for Folder { path, purpose, trouble } in sockets {
        if let (Some(trouble), Origin::File) = (trouble, subject.origin) {
            let path = path.display();
            let read = format!("{path}: {trouble}");
            let means = format!("no socket can be made for {purpose}, the start fails with 4");
            let mend = format!(
                "mkdir -p {path}, owned by the user it runs as; under systemd RuntimeDirectory="
            );
            report.add(Severity::Error, "addresses", [read, means, mend]);
        }
    }
}

/// Every address that is to be bound, with who wants it and whether it may be shared.
fn all_binds(subject: &Subject) -> Vec<(String, BindAddress, bool)> {
    let config = &subject.config;
    let of_listeners = config.listeners.iter().flat_map(|listener| {
        let name = format!("listener {}", listener.name);
        listener.bind.iter().map(move |bind| (name.clone(), bind.clone(), listener.reuse_port))
    });
    let of_admin =
        config.admin.iter().map(|admin| ("[admin]".to_owned(), admin.listen.clone(), false));
    of_listeners.chain(of_admin).collect()
}

fn is_in_the_way(wanted: &BindAddress, taken: &Taken) -> bool {
    match (wanted, &taken.at) {
        (BindAddress::Unix(path), Place::Unix(other)) => path == other,
        (BindAddress::Unix(_), Place::Tcp(_)) | (_, Place::Unix(_)) => false,
        (BindAddress::Inet(wanted), Place::Tcp(other)) => overlap(*wanted, *other),
        (BindAddress::Any(port), Place::Tcp(other)) => {
            overlap(SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port)), *other)
        }
        // Where a name leads is not known here; a port on all addresses is in its way.
        (BindAddress::Name { port, .. }, Place::Tcp(other)) => {
            *port > 0 && *port == other.port() && other.ip().is_unspecified()
        }
    }
}

/// An unspecified IPv6 address is taken for IPv4 as well, as it usually is.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers =
        |wide: IpAddr, other: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || other.is_ipv4());
    let meet = a.ip() == b.ip() || covers(a.ip(), b.ip()) || covers(b.ip(), a.ip());
    a.port() > 0 && a.port() == b.port() && meet
}

fn place(at: &Place) -> String {
    match at {
        Place::Tcp(address) => address.to_string(),
        Place::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Of a listener that says nothing else.
const USUAL_BACKLOG: u64 = 4096;
/// What the folder of the state file is for.
pub(super) const STATE_FILE: &str = "state_file";
