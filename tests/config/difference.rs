//! What is told of two configurations, and what is kept of changes made at run time.

use evenkeel::config::{
    Action, Amendments, Backend, Config, Difference, Item, LoadError, Subject, Wanted, difference,
    parse,
};
use proptest::prelude::*;

use crate::any::any_config;

/// Every table, with no key that has its default.
const BASE: &str = "
[global]
[admin]
listen = '127.0.0.1:9930'
[listener.web]
bind = ':3030'
pool = 'web'
[pool.web]
backends = ['a:1', 'b:2']
[pool.other]
backends = ['c:3']
[listener.other]
bind = ':3031'
[pool.web.health]
agent = 'agent.example:1'
";

/// For each key of a table, lines that make it another; those that need others bring them along.
const GLOBAL: &[(&str, &str)] = &[
    ("max_connections", "max_connections = 7"),
    ("drain_deadline", "drain_deadline = '7s'"),
    ("log_format", "log_format = 'json'"),
    ("access_log", "access_log = 'both'"),
    ("state_file", "state_file = '/s'"),
];
const LISTENER: &[(&str, &str)] = &[
    ("bind", "bind = ':3032'"),
    ("pool", "pool = 'other'"),
    ("backlog", "backlog = 7"),
    ("max_connections", "max_connections = 7"),
    ("max_connections_per_source", "max_connections_per_source = 7"),
    ("allow", "allow = '10.0.0.0/8'"),
    ("deny", "deny = '10.0.0.0/8'"),
    ("proxy_protocol_from", "proxy_protocol_from = '10.0.0.0/8'"),
    ("idle_timeout", "idle_timeout = '7s'"),
    ("half_close_timeout", "half_close_timeout = '7s'"),
    ("accept_rate", "accept_rate = 7"),
    ("splice", "splice = false"),
    ("reuse_port", "reuse_port = true"),
];
const POOL: &[(&str, &str)] = &[
    ("balance", "balance = 'first'"),
    ("hash_balance_factor", "balance = 'ip-hash'\nhash_balance_factor = 125"),
    ("response_time", "balance = 'response-time'\nresponse_time = 'first-byte'"),
    ("connect_timeout", "connect_timeout = '7s'"),
    ("connect_attempts", "connect_attempts = 7"),
    ("first_byte_timeout", "first_byte_timeout = '7s'"),
    ("send_proxy_protocol", "send_proxy_protocol = 'v2'"),
    ("on_unavailable", "on_unavailable = 'hold'"),
    ("hold_timeout", "on_unavailable = 'hold'\nhold_timeout = '7s'"),
    ("hold_max", "on_unavailable = 'hold'\nhold_max = 7"),
    ("queue", "queue = 7"),
    ("queue_timeout", "queue_timeout = '7s'"),
    ("source", "source = '192.0.2.7'"),
    ("on_down", "on_down = 'close'"),
    ("slow_start", "slow_start = '7s'"),
    ("backends", "backends = ['b:2', 'a:1']"),
];
const BACKEND: &[(&str, &str)] = &[
    ("address", "{ address = 'c:1' }"),
    ("weight", "{ address = 'a:1', weight = 7 }"),
    ("max_connections", "{ address = 'a:1', max_connections = 7 }"),
    ("backup", "{ address = 'a:1', backup = true }"),
];
const HEALTH: &[(&str, &str)] = &[
    ("type", "type = 'redis'"),
    ("path", "type = 'http'\npath = '/p'"),
    ("host", "type = 'http'\nhost = 'h'"),
    ("send", "send = 's'"),
    ("expect", "expect = 'e'"),
    ("expect_body", "type = 'http'\nexpect_body = 'b'"),
    ("user", "type = 'mysql'\nuser = 'u'"),
    ("interval", "interval = '7s'"),
    ("fast_interval", "fast_interval = '7ms'"),
    ("timeout", "timeout = '7ms'"),
    ("rise", "rise = 7"),
    ("fall", "fall = 7"),
    ("port", "port = 7"),
    ("address", "address = 'h:7'"),
    ("initial", "initial = 'up'"),
    ("agent", "agent = ':7'"),
    ("agent_interval", "agent_interval = '7s'"),
];

fn read(text: &str) -> Config {
    parse("x", text).map_err(|error| format!("{error}\n{text}")).unwrap().config
}

fn told(before: &Config, after: &Config) -> Vec<String> {
    difference(before, after).items.iter().map(ToString::to_string).collect()
}

/// `BASE` with these lines in a table, instead of lines with the same keys.
fn with(table: &str, lines: &str) -> Config {
    let key = |line: &str| line.split(" = ").next().unwrap_or_default().to_owned();
    let written: Vec<String> = lines.lines().map(key).collect();
    let mut text = String::new();
    let mut inside = false;
    for line in BASE.lines() {
        if line.starts_with('[') {
            inside = line == table;
        }
        if !inside || !written.contains(&key(line)) {
            text.push_str(&format!("{line}\n"));
        }
        if line == table {
            text.push_str(&format!("{lines}\n"));
        }
    }
    read(&text)
}

