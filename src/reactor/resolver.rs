//! Names to addresses, on the one helper thread: `getaddrinfo` blocks, and the loop must not.
//!
//! The thread does nothing else. It takes a name from a channel, asks, sends the answer back
//! through another and wakes the loop. It is started only when there is a name to resolve. A name
//! that does not resolve is asked again; the last good answer stays in use meanwhile. A turn of the
//! loop costs nothing here while no name is due, however many there are.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Registry, Waker};
use slab::Slab;

use super::token::Source;
use crate::timers::Timers;

/// The names in use, and the line to the thread.
#[derive(Debug)]
pub(super) struct Resolver {
    names: Slab<Name>,
    numbers: HashMap<(String, u16), usize>,
    of_user: HashMap<User, usize>,
    /// Names that have not been asked for yet.
    unasked: Vec<usize>,
    /// Names that have had no answer yet.
    unanswered: usize,
    due: Timers,
    thread: Option<Line>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self {
            names: Slab::new(),
            numbers: HashMap::new(),
            of_user: HashMap::new(),
            unasked: Vec::new(),
            unanswered: 0,
            due: Timers::default(),
            thread: None,
        }
    }

    /// Has `host:port` looked up now and from then on, on behalf of `user`, who has no other name.
    pub(super) fn watch(&mut self, host: &str, port: u16, user: User) {
        let number = *self.numbers.entry((host.to_owned(), port)).or_insert_with(|| {
            let number = self.names.insert(Name {
                host: host.to_owned(),
                port,
                users: Vec::new(),
                asked: None,
                waiting: false,
                outcome: Outcome::Nothing,
            });
            self.unasked.push(number);
            self.unanswered += 1;
            number
        });
        let name = &mut self.names[number];
        name.users.push(user);
        // Who comes later does not wait until the answer that is there has become old.
        if name.asked.is_some() && !name.waiting && !self.unasked.contains(&number) {
            self.unasked.push(number);
        }
        self.of_user.insert(user, number);
    }

    /// A user has no name any more. One that nobody uses is forgotten, when no answer is awaited.
    pub(super) fn unwatch(&mut self, user: User) {
        let Some(number) = self.of_user.remove(&user) else { return };
        let name = &mut self.names[number];
        name.users.retain(|&other| other != user);
        if name.users.is_empty() {
            self.numbers.remove(&(name.host.clone(), name.port));
            if !name.waiting {
                self.forget(number);
            }
        }
    }

    fn forget(&mut self, number: usize) {
        self.unasked.retain(|&other| other != number);
        if self.names.remove(number).outcome == Outcome::Nothing {
            self.unanswered -= 1;
        }
    }

    /// Starts the thread if there is anything to resolve and it does not run yet.
    pub(super) fn start(&mut self, registry: &Registry) -> io::Result<()> {
        if self.names.is_empty() || self.thread.is_some() {
            return Ok(());
        }
        let waker = Waker::new(registry, Source::Resolver.into())?;
        let (ask, questions) = channel::<Question>();
        let (reply, answers) = channel();
        thread::Builder::new().name("resolver".into()).spawn(move || {
            for (name, host, port) in questions {
                let answer = look_up(&host, port);
                if reply.send((name, answer)).is_err() || waker.wake().is_err() {
                    return;
                }
            }
        })?;
        self.thread = Some(Line { ask, answers });
        Ok(())
    }

    /// Asks for every name whose answer is older than [`REFRESH`], or [`RETRY`] if it was bad.
    pub(super) fn refresh(&mut self, now: Instant) {
        if self.thread.is_some() {
            for number in std::mem::take(&mut self.unasked) {
                self.ask(number, now);
            }
        }
        while let Some(index) = self.due.pop_due(now) {
            // A name that was forgotten leaves its entry behind.
            let Some(name) = self.names.get(index) else { continue };
            match name.due_at() {
                Some(due) if due <= now => self.ask(index, now),
                Some(due) => self.due.arm(index, due),
                // Its answer will set the time.
                None => {}
            }
        }
    }

    /// Real traffic or a probe found nobody there: ask again, unless that was done just now.
    pub(super) fn hurry(&mut self, user: User, now: Instant) {
        let Some(&index) = self.of_user.get(&user) else { return };
        let name = &self.names[index];
        if !name.waiting && name.asked.is_none_or(|asked| now >= asked + SOONEST) {
            self.ask(index, now);
        }
    }

    /// The answers that have come in: for each, who uses the name, the name, and its addresses.
    pub(super) fn take(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some((index, outcome)) = self.thread.as_ref().and_then(Line::answer) {
            let name = &mut self.names[index];
            name.waiting = false;
            let last = name.outcome;
            name.outcome = if outcome.is_ok() { Outcome::Good } else { Outcome::Bad };
            if last == Outcome::Nothing {
                self.unanswered -= 1;
            }
            if let Some(due) = name.due_at() {
                self.due.arm(index, due);
            }
            if name.users.is_empty() {
                self.forget(index);
                continue;
            }
            answers.push(Answer {
                users: name.users.clone(),
                name: name.host.clone(),
                outcome,
                is_news: name.outcome != last,
            });
        }
        answers
    }

    /// Whether every name has been answered once, well or badly.
    pub(super) fn is_settled(&self) -> bool {
        self.unanswered == 0
    }

    /// When [`Self::refresh`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.next()
    }

    fn ask(&mut self, index: usize, now: Instant) {
        let Some(line) = &self.thread else { return };
        let name = &mut self.names[index];
        name.asked = Some(now);
        name.waiting = line.ask.send((index, name.host.clone(), name.port)).is_ok();
    }
}

