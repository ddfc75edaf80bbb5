//! What is found on which machine for which configuration.

use std::fs;

use super::facts::{Descriptors, Place, Reached, Taken};
use super::*;
use crate::config;

/// A machine as it comes, with nothing wrong.
fn machine() -> Facts {
    Facts {
        kernel: Some((6, 1)),
        descriptors: Some(Descriptors { hard: 524_288, aside: 300 }),
        somaxconn: Some(4096),
        syn_backlog: Some(4096),
        syncookies: Some(1),
        local_ports: Some(32_768..=60_999),
        unprivileged_ports: Some(1024),
        tw_reuse: Some(2),
        pipe_pages: Some(16_384),
        file_max: Some(9_000_000_000),
        memory: Some((16 << 30, "of the machine".to_owned())),
        ..Facts::default()
    }
}

fn file(text: &str) -> Subject {
    let config = config::parse("test.toml", text).unwrap().config;
    Subject { config, origin: Origin::File }
}

fn simple(global: &str, listener: &str, pool: &str) -> Subject {
    file(&format!(
        "[global]\n{global}\n\
         [listener.web]\nbind = [\":80\", \"unix:/run/x/web.sock\"]\n{listener}\n\
         [pool.web]\nbackends = [\"10.0.0.1:1\", \"10.0.0.2:1\"]\n{pool}\n"
    ))
}

/// The one finding of a topic, which there must be.
fn finding(subject: &Subject, facts: &Facts, topic: &str) -> Finding {
    let report = examine(subject, facts);
    let mut of_topic = report.findings.into_iter().filter(|finding| finding.topic == topic);
    of_topic.next().unwrap_or_else(|| panic!("nothing is found about {topic}"))
}

fn assert_found(finding: &Finding, severity: Severity, means: &str, mend: &str) {
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(finding.means.contains(means), "{finding:?}");
    assert!(finding.mend.contains(mend), "{finding:?}");
}

#[test]
fn a_machine_as_it_comes_is_fine() {
    let facts = Facts { may_bind_low_ports: true, ..machine() };
    let report = examine(&simple("", "", ""), &facts);
    let bad: Vec<_> =
        report.findings.iter().filter(|finding| finding.severity != Severity::Note).collect();
    assert!(report.is_fine(), "{bad:?}");
    assert!(report.fine.len() >= 6, "{:?}", report.fine);
    let text = report.text();
    assert!(text.ends_with(&format!("fine {}\n", report.fine.len())), "{text}");
}

#[test]
fn what_could_not_be_read_is_no_finding() {
    let subject = simple("max_connections = 100000", "backlog = 65535\naccept_rate = 100000", "");
    let facts = Facts { may_bind_low_ports: true, ..Facts::default() };
    assert_eq!(examine(&subject, &facts).findings, []);
}

#[test]
fn descriptors_are_two_for_each_connection() {
    let facts = Facts { descriptors: Some(Descriptors { hard: 1024, aside: 100 }), ..machine() };
    let subject = simple("max_connections = 10000", "", "");
    let found = finding(&subject, &facts, "descriptors");
    let numbers = "max_connections = 10000 needs 20100; only 462 connections";
    assert_found(&found, Severity::Error, numbers, "LimitNOFILE=20100");
    let found = finding(&simple("", "", ""), &facts, "descriptors");
    assert_found(&found, Severity::Warning, "462 connections", "LimitNOFILE=");
    let whole = Facts { file_max: Some(10_000), ..machine() };
    let found = finding(&subject, &whole, "descriptors");
    assert_found(&found, Severity::Error, "20300 may be needed", "sysctl -w fs.file-max=40600");
}

#[test]
fn connections_need_memory_even_when_idle() {
    let subject = simple("max_connections = 200000", "", "");
    let place = "/sys/fs/cgroup/x/memory.max".to_owned();
    let facts = Facts { memory: Some((512 << 20, place)), ..machine() };
    let found = finding(&subject, &facts, "memory");
    assert_found(&found, Severity::Error, "need 1562 MiB", "max_connections = 32768");
    assert!(found.read.contains("512 MiB") && found.read.contains("cgroup"), "{found:?}");
    let facts = Facts { memory: Some((2 << 30, String::new())), ..machine() };
    let found = finding(&subject, &facts, "memory");
    assert_found(&found, Severity::Note, "slow reader in both directions, 26562 MiB", "");
}