/// Every key that is known in a table, as the complaint about an unknown one lists them.
fn known(text: &str) -> Vec<String> {
    let problems = match parse("x", text) {
        Err(LoadError::Invalid { problems, .. }) => problems,
        Ok(_) | Err(LoadError::Unreadable(_) | LoadError::Unfit(_)) => Vec::new(),
    };
    let mut lists = problems.iter().filter_map(|one| one.cure.strip_prefix("known keys are "));
    lists.next_back().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_that_is_changed_is_told() {
    let base = read(BASE);
    for (table, keys) in [
        ("[global]", GLOBAL),
        ("[listener.web]", LISTENER),
        ("[pool.web]", POOL),
        ("[pool.web.health]", HEALTH),
    ] {
        let text = BASE.replace(&format!("{table}\n"), &format!("{table}\nqqqqqqqq = 1\n"));
        for key in known(&text) {
            // One word is all that it can say yet; and health is a table of its own.
            if key == "mode" || key == "health" {
                continue;
            }
            let lines = keys.iter().find(|(own, _)| *own == key).map(|(_, lines)| *lines);
            let lines = lines.unwrap_or_else(|| panic!("nobody has tried `{key}` of {table}"));
            let told = told(&base, &with(table, lines));
            let name = if table.ends_with("health]") { format!("health.{key}") } else { key };
            let found = told.iter().any(|line| line.contains(&format!("`{name}` ")));
            assert!(found, "{lines}: {told:?}");
        }
    }
    let text = "[pool.web]\nbackends = [{ address = 'a:1', qqqqqqqq = 1 }]";
    for key in known(text) {
        let (_, backend) = BACKEND.iter().find(|(own, _)| *own == key).unwrap();
        let changed = with("[pool.web]", &format!("backends = [{backend}, 'b:2']"));
        assert!(!told(&base, &changed).is_empty(), "{backend}");
    }
}

#[test]
fn the_admin_table_is_told() {
    let base = read(BASE);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, token: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, token).unwrap();
        format!("token_file = '{}'", path.display())
    };
    let one = with("[admin]", &file("one", "1"));
    let lines = told(&base, &one);
    assert!(lines[0].starts_with("admin: `token_file` from unset to"), "{lines:?}");
    assert_eq!(lines[1], "admin: the token is another");
    assert_eq!(told(&one, &with("[admin]", &file("one", "2"))), ["admin: the token is another"]);

    let pools_only = with("[admin]", "backend_metrics = false");
    let items = difference(&base, &pools_only).items;
    assert_eq!(items[0].text, "`backend_metrics` from true to false");
    assert!(items.iter().all(|item| item.action == Action::Change), "{items:?}");

    let moved = with("[admin]", &format!("listen = '127.0.0.1:9931'\n{}", file("two", "2")));
    let items = difference(&one, &moved).items;
    assert!(items.iter().all(|item| item.action == Action::Restart), "{items:?}");
    assert_eq!(Difference::reachable(&one, &moved).admin, one.admin, "it keeps its token");
    let off = read(&BASE.replace("[admin]\nlisten = '127.0.0.1:9930'\n", ""));
    for (before, after) in [(&base, &off), (&off, &base)] {
        let items = difference(before, after).items;
        assert_eq!((items.len(), items[0].action), (1, Action::Restart), "{items:?}");
        assert_eq!(Difference::reachable(before, after).admin, before.admin);
    }
}