/// Who wants to know where a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum User {
    /// A backend of a pool, by index.
    Backend { pool: usize, backend: usize },
    /// A poll, by number.
    Poll(usize),
}

/// What became of a question.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) users: Vec<User>,
    pub(super) name: String,
    pub(super) outcome: io::Result<Vec<SocketAddr>>,
    /// Whether the last answer was of the other kind, or there was none.
    pub(super) is_news: bool,
}

#[derive(Debug)]
struct Name {
    host: String,
    port: u16,
    users: Vec<User>,
    asked: Option<Instant>,
    waiting: bool,
    outcome: Outcome,
}

/// The last answer about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Nothing,
    Good,
    Bad,
}

impl Name {
    fn age_limit(&self) -> Duration {
        match self.outcome {
            Outcome::Nothing | Outcome::Good => REFRESH,
            Outcome::Bad => RETRY,
        }
    }

    /// When it is to be asked for again, unless an answer is awaited.
    fn due_at(&self) -> Option<Instant> {
        self.asked.filter(|_| !self.waiting).map(|asked| asked + self.age_limit())
    }
}

/// The number of a name, the name and the port.
type Question = (usize, String, u16);
/// The number of a name, and its addresses.
type Reply = (usize, io::Result<Vec<SocketAddr>>);

#[derive(Debug)]
struct Line {
    ask: Sender<Question>,
    answers: Receiver<Reply>,
}

impl Line {
    fn answer(&self) -> Option<Reply> {
        self.answers.try_recv().ok()
    }
}

/// All addresses of a name, each once, in the order of the system's preference. Blocks.
///
/// # Errors
/// When the name does not resolve, or to nothing.
pub fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs()? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(addresses)
}

