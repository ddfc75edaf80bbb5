//! What `evenkeel doctor` finds out by asking: names, backends, addresses, the descriptor limit.
//!
//! Several helper threads ask, since looking up a name blocks and an unreachable backend keeps
//! silent; whoever has not answered when the time is over is said to be silent. Nothing is sent.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::asking::connect;
use super::resolver::look_up;
use super::socket::words;
use super::source::Sources;
use super::{clock, limits};
use crate::config::{BackendAddress, BindAddress, Check, Config};
use crate::doctor::facts::{Facts, Named, Reached};

/// Adds to `facts` what can be found out of this configuration; with `is_offline` nobody is asked.
pub fn survey(config: &Config, is_offline: bool, facts: &mut Facts) {
    let probes: usize = config
        .pools
        .iter()
        .map(|pool| {
            let each = usize::from(pool.health.check != Check::None)
                + usize::from(pool.health.agent.is_some());
            each * pool.backends.len()
        })
        .sum();
    facts.descriptors = Some(limits::descriptors(probes, config.admin.is_some()));
    for pool in &config.pools {
        let missing = Sources::new(&pool.source).missing().into_iter();
        facts.missing_sources.extend(missing.map(|address| (pool.name.clone(), address)));
    }
    let listeners = config.listeners.iter();
    let mut binds: Vec<(String, &BindAddress)> = listeners
        .flat_map(|one| one.bind.iter().map(move |bind| (format!("listener {}", one.name), bind)))
        .collect();
    binds.extend(config.admin.iter().map(|admin| ("[admin]".to_owned(), &admin.listen)));
    for (name, bind) in &binds {
        let BindAddress::Inet(address) = bind else { continue };
        let missing = Sources::new(&[address.ip()]).missing();
        facts
            .missing_binds
            .extend(missing.into_iter().map(|address: IpAddr| (name.clone(), address)));
    }
    if is_offline {
        return;
    }
    let mut questions: Vec<Question> = Vec::new();
    for (_, bind) in binds {
        if let BindAddress::Name { host, port } = bind {
            questions.push(Question::Name(host.clone(), *port));
        }
    }
    for pool in &config.pools {
        for backend in &pool.backends {
            if let BackendAddress::Name { host, port } = &backend.address {
                questions.push(Question::Name(host.clone(), *port));
            }
            let patience = pool.connect_timeout.min(LONGEST);
            let address = backend.address.clone();
            questions.push(Question::Backend { pool: pool.name.clone(), address, patience });
        }
    }
    questions.dedup();
    ask_all(questions, facts);
}

/// One thing to find out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    Name(String, u16),
    Backend { pool: String, address: BackendAddress, patience: Duration },
}

impl Question {
    /// Blocks. The trouble, if there is any.
    fn ask(&self) -> Option<String> {
        match self {
            Self::Name(host, port) => look_up(host, *port).err().map(|error| words(&error)),
            Self::Backend { address, patience, .. } => {
                connect(address, *patience).err().map(|error| words(&error))
            }
        }
    }

    fn tell(&self, trouble: Option<String>, facts: &mut Facts) {
        match self {
            Self::Name(host, _) => {
                if facts.names.iter().all(|name| name.host != *host) {
                    facts.names.push(Named { host: host.clone(), trouble });
                }
            }
            Self::Backend { pool, address, .. } => {
                let (pool, address) = (pool.clone(), address.to_string());
                facts.reached.push(Reached { pool, address, trouble });
            }
        }
    }
}

/// Asks everything at once, as far as there are helpers, until the time is over.
fn ask_all(questions: Vec<Question>, facts: &mut Facts) {
    let questions = Arc::new(questions);
    let next = Arc::new(AtomicUsize::new(0));
    let (tell, answers) = channel();
    for _ in 0..questions.len().min(HELPERS) {
        let (questions, next, tell) = (Arc::clone(&questions), Arc::clone(&next), tell.clone());
        // With fewer helpers it only takes longer.
        let _ = thread::Builder::new().name("survey".into()).spawn(move || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(question) = questions.get(number) else { return };
                if tell.send((number, question.ask())).is_err() {
                    return;
                }
            }
        });
    }
    drop(tell);
    let until = clock() + ALL;
    let mut outcomes: Vec<Option<Option<String>>> = vec![None; questions.len()];
    while let Ok((number, trouble)) = answers.recv_timeout(until.saturating_duration_since(clock()))
    {
        outcomes[number] = Some(trouble);
    }
    for (question, outcome) in questions.iter().zip(outcomes) {
        let silent = || Some(format!("no answer within {} s", ALL.as_secs()));
        question.tell(outcome.unwrap_or_else(silent), facts);
    }
}

const HELPERS: usize = 64;
/// For one connect, whatever `connect_timeout` says.
const LONGEST: Duration = Duration::from_secs(3);
/// For everything together.
const ALL: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Backend, Pool};
    use std::net::{SocketAddr, TcpListener};

    #[test]
    fn who_is_there_and_who_is_not() {
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let backends = [there.local_addr().unwrap().to_string(), gone.to_string()]
            .into_iter()
            .chain(["no-such-name.invalid:1".to_owned(), "unix:/nowhere/x".to_owned()])
            .map(|address| Backend::new(address.parse().unwrap()))
            .collect();
        let source = vec!["127.0.0.1".parse().unwrap(), "192.0.2.77".parse().unwrap()];
        let pool = Pool { name: "web".to_owned(), backends, source, ..Pool::default() };
        let mut config = crate::doctor::running::nothing().config;
        config.pools.push(pool);
        let mut facts = Facts::default();
        survey(&config, false, &mut facts);
        let troubles: Vec<bool> = facts.reached.iter().map(|one| one.trouble.is_some()).collect();
        assert_eq!(troubles, [false, true, true, true], "{:?}", facts.reached);
        assert_eq!(facts.reached[1].trouble.as_deref(), Some("connection refused"));
        assert!(facts.names.len() == 1 && facts.names[0].trouble.is_some(), "{:?}", facts.names);
        assert_eq!(facts.missing_sources, [("web".to_owned(), "192.0.2.77".parse().unwrap())]);
        assert!(facts.descriptors.unwrap().connections() > 0);
        let mut offline = Facts::default();
        survey(&config, true, &mut offline);
        assert!(offline.reached.is_empty() && offline.names.is_empty());
    }
}
