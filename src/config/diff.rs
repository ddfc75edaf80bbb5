//! What it takes to come from one configuration to another, said before any of it is done.
//!
//! Listeners and pools are known by their names, backends by their addresses; in which order
//! listeners and pools stand in the file means nothing. The order of a pool's backends does, with
//! `first`, so it is told. What cannot be changed while the program runs is told as such, and
//! [`Difference::reachable`] is the wanted configuration without it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::spelling::{
    self, BIND_KEY, LISTEN_KEY, LOG_FORMAT_KEY, REUSE_PORT_KEY, Rows, STATE_FILE_KEY, Value, quoted,
};
use super::{Admin, Backend, BackendAddress, Config, Global, Listener, Policy, Pool};

/// Everything in which two configurations differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// One for each key, backend, listener or pool: global, admin, listeners, pools.
    pub items: Vec<Item>,
}

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What is changed.
    pub subject: Subject,
    /// In what way.
    pub action: Action,
    /// One line for people: from what, to what. It does not name the subject.
    pub text: String,
}

/// What is changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The `[global]` table.
    Global,
    /// The `[admin]` table.
    Admin,
    /// A listener, by its name.
    Listener(String),
    /// A pool, by its name.
    Pool(String),
    /// A backend.
    Backend {
        /// The name of its pool.
        pool: String,
        /// Where it is reached.
        address: String,
    },
}

/// In what way something is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// It was not there.
    Add,
    /// It will not be there.
    Remove,
    /// It becomes another.
    Change,
    /// It would become another, but only once the program is started again.
    Restart,
}

/// What it takes to come from `running` to `wanted`; nothing, when they are the same up to the
/// order of listeners and pools.
#[must_use]
pub fn difference(running: &Config, wanted: &Config) -> Difference {
    let mut difference = Difference::default();
    difference.global(&running.global, &wanted.global);
    difference.admin(running.admin.as_ref(), wanted.admin.as_ref());
    difference.listeners(running, wanted);
    difference.pools(&running.pools, &wanted.pools);
    difference
}

impl Difference {
    /// `wanted`, but with what `running` has where that cannot be changed while the program runs.
    #[must_use]
    pub fn reachable(running: &Config, wanted: &Config) -> Config {
        let mut config = wanted.clone();
        config.global.log_format = running.global.log_format;
        config.global.state_file.clone_from(&running.global.state_file);
        config.admin = match (&running.admin, &wanted.admin) {
            // An address that is kept keeps its token: the other may be one that needs none.
            (Some(running), Some(wanted)) if running.listen == wanted.listen => {
                Some(wanted.clone())
            }
            (running, _) => running.clone(),
        };
        let kept: HashMap<&str, bool> = running
            .listeners
            .iter()
            .map(|listener| (listener.name.as_str(), listener.reuse_port))
            .collect();
        for listener in &mut config.listeners {
            if let Some(reuse_port) = kept.get(listener.name.as_str()) {
                listener.reuse_port = *reuse_port;
            }
        }
        config
    }

    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn global(&mut self, running: &Global, wanted: &Global) {
        let action = |key: &str| match key {
            LOG_FORMAT_KEY | STATE_FILE_KEY => Action::Restart,
            _ => Action::Change,
        };
        let rows = (spelling::global(running), spelling::global(wanted));
        self.rows(&Subject::Global, &rows, action);
    }

    fn admin(&mut self, running: Option<&Admin>, wanted: Option<&Admin>) {
        let (running, wanted) = match (running, wanted) {
            (None, None) => return,
            (None, Some(admin)) => {
                let text = format!("it is to listen on {}", quoted(&admin.listen.to_string()));
                return self.tell(Subject::Admin, Action::Restart, text);
            }
            (Some(admin), None) => {
                let listen = quoted(&admin.listen.to_string());
                let text = format!("it is to listen on {listen} no more");
                return self.tell(Subject::Admin, Action::Restart, text);
            }
            (Some(running), Some(wanted)) => (running, wanted),
        };
        let moves = running.listen != wanted.listen;
        let action = |key: &str| match key {
            LISTEN_KEY => Action::Restart,
            _ if moves => Action::Restart,
            _ => Action::Change,
        };
        let rows = (spelling::admin(running), spelling::admin(wanted));
        self.rows(&Subject::Admin, &rows, action);
        if running.token != wanted.token {
            let text = "the token is another".to_owned();
            self.tell(Subject::Admin, action("token"), text);
        }
    }