/// How old an answer may grow.
const REFRESH: Duration = Duration::from_secs(30);
/// How soon a name that did not resolve is asked for again.
const RETRY: Duration = Duration::from_secs(5);
/// The least time between two questions for one name.
const SOONEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const USER: User = User::Backend { pool: 0, backend: 0 };

    /// A resolver whose questions and answers the test plays itself.
    fn played() -> (Resolver, Receiver<Question>, Sender<Reply>) {
        let mut resolver = Resolver::new();
        resolver.watch("db", 1, USER);
        resolver.watch("db", 1, User::Poll(1));
        let (ask, questions) = channel();
        let (reply, answers) = channel();
        resolver.thread = Some(Line { ask, answers });
        (resolver, questions, reply)
    }

    fn found() -> io::Result<Vec<SocketAddr>> {
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], 1))])
    }

    #[test]
    fn a_name_is_asked_for_once_for_all_who_use_it() {
        let now = super::super::clock();
        let (mut resolver, questions, reply) = played();
        resolver.refresh(now);
        resolver.refresh(now);
        assert_eq!(questions.try_iter().count(), 1);
        assert!(!resolver.is_settled());
        reply.send((0, found())).unwrap();
        let answers = resolver.take();
        assert_eq!((answers.len(), answers[0].users.len()), (1, 2));
        assert!(answers[0].is_news && resolver.is_settled());
    }

    #[test]
    fn a_good_answer_is_good_for_thirty_seconds_and_a_bad_one_for_five() {
        let mut now = super::super::clock();
        let (mut resolver, questions, reply) = played();
        for (answer, age) in [(found(), REFRESH), (Err(io::ErrorKind::NotFound.into()), RETRY)] {
            resolver.refresh(now);
            assert_eq!(questions.try_iter().count(), 1);
            assert_eq!(resolver.next(), None, "an answer is awaited");
            reply.send((0, answer)).unwrap();
            assert!(resolver.take()[0].is_news);
            assert_eq!(resolver.next(), Some(now + age));
            now += age;
            resolver.refresh(now.checked_sub(Duration::from_millis(1)).unwrap());
            assert_eq!(questions.try_iter().count(), 0);
        }
    }

    #[test]
    fn a_failed_connect_asks_again_but_not_at_once() {
        let now = super::super::clock();
        let (mut resolver, questions, reply) = played();
        resolver.refresh(now);
        resolver.hurry(USER, now + SOONEST);
        assert_eq!(questions.try_iter().count(), 1, "one is under way");
        reply.send((0, found())).unwrap();
        resolver.take();
        resolver.hurry(USER, now);
        assert_eq!(questions.try_iter().count(), 0);
        resolver.hurry(USER, now + SOONEST);
        assert_eq!(questions.try_iter().count(), 1);
        resolver.hurry(User::Poll(7), now + SOONEST * 9);
        assert_eq!(questions.try_iter().count(), 0, "not its name");
    }

    #[test]
    fn a_name_that_nobody_uses_is_asked_for_no_more() {
        let now = super::super::clock();
        let (mut resolver, questions, reply) = played();
        resolver.refresh(now);
        questions.try_iter().for_each(drop);
        resolver.unwatch(USER);
        resolver.unwatch(User::Poll(1));
        assert!(!resolver.is_settled(), "its answer is still on its way");
        // Asked for again meanwhile, it is another one.
        resolver.watch("db", 1, USER);
        resolver.refresh(now);
        let number = questions.try_iter().next().unwrap().0;
        reply.send((0, found())).unwrap();
        assert!(resolver.take().is_empty(), "nobody waits for that any more");
        reply.send((number, found())).unwrap();
        assert_eq!(resolver.take()[0].users, [USER]);
        assert!(resolver.is_settled());
        resolver.unwatch(USER);
        resolver.refresh(now + REFRESH * 2);
        assert_eq!((questions.try_iter().count(), resolver.names.len()), (0, 0));
    }

    #[test]
    fn who_comes_later_does_not_wait_until_an_answer_has_become_old() {
        let now = super::super::clock();
        let (mut resolver, questions, reply) = played();
        resolver.refresh(now);
        resolver.watch("db", 1, User::Poll(2));
        resolver.refresh(now);
        assert_eq!(questions.try_iter().count(), 1, "the answer that is awaited is for all");
        reply.send((0, found())).unwrap();
        assert_eq!(resolver.take()[0].users.len(), 3);
        resolver.watch("db", 1, User::Poll(3));
        resolver.refresh(now);
        assert_eq!(questions.try_iter().count(), 1);
    }
}
