//! The admin address: its sockets and its clients, beside the traffic and never in its way.
//!
//! Admin clients are no connections: they do not count against limits, do not hold up the end of
//! the process, and are served while it drains. There are [`MOST_CLIENTS`] at most, others wait in
//! the kernel's queue until one that has asked nothing for a second is closed for them. One is
//! answered in a turn, and then none until [`REST`] times as long has passed as that took: however
//! many ask however much, the traffic has most of the time.

use std::mem;
use std::time::{Duration, Instant};

use mio::Registry;

use super::guests::{Guests, Terms};
use super::listener::{Accepted, Acceptor, Listening};
use super::start::StartError;
use super::token::Source;
use super::{Reactor, clock};
use crate::admin::{Conversation, Gate};
use crate::config::{self, BindAddress};
use crate::pair::endpoint::Ready;

/// Who listens and who asks; nobody where there is no admin address.
#[derive(Debug)]
pub(super) struct Admin {
    acceptors: Vec<Acceptor>,
    clients: Guests<Conversation>,
    gate: Gate,
    rests_until: Option<Instant>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            acceptors: Vec::new(),
            clients: Guests::new(Terms { source: Source::Admin, patience: Some(PATIENCE) }),
            gate: Gate::default(),
            rests_until: None,
        }
    }
}

impl Admin {
    /// Listens as configured.
    pub(super) fn open(config: &config::Admin, registry: &Registry) -> Result<Self, StartError> {
        let names = match &config.listen {
            BindAddress::Name { host, .. } => vec![host.trim_end_matches('.').to_owned()],
            BindAddress::Inet(_) | BindAddress::Any(_) | BindAddress::Unix(_) => Vec::new(),
        };
        let mut admin = Self { gate: Gate::new(names, config.token.clone()), ..Self::default() };
        let sockets = Listening::bind_for_admin(&config.listen, BACKLOG)
            .map_err(|error| StartError::bind(&config.listen, error, "--admin or [admin]"))?;
        for socket in sockets {
            let mut acceptor = Acceptor::new(socket);
            let token = Source::AdminAcceptor(admin.acceptors.len()).into();
            acceptor.register(registry, token).map_err(StartError::System)?;
            admin.acceptors.push(acceptor);
        }
        Ok(admin)
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = String> + '_ {
        self.acceptors.iter().map(Acceptor::address)
    }

    /// Descriptors that its clients may take.
    pub(super) fn descriptors(&self) -> usize {
        if self.acceptors.is_empty() { 0 } else { MOST_CLIENTS }
    }

    pub(super) fn mark_acceptor(&mut self, number: usize) {
        if let Some(acceptor) = self.acceptors.get_mut(number) {
            acceptor.mark();
        }
    }

    pub(super) fn mark(&mut self, slot: usize, ready: Ready) {
        self.clients.mark(slot, ready);
    }

    pub(super) fn has_work(&self, now: Instant) -> bool {
        self.clients.queued() > 0 || self.can_accept(now) || self.can_answer(now)
    }

    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let pause = self.acceptors.iter().filter_map(|acceptor| acceptor.paused_until(now)).min();
        let rest = self.rests_until.filter(|&until| until > now && self.clients.asking() > 0);
        let is_wanted = self.clients.len() >= MOST_CLIENTS && self.has_visitors(now);
        let room = self.clients.room_at().filter(|_| is_wanted);
        [pause, rest, room, self.clients.next_deadline()].into_iter().flatten().min()
    }

    fn has_visitors(&self, now: Instant) -> bool {
        self.acceptors.iter().any(|acceptor| acceptor.is_ready(now))
    }

    fn can_accept(&self, now: Instant) -> bool {
        self.has_visitors(now) && has_room(&self.clients, now)
    }

    fn can_answer(&self, now: Instant) -> bool {
        self.clients.asking() > 0
            && self.rests_until.is_none_or(|until| until <= now)
            && self.clients.untaken(Conversation::untaken) < MOST_UNTAKEN
    }

    /// Lets clients in, as far as there are places.
    fn accept(&mut self, now: Instant, registry: &Registry) {
        for acceptor in &mut self.acceptors {
            while acceptor.is_ready(now) && has_room(&self.clients, now) {
                match acceptor.accept(now) {
                    Accepted::Client(socket, peer) => {
                        if self.clients.len() >= MOST_CLIENTS {
                            self.clients.make_room();
                        }
                        let conversation = Conversation::new(peer.to_string(), self.gate.clone());
                        self.clients.admit(socket, conversation, Duration::ZERO, (now, registry));
                    }
                    Accepted::Failed => {}
                    Accepted::Nobody | Accepted::Exhausted(_) => break,
                }
            }
        }
    }

    /// Answers one request, with the help of all the rest.
    fn answer(&mut self, rest: &mut Reactor) {
        let (begun, gate) = (clock(), &self.gate);
        let answered = self
            .clients
            .reply(rest.now, |conversation, output| conversation.answer(gate, rest, output));
        if answered {
            let ended = clock();
            self.rests_until = Some(ended + ended.saturating_duration_since(begun) * REST);
        }
    }
}

/// Whether another one may come in, perhaps for one that asks nothing.
fn has_room(clients: &Guests<Conversation>, now: Instant) -> bool {
    clients.len() < MOST_CLIENTS || clients.room_at().is_some_and(|at| at <= now)
}

impl Reactor {
    /// Serves the admin address.
    pub(super) fn administer(&mut self) {
        self.admin.accept(self.now, self.poll.registry());
        self.admin.clients.work(self.now, &mut self.pairs.stores.scratch);
        if self.admin.can_answer(self.now) {
            self.look_at_waits();
            let mut admin = mem::take(&mut self.admin);
            admin.answer(self);
            self.admin = admin;
            // What was asked for may have been the end: the answer goes out before it.
            self.admin.clients.work(self.now, &mut self.pairs.stores.scratch);
        }
        if mem::take(&mut self.is_admin_stale) {
            let token = self.config.admin.as_ref().and_then(|admin| admin.token.clone());
            self.admin.gate.set_token(token);
        }
    }

    /// Where the admin interface listens.
    #[must_use]
    pub fn admin_addresses(&self) -> Vec<String> {
        self.admin.addresses().collect()
    }
}

pub(super) const MOST_CLIENTS: usize = 64;
const BACKLOG: u32 = 128;
/// For a request, for an answer to be taken, and between two requests.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of answers that wait to be taken; nobody else is answered meanwhile.
const MOST_UNTAKEN: usize = 64 * 1024 * 1024;
/// How many times as long as an answer took none is given.
const REST: u32 = 4;
