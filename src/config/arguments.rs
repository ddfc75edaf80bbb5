//! A configuration from command line arguments: one listener and one pool, both named `web`.
//!
//! The arguments are laid out as the line somebody might have typed, so that they go through the
//! same checks as a file and problems point into that line.

use std::mem::discriminant;
use std::str::FromStr;

use super::draft::{Draft, ListenerDraft, Places, PoolDraft, Report, Written};
use super::pool_rules::without_agent;
use super::problem::{Complaint, Severity, Span, one_lines, quote, render_arguments};
use super::section::title;
use super::semantics;
use super::{
    AccessLog, Admin, Backend, BindAddress, Config, Listener, LoadError, LogFormat, Policy, Pool,
};

/// What options of the command line say over the file or the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--balance`, for every pool.
    pub policy: Option<Policy>,
    /// `--access-log`.
    pub access_log: Option<AccessLog>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
    /// `--admin`; a token that the file names goes on to hold.
    pub admin: Option<BindAddress>,
}

impl Config {
    /// Listens on `listen` and balances over `backends`; everything else is the default.
    ///
    /// # Errors
    ///
    /// What the file would be refused for, each problem naming its argument: an address twice
    /// or in another's way, a backend that is this listener, only weights of 0.
    pub fn from_arguments(listen: &[BindAddress], backends: &[Backend]) -> Result<Self, LoadError> {
        let mut line = Line::default();
        let bind = line.items("-l ", listen.iter().map(BindAddress::to_string));
        let written = line.items("", backends.iter().map(argument));
        let name = "web".to_owned();
        let mut draft = Draft {
            listeners: vec![ListenerDraft {
                title: "the listener".to_owned(),
                listener: Listener {
                    name: name.clone(),
                    bind: listen.to_vec(),
                    ..Listener::default()
                },
                name: 0..0,
                bind,
                pool: None,
                pool_refused: false,
                allow: Written::Absent,
                deny: Written::Absent,
                proxies: Written::Absent,
                places: Places::default(),
            }],
            pools: vec![PoolDraft {
                title: "the pool".to_owned(),
                pool: Pool { name, backends: backends.to_vec(), ..Pool::default() },
                name: 0..0,
                backends: written,
                source: Written::Absent,
                places: Places::default(),
                health: Places::default(),
            }],
            ..Draft::default()
        };
        let mut report = Report::default();
        semantics::check(&mut draft, &mut report);
        let mut problems = report.problems;
        // What is only odd was typed a moment ago.
        problems.retain(|problem| problem.severity == Severity::Error);
        if problems.is_empty() {
            return Ok(draft.into());
        }
        let rendered = render_arguments(&line.text, &problems);
        let lines = one_lines("command line", &line.text, &problems);
        Err(LoadError::Invalid { problems, rendered, lines })
    }

    /// Puts options of the command line over what is there. A pool that has the wanted policy
    /// already keeps what else the file says about it.
    ///
    /// # Errors
    ///
    /// A policy that a pool is not made for: `resource` without agents. An admin address that needs
    /// a token, without one.
    pub fn apply(&mut self, overrides: &Overrides) -> Result<(), LoadError> {
        if let Some(policy) = overrides.policy {
            for pool in &mut self.pools {
                if policy == Policy::Resource && pool.health.agent.is_none() {
                    let complaint = without_agent(&title("pool", &pool.name));
                    return Err(LoadError::Unfit(format!("command line: {complaint}\n")));
                }
                if discriminant(&pool.policy) != discriminant(&policy) {
                    pool.policy = policy;
                }
            }
        }
        if let Some(listen) = &overrides.admin {
            let admin = match self.admin.take() {
                Some(admin) => Admin { listen: listen.clone(), ..admin },
                None => Admin::new(listen.clone()),
            };
            if let Some(complaint) = admin.check_token() {
                return Err(LoadError::Unfit(format!("command line: {complaint}\n")));
            }
            self.admin = Some(admin);
        }
        if let Some(access_log) = overrides.access_log {
            self.global.access_log = access_log;
        }
        if let Some(log_format) = overrides.log_format {
            self.global.log_format = log_format;
        }
        Ok(())
    }
}

/// A backend as an argument: `HOST:PORT[,weight=N][,backup]`, or with `unix:PATH`.
impl FromStr for Backend {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let mut parts = text.split(',');
        let mut backend = Self::new(parts.next().unwrap_or(text).parse()?);
        let mut weighted = false;
        for option in parts {
            if option == "backup" && !backend.backup {
                backend.backup = true;
                continue;
            }
            let Some(weight) = option.strip_prefix("weight=") else {
                return Err(unknown_option(option));
            };
            if weighted {
                let message = format!("{} gives the weight twice", quote(text));
                return Err(Complaint::new(message, "remove one"));
            }
            weighted = true;
            backend.weight = parse_weight(weight)?;
        }
        Ok(backend)
    }
}

