//! Whether everything that the configuration names is there: names, backends, addresses, files.

use super::doors::STATE_FILE;
use super::facts::{Facts, Reached};
use super::{Origin, Report, Severity, Subject, sysctl};

/// Names that do not resolve.
pub(super) fn names(_: &Subject, facts: &Facts, report: &mut Report) {
    for name in &facts.names {
        if let Some(trouble) = &name.trouble {
            let read = format!("{:?} does not resolve: {trouble}", name.host);
            let means = "its backends are `unresolved` and get no clients; a listener of that \
                         name cannot start"
                .to_owned();
            let mend = format!("check the spelling, and what `getent ahosts {}` says", name.host);
            report.add(Severity::Error, "names", [read, means, mend]);
        }
    }
    let good = facts.names.iter().filter(|name| name.trouble.is_none()).count();
    if good > 0 {
        report.fine(format!("names: {good} resolve"));
    }
}

/// Backends that cannot be connected, a finding for each pool.
pub(super) fn backends(subject: &Subject, facts: &Facts, report: &mut Report) {
    for pool in &subject.config.pools {
        let all: Vec<&Reached> =
            facts.reached.iter().filter(|reached| reached.pool == pool.name).collect();
        let bad: Vec<String> = all
            .iter()
            .filter_map(|one| one.trouble.as_ref().map(|why| format!("{}: {why}", one.address)))
            .collect();
        if all.is_empty() {
            continue;
        }
        if bad.is_empty() {
            report.fine(format!("backends: all {} of pool {} are reached", all.len(), pool.name));
            continue;
        }
        let more = bad.len().saturating_sub(LISTED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let read = format!("{}{more}", bad[..bad.len().min(LISTED)].join("; "));
        let (severity, means) = if bad.len() == all.len() {
            (Severity::Error, format!("nobody can serve the clients of pool {}", pool.name))
        } else {
            let left = all.len() - bad.len();
            let means = format!("{left} of {} backends serve pool {}", all.len(), pool.name);
            (Severity::Warning, means)
        };
        let mend = "start what listens there, or look for what is between: \
                    `nc -vz HOST PORT`, `ip route get ADDRESS`, `nft list ruleset`"
            .to_owned();
        report.add(severity, "backends", [read, means, mend]);
    }
}

/// Addresses of `source` that are not on this machine.
pub(super) fn sources(subject: &Subject, facts: &Facts, report: &mut Report) {
    for (name, address) in &facts.missing_sources {
        let all = subject.config.pools.iter().find(|pool| pool.name == *name);
        let count = all.map_or(1, |pool| pool.source.len());
        let read = format!("{address} in `source` of pool {name} is no address of this machine");
        let is_only = count == 1;
        let means = if is_only {
            "no backend can be connected from it".to_owned()
        } else {
            format!("{} of {count} addresses are left, and so many local ports", count - 1)
        };
        let severity = if is_only { Severity::Error } else { Severity::Warning };
        let mend = format!("ip addr add {address} dev DEVICE, or remove it from `source`");
        report.add(severity, "source", [read, means, mend]);
    }
}

/// A token that others may read.
pub(super) fn token(subject: &Subject, facts: &Facts, report: &mut Report) {
    let (Some(mode), Some(admin)) = (facts.token_mode, &subject.config.admin) else { return };
    let Some(file) = &admin.token_file else { return };
    let path = file.display();
    if mode & OTHERS == 0 {
        report.fine(format!("token: {path} has mode {mode:04o}"));
        return;
    }
    let read = format!("{path} has mode {mode:04o}");
    let means = "every user of this machine can read the token, and then change everything";
    let mend = format!(
        "chmod o-rwx {path}, with the group of the user it runs as; under systemd with \
         DynamicUser= use LoadCredential="
    );
    report.add(Severity::Warning, "token", [read, means.to_owned(), mend]);
}

/// Whether changes made at run time can be kept.
pub(super) fn state_file(_: &Subject, facts: &Facts, report: &mut Report) {
    for folder in facts.folders.iter().filter(|folder| folder.purpose == STATE_FILE) {
        let path = folder.path.display();
        match &folder.trouble {
            None => report.fine(format!("state_file: {path} can be written to")),
            Some(trouble) => {
                let read = format!("{path}: {trouble}");
                let means = "changes made at run time are lost when the program ends".to_owned();
                let mend = format!(
                    "mkdir -p {path}, owned by the user it runs as; under systemd StateDirectory="
                );
                report.add(Severity::Error, STATE_FILE, [read, means, mend]);
            }
        }
    }
}

/// What some keys need of the kernel.
pub(super) fn kernel(subject: &Subject, facts: &Facts, report: &mut Report) {
    let Some(kernel) = facts.kernel else { return };
    let config = &subject.config;
    let shares = config.listeners.iter().any(|listener| listener.reuse_port);
    let needs = [
        (OLDEST, true, "the program"),
        ((4, 2), config.pools.iter().any(|pool| !pool.source.is_empty()), "`source`"),
    ];
    let (major, minor) = kernel;
    let mut is_fine = true;
    for ((wanted, and), _, what) in
        needs.into_iter().filter(|(at, is_used, _)| *is_used && kernel < *at)
    {
        is_fine = false;
        let read = format!("this is Linux {major}.{minor}");
        let means = format!("{what} needs {wanted}.{and} or later");
        report.add(Severity::Error, "kernel", [read, means, "a newer kernel".to_owned()]);
    }
    if is_fine {
        report.fine(format!("kernel: Linux {major}.{minor}"));
    }
    if shares && facts.migrate_req == Some(0) && subject.origin != Origin::Nothing {
        let read = "net.ipv4.tcp_migrate_req is 0".to_owned();
        let means = "reuse_port: when one of several processes ends, clients in its queue are \
                     reset"
            .to_owned();
        report.add(
            Severity::Note,
            "reuse_port",
            [read, means, sysctl("net.ipv4.tcp_migrate_req", 1)],
        );
    }
}

/// Backends that are listed one by one.
const LISTED: usize = 5;
const OTHERS: u32 = 0o007;
/// What the standard library of Rust needs.
const OLDEST: (u32, u32) = (3, 2);