#[test]
fn each_source_address_has_ports_for_each_backend() {
    let subject = simple("max_connections = 100000", "", "");
    let found = finding(&subject, &machine(), "local ports");
    let numbers = "at most 56464 connections can be made to this pool, max_connections is 100000";
    assert_found(&found, Severity::Warning, numbers, "4 addresses in `source` of [pool.web]");
    let four = "source = [\"10.1.0.1\", \"10.1.0.2\", \"10.1.0.3\", \"10.1.0.4\"]";
    let enough = simple("max_connections = 100000", "", four);
    assert!(examine(&enough, &machine()).fine.iter().any(|fine| fine.contains("112928 for each")));
    // Without a limit of their own it is worth a note, no more.
    let found = finding(&simple("", "", ""), &machine(), "local ports");
    assert_eq!(found.severity, Severity::Note);
    let facts = Facts { reserved_ports: vec![40_000..=40_999, 1..=5], ..machine() };
    assert!(finding(&subject, &facts, "local ports").read.starts_with("27232 local ports"));
}

#[test]
fn ports_rest_after_a_connection() {
    let subject = simple("", "accept_rate = 5000", "");
    let found = finding(&subject, &machine(), "TIME_WAIT");
    assert_found(&found, Severity::Warning, "leaves 941 new", "sysctl -w net.ipv4.tcp_tw_reuse=1");
    let reused = Facts { tw_reuse: Some(1), ..machine() };
    assert!(examine(&subject, &reused).fine.iter().any(|fine| fine.starts_with("TIME_WAIT")));
    let local = file(
        "[listener.web]\nbind = [\":8080\"]\naccept_rate = 5000\n\
         [pool.web]\nbackends = [\"127.0.0.1:1\", \"localhost:2\"]\n",
    );
    assert!(examine(&local, &machine()).findings.iter().all(|found| found.topic != "TIME_WAIT"));
}

#[test]
fn tracked_connections_are_counted_twice() {
    let subject = simple("max_connections = 100000", "", "");
    let facts = Facts { conntrack: Some((65_536, 10)), ..machine() };
    let found = finding(&subject, &facts, "conntrack");
    assert_found(&found, Severity::Warning, "take 200000", "nf_conntrack_max=262144");
    let full = Facts { conntrack: Some((65_536, 65_000)), ..machine() };
    assert_eq!(finding(&simple("", "", ""), &full, "conntrack").severity, Severity::Error);
}

#[test]
fn pipes_are_limited_for_ordinary_users() {
    let facts = Facts { pipe_pages: Some(1024), ..machine() };
    let found = finding(&simple("", "", ""), &facts, "pipes");
    assert_found(&found, Severity::Warning, "bytes of 4 streams", "pipe-user-pages-soft=32768");
    for (facts, listener) in
        [(Facts { has_all_pipes: true, ..facts.clone() }, ""), (facts, "splice = false")]
    {
        let report = examine(&simple("", listener, ""), &facts);
        assert!(report.findings.iter().all(|finding| finding.topic != "pipes"));
    }
}

#[test]
fn queues_are_cut_to_what_the_kernel_allows() {
    let facts = Facts { somaxconn: Some(128), syn_backlog: Some(512), ..machine() };
    let subject = simple("", "", "");
    let found = finding(&subject, &facts, "backlog");
    assert_found(&found, Severity::Warning, "backlog = 4096 is cut to 128", "somaxconn=4096");
    assert_eq!(finding(&subject, &facts, "handshakes").severity, Severity::Note);
    let no_cookies = Facts { syncookies: Some(0), ..facts };
    assert_eq!(finding(&subject, &no_cookies, "handshakes").severity, Severity::Warning);
}