/// Arguments as one line of text, remembering where each stands.
#[derive(Default)]
struct Line {
    text: String,
}

impl Line {
    fn items(&mut self, prefix: &str, items: impl Iterator<Item = String>) -> Written {
        let mut spans: Vec<Span> = Vec::new();
        let key = self.text.len();
        for item in items {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.text.push_str(prefix);
            let start = self.text.len();
            self.text.push_str(&item);
            spans.push(start..self.text.len());
        }
        let first = spans.first().cloned();
        Written::List { key: first.unwrap_or(key..key), items: spans, refused: 0 }
    }
}

fn argument(backend: &Backend) -> String {
    let mut text = backend.address.to_string();
    if backend.weight != 1 {
        text.push_str(&format!(",weight={}", backend.weight));
    }
    if backend.backup {
        text.push_str(",backup");
    }
    text
}

fn parse_weight(text: &str) -> Result<u16, Complaint> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let weight = text.parse::<u16>().ok().filter(|&weight| digits && weight <= 256);
    weight.ok_or_else(|| {
        Complaint::new(
            format!("the weight {} is out of range", quote(text)),
            "write a whole number from 0 to 256, as in \"localhost:5001,weight=2\"",
        )
    })
}

fn unknown_option(option: &str) -> Complaint {
    if option == "backup" {
        return Complaint::new("`backup` stands twice", "remove one");
    }
    Complaint::new(
        format!("{} after the comma is no option of a backend", quote(option)),
        "options are \",weight=N\" and \",backup\"; other limits, and a path with a comma, need a \
         configuration file",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Agent;
    use super::*;

    fn refused(listen: &[&str], backends: &[&str]) -> String {
        let listen: Vec<BindAddress> = listen.iter().map(|text| text.parse().unwrap()).collect();
        let backends: Vec<Backend> = backends.iter().map(|text| text.parse().unwrap()).collect();
        Config::from_arguments(&listen, &backends)
            .expect_err("these arguments are wrong")
            .to_string()
    }

    #[test]
    fn a_backend_argument_may_have_a_weight_and_be_a_backup() {
        for (text, address, weight, backup) in [
            ("localhost:5001", "localhost:5001", 1, false),
            ("localhost:5001,weight=0", "localhost:5001", 0, false),
            ("[::1]:5001,weight=256", "[::1]:5001", 256, false),
            ("unix:/run/x,weight=7", "unix:/run/x", 7, false),
            ("localhost:5001,backup", "localhost:5001", 1, true),
            ("unix:/run/x,weight=7,backup", "unix:/run/x", 7, true),
            ("localhost:5001,backup,weight=7", "localhost:5001", 7, true),
        ] {
            let backend: Backend = text.parse().unwrap();
            assert_eq!(backend.address.to_string(), address);
            assert_eq!((backend.weight, backend.backup), (weight, backup), "{text}");
        }
    }

    #[test]
    fn a_wrong_backend_argument_is_refused_with_a_cure() {
        for (text, expected) in [
            ("", "the address is empty"),
            (",weight=1", "the address is empty"),
            ("h:1,weight=257", "the weight `257` is out of range; write a whole number"),
            ("h:1,weight=-1", "`-1` is out of range"),
            ("h:1,weight=+1", "`+1` is out of range"),
            ("h:1,weight=", "`` is out of range"),
            ("h:1,weight=1,weight=2", "gives the weight twice; remove one"),
            ("h:1,", "`` after the comma is no option"),
            ("h:1,wieght=2", "`wieght=2` after the comma is no option"),
            ("h:1,backup,backup", "`backup` stands twice; remove one"),
            ("h:1,backup=true", "`backup=true` after the comma is no option"),
        ] {
            let complaint = text.parse::<Backend>().expect_err(text).to_string();
            assert!(complaint.contains(expected), "{text}: {complaint}");
        }
    }

    #[test]
    fn arguments_become_one_listener_and_one_pool() {
        let listen = [BindAddress::Any(3030)];
        let backends = ["a:1".parse().unwrap(), "b:2,weight=2".parse().unwrap()];
        let config = Config::from_arguments(&listen, &backends).unwrap();
        let listener = &config.listeners[0];
        let pool = &config.pools[listener.pool];
        assert_eq!((config.listeners.len(), config.pools.len()), (1, 1));
        assert_eq!((listener.name.as_str(), pool.name.as_str()), ("web", "web"));
        assert_eq!((&listener.bind[..], &pool.backends[..]), (&listen[..], &backends[..]));
    }

    #[test]
    fn arguments_are_checked_like_a_file_and_pointed_at() {
        assert_eq!(
            refused(&[":3030"], &["a:1,backup", "A:1,weight=2,backup"]),
            "command line: the backend `A:1` stands twice in the pool\n |\n \
             | -l :3030 a:1,backup A:1,weight=2,backup\n \
             |                     ^^^^^^^^^^^^^^^^^^^ remove one; \
             a weight gives it a larger share\n"
        );
        assert!(refused(&[":1", "127.0.0.1:1"], &["a:1"]).contains("overlaps with `:1`"));
        assert!(refused(&[":3030"], &["localhost:3030"]).contains("in a circle"));
        assert!(refused(&[":3030"], &["a:1,weight=0"]).contains("has weight 0"));
        assert!(refused(&[":3030"], &[]).contains("empty list"));
        assert!(refused(&[], &["a:1"]).contains("empty list"));
    }

    #[test]
    fn options_hold_over_what_is_there() {
        let listen = [BindAddress::Any(3030)];
        let mut config = Config::from_arguments(&listen, &["a:1".parse().unwrap()]).unwrap();
        let before = config.clone();
        config.apply(&Overrides::default()).unwrap();
        assert_eq!(config, before);
        let all = Overrides {
            policy: Some(Policy::First),
            access_log: Some(AccessLog::Close),
            log_format: Some(LogFormat::Json),
            admin: Some("127.0.0.1:9930".parse().unwrap()),
        };
        config.apply(&all).unwrap();
        assert_eq!(config.admin.unwrap().listen.to_string(), "127.0.0.1:9930");
        assert_eq!(config.global.access_log, AccessLog::Close);
        assert_eq!(config.global.log_format, LogFormat::Json);
        assert_eq!(config.pools[0].policy, Policy::First);
    }

    #[test]
    fn an_admin_address_for_everybody_needs_the_token_of_the_file() {
        let over = |address: &str| {
            let admin = Some(address.parse().unwrap());
            Overrides { admin, ..Overrides::default() }
        };
        let listen = [BindAddress::Any(3030)];
        let mut config = Config::from_arguments(&listen, &["a:1".parse().unwrap()]).unwrap();
        for open in [":9930", "0.0.0.0:9930", "192.0.2.1:9930", "[::]:9930", "lb.example:9930"] {
            let refusal = config.apply(&over(open)).expect_err(open).to_string();
            let start = format!("command line: the admin address `{open}` can be reached");
            assert!(refusal.starts_with(&start), "{refusal}");
            assert!(refusal.contains("write \"127.0.0.1:9930\", or set `token_file`"), "{refusal}");
        }
        for private in ["127.0.0.2:9930", "[::1]:9930", "localhost:9930", "unix:/run/admin.sock"] {
            config.apply(&over(private)).expect(private);
        }
        let token = "s3cret".parse().unwrap();
        let token_file = Some("token".into());
        let old = Admin { token: Some(token), token_file, ..Admin::new(BindAddress::Any(1)) };
        config.admin = Some(old.clone());
        config.apply(&over(":9930")).unwrap();
        assert_eq!(config.admin, Some(Admin { listen: BindAddress::Any(9930), ..old }));
    }

    #[test]
    fn a_policy_is_put_over_pools_that_can_have_it() {
        let over = |policy| Overrides { policy: Some(policy), ..Overrides::default() };
        let listen = [BindAddress::Any(3030)];
        let mut config = Config::from_arguments(&listen, &["a:1".parse().unwrap()]).unwrap();
        let bounded = Policy::SourceHash { balance_factor: Some(125) };
        config.pools[0].policy = bounded;
        config.apply(&over(Policy::SourceHash { balance_factor: None })).unwrap();
        assert_eq!(config.pools[0].policy, bounded, "what the file says beside is kept");
        let refusal = config.apply(&over(Policy::Resource)).expect_err("no agent").to_string();
        assert_eq!(
            refusal,
            "command line: `balance = \"resource\"` needs agents, and [pool.web] has none; \
             add agent = \":PORT\" to its health table\n"
        );
        config.pools[0].health.agent = Some(Agent::Port(9999));
        config.apply(&over(Policy::Resource)).unwrap();
        assert_eq!(config.pools[0].policy, Policy::Resource);
    }
}