    fn listeners(&mut self, running: &Config, wanted: &Config) {
        let name = |listener: &Listener| listener.name.clone();
        let pairs = matched(&running.listeners, &wanted.listeners, name);
        for (before, after) in pairs {
            let subject = |listener: &Listener| Subject::Listener(name(listener));
            match (before, after) {
                (None, Some(new)) => {
                    let pool = wanted.pools.get(new.pool).map_or("", |pool| pool.name.as_str());
                    let text = format!("opens {} for pool {pool}", addresses(new));
                    self.tell(subject(new), Action::Add, text);
                }
                (Some(old), None) => {
                    let text = format!("closes {}; its connections go on", addresses(old));
                    self.tell(subject(old), Action::Remove, text);
                }
                (Some(old), Some(new)) => {
                    let action = |key: &str| match key {
                        REUSE_PORT_KEY => Action::Restart,
                        _ => Action::Change,
                    };
                    let rows = (
                        spelling::listener(old, &running.pools),
                        spelling::listener(new, &wanted.pools),
                    );
                    self.rows(&subject(new), &rows, action);
                }
                (None, None) => {}
            }
        }
    }

    fn pools(&mut self, running: &[Pool], wanted: &[Pool]) {
        let name = |pool: &Pool| pool.name.clone();
        for (before, after) in matched(running, wanted, name) {
            match (before, after) {
                (None, Some(new)) => {
                    let text = format!("comes with {}", count(new.backends.len()));
                    self.tell(Subject::Pool(name(new)), Action::Add, text);
                }
                (Some(old), None) => {
                    let number = count(old.backends.len());
                    let text = format!("goes with {number}; their connections go on");
                    self.tell(Subject::Pool(name(old)), Action::Remove, text);
                }
                (Some(old), Some(new)) => {
                    let rows = (spelling::pool(old), spelling::pool(new));
                    self.rows(&Subject::Pool(name(new)), &rows, |_| Action::Change);
                    self.backends(old, new);
                }
                (None, None) => {}
            }
        }
    }

    fn backends(&mut self, running: &Pool, wanted: &Pool) {
        let pairs = matched(&running.backends, &wanted.backends, |b: &Backend| b.address.clone());
        let subject = |backend: &Backend| Subject::Backend {
            pool: wanted.name.clone(),
            address: backend.address.to_string(),
        };
        for (place, (before, after)) in (1..).zip(&pairs) {
            match (before, after) {
                (None, Some(new)) => {
                    let text = format!("comes with {}", terms(new, place, wanted));
                    self.tell(subject(new), Action::Add, text);
                }
                (Some(old), None) => {
                    let text = "takes no new clients; its connections go on".to_owned();
                    self.tell(subject(old), Action::Remove, text);
                }
                (Some(old), Some(new)) => {
                    let rows = (spelling::backend(old), spelling::backend(new));
                    self.rows(&subject(new), &rows, |_| Action::Change);
                }
                (None, None) => {}
            }
        }
        let stay: HashSet<&BackendAddress> =
            wanted.backends.iter().map(|backend| &backend.address).collect();
        let of_both = pairs.iter().filter(|(before, after)| before.is_some() && after.is_some());
        let after = of_both.filter_map(|(_, after)| after.map(|backend| &backend.address));
        let before = running.backends.iter().map(|backend| &backend.address);
        if !after.eq(before.filter(|address| stay.contains(address))) {
            let text = "`backends` in another order".to_owned();
            self.tell(Subject::Pool(wanted.name.clone()), Action::Change, text);
        }
    }

    /// Tells every key that says something else.
    fn rows(&mut self, subject: &Subject, rows: &(Rows, Rows), action: impl Fn(&str) -> Action) {
        let (before, after) = rows;
        let gone = before.rows.iter().filter(|(key, _)| after.of(key).is_none());
        for (key, _) in after.rows.iter().chain(gone) {
            let (old, new) = (before.of(key), after.of(key));
            if old != new {
                let text = format!("`{key}` {}", from_to(key, old, new));
                self.tell(subject.clone(), action(key), text);
            }
        }
    }