#[test]
fn a_line_says_what_comes_of_what() {
    let base = read(BASE);
    let known = |text: &str| Subject::Listener(text.to_owned());
    for (table, lines, expected) in [
        (
            "[listener.web]",
            "idle_timeout = '0s'",
            "listener web: `idle_timeout` from \"1h\" to \"0s\"",
        ),
        (
            "[listener.web]",
            "bind = ':3032'",
            "listener web: `bind` closes \":3030\", opens \":3032\"",
        ),
        ("[listener.web]", "deny = ['10.0.0.0/8']", "listener web: `deny` gains \"10.0.0.0/8\""),
        (
            "[listener.web]",
            "reuse_port = true",
            "listener web: `reuse_port` from false to true (after a restart)",
        ),
        ("[global]", "max_connections = 7", "global: `max_connections` from unset to 7"),
        (
            "[pool.web]",
            "backends = ['a:1']",
            "backend web/b:2: takes no new clients; its connections go on",
        ),
        ("[pool.web]", "backends = ['b:2', 'a:1']", "pool web: `backends` in another order"),
    ] {
        assert_eq!(told(&base, &with(table, lines)), [expected]);
    }
    let ports = |bind: &str| with("[listener.web]", &format!("bind = {bind}"));
    let (two, one) = (ports("[':0', ':1', ':0']"), ports("[':1', ':0']"));
    assert_eq!(told(&two, &one), ["listener web: `bind` closes \":0\""], "there were two alike");
    assert_eq!(told(&one, &two), ["listener web: `bind` opens \":0\""]);
    let grown = with("[pool.web]", "balance = 'first'\nbackends = ['d:4', 'a:1', 'b:2']");
    let lines = told(&base, &grown);
    assert_eq!(lines[1], "backend web/d:4: comes with weight 1, at place 1 of 3");
    let less = read("[listener.web]\nbind = ':3030'\n[pool.web]\nbackends = ['a:1', 'b:2']");
    let items = difference(&less, &base).items;
    assert!(items.contains(&Item {
        subject: known("other"),
        action: Action::Add,
        text: "opens \":3031\" for pool other".to_owned(),
    }));
    let items = difference(&base, &less).items;
    let gone = items.iter().find(|item| item.subject == known("other")).unwrap();
    assert_eq!(
        (gone.action, gone.text.as_str()),
        (Action::Remove, "closes \":3031\"; its connections go on")
    );
}

#[test]
fn long_values_and_long_lists_are_told_in_one_line() {
    let many: Vec<String> = (0..200).map(|n| format!("'10.0.{n}.0/24'")).collect();
    let allow = with("[listener.web]", &format!("allow = [{}]", many.join(", ")));
    let lines = told(&read(BASE), &allow);
    assert!(lines[0].ends_with("and 196 more") && lines[0].len() < 200, "{lines:?}");
    let long = |end: &str| with("[pool.web.health]", &format!("send = '{}{end}'", "x".repeat(900)));
    let lines = told(&long("a"), &long("b"));
    assert!(lines.len() == 1 && lines[0].len() < 300, "what differs at the end differs: {lines:?}");
}

/// The same, with listeners and pools in another order.
fn turned(config: &Config) -> Config {
    let mut turned = config.clone();
    turned.pools.reverse();
    turned.listeners.reverse();
    let last = turned.pools.len() - 1;
    turned.listeners.iter_mut().for_each(|listener| listener.pool = last - listener.pool);
    turned
}

/// Changes of all kinds to whatever backends a configuration has, and to others.
fn any_changes() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((0_usize..4, 0_usize..9, 0_u8..6), 0..30)
}

fn change(amendments: &mut Amendments, config: &Config, (pool, backend, what): (usize, usize, u8)) {
    let name = config.pools.get(pool).map_or("gone".to_owned(), |pool| pool.name.clone());
    let known = config.pools.get(pool).and_then(|pool| pool.backends.get(backend));
    let stranger = || Backend::new(format!("stranger-{backend}:80").parse().unwrap());
    let backend = known.cloned().unwrap_or_else(stranger);
    match what {
        0 => amendments.add(&name, Backend { weight: 7, ..backend }),
        1 => amendments.remove(&name, &backend.address),
        2 => amendments.set_weight(&name, &backend.address, 9),
        3 => amendments.set_weight(&name, &backend.address, backend.weight),
        4 => amendments.set_state(&name, &backend.address, Wanted::Draining),
        _ => amendments.set_state(&name, &backend.address, Wanted::Ready),
    }
}