#[test]
fn who_listens_already_is_named() {
    let taken = |at: &str, owner: Option<(&str, u32)>| Taken {
        at: Place::Tcp(at.parse().unwrap()),
        owner: owner.map(|(name, id)| (name.to_owned(), id)),
    };
    let subject = simple("", "", "");
    for (at, owner, expected) in [
        ("0.0.0.0:80", Some(("nginx", 7)), Some((Severity::Error, "kill 7"))),
        ("127.0.0.1:80", None, Some((Severity::Error, "ss -ltnp"))),
        ("[::]:80", Some(("evenkeel", 8)), Some((Severity::Note, ""))),
        ("0.0.0.0:81", None, None),
    ] {
        let listening = vec![taken(at, owner)];
        let facts = Facts { listening, may_bind_low_ports: true, ..machine() };
        let report = examine(&subject, &facts);
        let found = report.findings.iter().find(|finding| finding.topic == "addresses");
        assert_eq!(found.map(|found| found.severity), expected.map(|(s, _)| s), "{at}");
        assert!(found.is_none_or(|found| found.mend.contains(expected.unwrap().1)), "{found:?}");
    }
}

#[test]
fn doors_need_a_privilege_an_address_and_a_folder() {
    let found = finding(&simple("", "", ""), &machine(), "low ports");
    assert_found(&found, Severity::Error, "cannot listen on port 80", "CAP_NET_BIND_SERVICE");
    let missing_binds = vec![("listener web".to_owned(), "192.0.2.1".parse().unwrap())];
    let facts = Facts { missing_binds, may_bind_low_ports: true, ..machine() };
    let found = finding(&simple("", "", ""), &facts, "addresses");
    assert_found(&found, Severity::Error, "cannot listen there", "ip addr add 192.0.2.1");
    let allowed = Facts { nonlocal_bind: Some(1), ..facts };
    assert!(examine(&simple("", "", ""), &allowed).findings.iter().all(|f| f.topic != "addresses"));
    let subject = simple("state_file = \"/nowhere/at/all/state\"", "", "");
    let facts = host::read(std::path::Path::new("/nowhere"), &subject.config);
    assert_found(
        &finding(&subject, &facts, "addresses"),
        Severity::Error,
        "listener web",
        "/run/x",
    );
    let found = finding(&subject, &facts, "state_file");
    assert_found(&found, Severity::Error, "run time", "mkdir -p /nowhere/at/all");
}

#[test]
fn a_port_that_outgoing_connections_may_take_is_told() {
    let subject =
        file("[listener.web]\nbind = [\":40000\"]\n[pool.web]\nbackends = [\"10.0.0.1:1\"]\n");
    let facts = Facts { reserved_ports: vec![50_000..=50_001], ..machine() };
    let found = finding(&subject, &facts, "reserved ports");
    assert_found(&found, Severity::Warning, "port 40000", "reserved_ports=50000-50001,40000");
    let reserved = Facts { reserved_ports: vec![40_000..=40_000], ..machine() };
    let report = examine(&subject, &reserved);
    assert!(report.findings.iter().all(|finding| finding.topic != "reserved ports"));
}

#[test]
fn backends_that_are_not_reached_are_listed_for_each_pool() {
    let reached = |at: &str, trouble: Option<&str>| Reached {
        pool: "web".to_owned(),
        address: at.to_owned(),
        trouble: trouble.map(str::to_owned),
    };
    let one = reached("10.0.0.1:1", Some("connection refused"));
    let facts = Facts { reached: vec![one.clone(), reached("10.0.0.2:1", None)], ..machine() };
    let found = finding(&simple("", "", ""), &facts, "backends");
    assert_found(&found, Severity::Warning, "1 of 2 backends serve pool web", "start what listens");
    assert_eq!(found.read, "10.0.0.1:1: connection refused");
    let facts = Facts { reached: vec![one; 9], ..machine() };
    let found = finding(&simple("", "", ""), &facts, "backends");
    assert_found(&found, Severity::Error, "nobody can serve", "");
    assert!(found.read.ends_with("; and 4 more"), "{found:?}");
}