    fn tell(&mut self, subject: Subject, action: Action, text: String) {
        self.items.push(Item { subject, action, text });
    }
}

impl Action {
    /// The word for it in answers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Change => "change",
            Self::Restart => "restart",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Admin => f.write_str("admin"),
            Self::Listener(name) => write!(f, "listener {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Backend { pool, address } => write!(f, "backend {pool}/{address}"),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, action, text } = self;
        let later = if *action == Action::Restart { " (after a restart)" } else { "" };
        write!(f, "{subject}: {text}{later}")
    }
}

/// Those of the same key side by side: all that are wanted in their order, then those that go.
fn matched<'a, T, K: Eq + std::hash::Hash>(
    running: &'a [T],
    wanted: &'a [T],
    key: impl Fn(&T) -> K,
) -> Vec<(Option<&'a T>, Option<&'a T>)> {
    let mut before: HashMap<K, &T> = running.iter().map(|item| (key(item), item)).collect();
    let mut pairs: Vec<_> =
        wanted.iter().map(|item| (before.remove(&key(item)), Some(item))).collect();
    let gone = running.iter().filter(|item| before.contains_key(&key(item)));
    pairs.extend(gone.map(|item| (Some(item), None)));
    pairs
}

fn addresses(listener: &Listener) -> String {
    let written: Vec<String> =
        listener.bind.iter().map(|address| quoted(&address.to_string())).collect();
    some_of(&written)
}

fn count(backends: usize) -> String {
    match backends {
        1 => "1 backend".to_owned(),
        _ => format!("{backends} backends"),
    }
}

/// How a new backend takes part.
fn terms(backend: &Backend, place: usize, pool: &Pool) -> String {
    let mut terms = vec![format!("weight {}", backend.weight)];
    if let Some(most) = backend.max_connections {
        terms.push(format!("at most {most} connections"));
    }
    if backend.backup {
        terms.push("as a backup".to_owned());
    }
    if pool.policy == Policy::First {
        terms.push(format!("at place {place} of {}", pool.backends.len()));
    }
    terms.join(", ")
}

fn from_to(key: &str, old: Option<&Value>, new: Option<&Value>) -> String {
    match (old, new) {
        (Some(Value::List(old)), Some(Value::List(new))) => lists(key, old, new),
        (old, new) => {
            let shown = |value: Option<&Value>| match value {
                None => "unset".to_owned(),
                Some(Value::One(text)) => short(text),
                Some(Value::List(list)) => format!("[{}]", some_of(list)),
            };
            format!("from {} to {}", shown(old), shown(new))
        }
    }
}

fn lists(key: &str, old: &[String], new: &[String]) -> String {
    let (gone, come) = (beyond(old, new), beyond(new, old));
    let (losing, gaining) = if key == BIND_KEY { ("closes", "opens") } else { ("loses", "gains") };
    match (gone.is_empty(), come.is_empty()) {
        (true, true) => "in another order".to_owned(),
        (true, false) => format!("{gaining} {}", some_of(&come)),
        (false, true) => format!("{losing} {}", some_of(&gone)),
        (false, false) => format!("{losing} {}, {gaining} {}", some_of(&gone), some_of(&come)),
    }
}

/// Those of a list that another one does not have, or not so often.
fn beyond<'a>(list: &'a [String], other: &[String]) -> Vec<&'a String> {
    let mut left: HashMap<&str, usize> = HashMap::new();
    other.iter().for_each(|item| *left.entry(item.as_str()).or_default() += 1);
    let is_beyond = |item: &&String| match left.get_mut(item.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        Some(_) | None => true,
    };
    list.iter().filter(is_beyond).collect()
}

/// The first few of a list, and how many more there are.
fn some_of(items: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = items.iter().take(FEW).map(|item| short(item.as_ref())).collect();
    let shown = shown.join(", ");
    match items.len().checked_sub(FEW) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

const FEW: usize = 4;
/// Of one value, in characters.
const LONGEST: usize = 80;