proptest! {
    #[test]
    fn nothing_is_told_of_what_is_the_same(config in any_config()) {
        prop_assert_eq!(told(&config, &config), Vec::<String>::new());
        prop_assert_eq!(told(&config, &turned(&config)), Vec::<String>::new());
    }

    #[test]
    fn whatever_differs_is_told(one in any_config(), two in any_config()) {
        prop_assert_eq!(difference(&one, &two).is_empty(), one == two);
        let reached = Difference::reachable(&one, &two);
        let later = |item: &Item| item.action == Action::Restart;
        prop_assert!(!difference(&one, &reached).items.iter().any(later));
        prop_assert!(difference(&reached, &two).items.iter().all(later));
        let now = difference(&one, &two).items.into_iter().filter(|item| !later(item));
        prop_assert_eq!(difference(&one, &reached).items, now.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_forgotten_made_no_difference(
        config in any_config(),
        changes in any_changes(),
    ) {
        let mut amendments = Amendments::default();
        changes.into_iter().for_each(|one| change(&mut amendments, &config, one));
        // What was added and is in the file is the file's but for its weight: say so first.
        let mut settled = amendments.clone();
        settled.settle(&config);
        let again = { let mut again = settled.clone(); again.settle(&config); again };
        prop_assert_eq!(&again, &settled, "once is enough");
        prop_assert!(settled.len() <= amendments.len());
        for pool in &settled.apply(&config).pools {
            for backend in &pool.backends {
                let words = settled.words(&pool.name, &backend.address);
                let configured = config.pools.iter().find(|other| other.name == pool.name);
                let configured = configured.unwrap();
                let own = configured.backends.iter().find(|b| b.address == backend.address);
                prop_assert_eq!(words.contains(&"added"), own.is_none());
                let weighs = own.map_or(backend.weight, |own| own.weight);
                prop_assert_eq!(words.contains(&"weight"), weighs != backend.weight);
            }
        }
    }

    #[test]
    fn what_is_written_is_read_again(config in any_config(), changes in any_changes()) {
        let mut amendments = Amendments::default();
        changes.into_iter().for_each(|one| change(&mut amendments, &config, one));
        let text = serde_json::to_string(&amendments).unwrap();
        prop_assert_eq!(serde_json::from_str::<Amendments>(&text).unwrap(), amendments);
    }

    #[test]
    fn who_comes_and_goes_leaves_nothing(config in any_config(), changes in any_changes()) {
        let mut amendments = Amendments::default();
        changes.into_iter().for_each(|one| change(&mut amendments, &config, one));
        let before = amendments.clone();
        let pool = &config.pools[0].name;
        for n in 0..9 {
            let guest = Backend::new(format!("guest-{n}:80").parse().unwrap());
            amendments.add(pool, guest.clone());
            amendments.set_weight(pool, &guest.address, 3);
            amendments.set_state(pool, &guest.address, Wanted::Maintenance);
            prop_assert_eq!(amendments.words(pool, &guest.address), ["added", "state"]);
            amendments.remove(pool, &guest.address);
        }
        prop_assert_eq!(amendments, before);
    }
}

#[test]
fn changes_hold_over_the_file() {
    let file = read(BASE);
    let mut amendments = Amendments::default();
    let address = |text: &str| text.parse().unwrap();
    amendments.set_weight("web", &address("A.:1"), 5);
    amendments.remove("web", &address("b:2"));
    amendments.add("web", "z:26,weight=2".parse().unwrap());
    amendments.add("web", "d:4".parse().unwrap());
    amendments.remove("other", &address("c:3"));
    let shown = |config: &Config| -> Vec<String> {
        let one = |backend: &Backend| format!("{}={}", backend.address, backend.weight);
        config.pools.iter().flat_map(|pool| pool.backends.iter().map(one)).collect()
    };
    assert_eq!(shown(&amendments.apply(&file)), ["a:1=5", "z:26=2", "d:4=1"], "in their order");
    assert_eq!(amendments.removed("web").map(ToString::to_string).collect::<Vec<_>>(), ["b:2"]);
    assert_eq!(amendments.words("web", &address("a:1")), ["weight"]);

    // Who was removed and comes back stands where the file has it.
    amendments.add("web", "b:2,weight=3".parse().unwrap());
    assert_eq!(shown(&amendments.apply(&file)), ["a:1=5", "b:2=3", "z:26=2", "d:4=1"]);
    amendments.remove("web", &address("b:2"));
    assert_eq!(shown(&amendments.apply(&file)), ["a:1=5", "z:26=2", "d:4=1"], "the file has it");

    // The file has caught up with some of it.
    let newer = with("[pool.web]", "backends = [{ address = 'a:1', weight = 5 }, 'z:26', 'd:4']");
    amendments.settle(&newer);
    assert_eq!(amendments.words("web", &address("z:26")), ["weight"], "it was asked for");
    assert_eq!(amendments.words("web", &address("d:4")), Vec::<&str>::new());
    assert_eq!(amendments.len(), 2, "and c:3 of the other pool");
    assert_eq!(amendments.apply(&newer).pools[1].backends.len(), 0);
}

#[test]
fn what_nobody_can_have_written_is_refused() {
    let refused = |text: &str| serde_json::from_str::<Amendments>(text).unwrap_err().to_string();
    for (list, reason) in [
        ("{}", "missing field `address`"),
        ("{'address':'a'}", "has no port"),
        ("{'address':'a:1','weight':257}", "a:1 has the weight 257, above 256"),
        ("{'address':'a:1','added':{'weight':300}}", "weight 300"),
        ("{'address':'a:1','added':{'weight':1,'max_connections':0}}", "a limit of 0"),
        ("{'address':'a:1','added':{'weight':1},'removed':true}", "both added and removed"),
        ("{'address':'a:1','state':'up'}", "unknown variant `up`"),
        ("{'address':'a:1','new':1}", "unknown field `new`"),
        ("{'address':'a:1','weight':1},{'address':'A.:1','weight':2}", "A.:1 twice"),
    ] {
        let text = format!("{{'pools':{{'web':[{list}]}}}}").replace('\'', "\"");
        let message = refused(&text);
        assert!(message.contains(reason), "{message}");
    }
    assert!(refused("{}").contains("missing field `pools`"));
}