#[test]
fn a_machine_is_read_from_its_files() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    write("proc/sys/net/core/somaxconn", "128\n");
    write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    write("proc/sys/net/ipv4/ip_local_reserved_ports", "40000-40002,50000\n");
    write("proc/sys/net/netfilter/nf_conntrack_max", "65536\n");
    write("proc/sys/net/netfilter/nf_conntrack_count", "12\n");
    write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000400\n");
    write("proc/meminfo", "MemTotal:        8000000 kB\nMemFree: 1 kB\n");
    write("proc/self/cgroup", "0::/system.slice/evenkeel.service\n");
    write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
    write("sys/fs/cgroup/system.slice/evenkeel.service/memory.max", "max\n");
    let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid";
    let line = |at: &str, state: &str, inode: u32| {
        format!(
            "   0: {at} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 \
             0 0 {inode} 1\n"
        )
    };
    let four = line("0100007F:0050", "0A", 77)
        + &line("0100007F:0051", "0A", 78)
        + &line("0200007F:0050", "01", 79);
    write("proc/net/tcp", &format!("{head}\n{four}"));
    let six = line("00000000000000000000000000000000:0050", "0A", 80);
    write("proc/net/tcp6", &format!("{head}\n{six}"));
    write(
        "proc/net/unix",
        "Num       RefCount Protocol Flags    Type St Inode Path\n\
         0: 00000002 00000000 00010000 0001 01 81 /run/x/web.sock\n\
         0: 00000003 00000000 00000000 0001 03 82 /run/x/web.sock\n",
    );
    write("proc/42/comm", "nginx\n");
    fs::create_dir_all(root.path().join("proc/42/fd")).unwrap();
    std::os::unix::fs::symlink("socket:[77]", root.path().join("proc/42/fd/3")).unwrap();

    let facts = host::read(root.path(), &simple("", "", "").config);
    assert_eq!((facts.kernel, facts.somaxconn), (Some((6, 1)), Some(128)));
    assert_eq!(facts.local_ports, Some(32_768..=60_999));
    assert_eq!(facts.reserved_ports, [40_000..=40_002, 50_000..=50_000]);
    assert_eq!((facts.conntrack, facts.syn_backlog), (Some((65_536, 12)), None));
    assert!(facts.may_bind_low_ports && !facts.has_all_pipes);
    let (memory, place) = facts.memory.unwrap();
    assert_eq!((memory, place.as_str()), (1 << 30, "/sys/fs/cgroup/system.slice/memory.max"));
    let owner = Some(("nginx".to_owned(), 42));
    let taken = |at: &str, owner| Taken { at: Place::Tcp(at.parse().unwrap()), owner };
    let socket = Taken { at: Place::Unix("/run/x/web.sock".into()), owner: None };
    assert_eq!(facts.listening, [taken("127.0.0.1:80", owner), taken("[::]:80", None), socket]);
}

#[test]
fn a_running_balancer_tells_what_it_can() {
    let text = r#"{"connections":{"limit":1000},"listeners":[{"name":"web","pool":"web",
        "addresses":["127.0.0.1:3030"]}],"pools":[{"name":"web","backends":[
        {"address":"127.0.0.1:5001"},{"address":"localhost:5002"},{"address":"unix:/x"}]}]}"#;
    let status = serde_json::from_str(text).unwrap();
    let subject = running::subject(&status);
    assert_eq!(subject.config.listeners[0].bind[0].to_string(), "127.0.0.1:3030");
    assert_eq!(subject.config.pools[0].backends.len(), 3);
    assert!(examine(&subject, &machine()).is_fine(), "its own addresses are no trouble");
    let shell = Facts { descriptors: Some(Descriptors { hard: 1024, aside: 300 }), ..machine() };
    let report = examine(&subject, &shell);
    assert!(report.is_fine(), "the limit of this shell is not the balancer's: {report:?}");
    assert!(report.fine[0].ends_with("lets 1000 connections in"), "{report:?}");
    let nothing = examine(&running::nothing(), &machine());
    assert!(nothing.is_fine() && !nothing.fine.is_empty());
}

#[test]
fn nothing_from_outside_moves_the_cursor() {
    let owner = Some(("\x1b[2Jevil".to_owned(), 1));
    let listening = vec![Taken { at: Place::Tcp("0.0.0.0:80".parse().unwrap()), owner }];
    let text = examine(&simple("", "", ""), &Facts { listening, ..machine() }).text();
    assert!(text.contains("evil") && !text.contains('\x1b'), "{text}");
}
