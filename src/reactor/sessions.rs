//! The connections that live, a page at a time, and cutting one of them.
//!
//! A page takes one look at the number of every pair, and words for those on it only: ten thousand
//! connections are gone through in a fraction of a millisecond.

use std::collections::BinaryHeap;

use super::Reactor;
use super::pairs::Entry;
use super::report::BackendName;
use crate::admin::Refused;
use crate::admin::sessions::{Cut, Session, Sessions, Which};
use crate::measure::Outlook;
use crate::pair::{CloseReason, Direction, Phase};
use crate::pool::Pool;

impl Reactor {
    /// The connections with the lowest numbers above `which.after`, in their order.
    pub(super) fn list(&self, which: &Which) -> Result<Sessions, Refused> {
        self.check(which)?;
        let mut page: BinaryHeap<(u64, usize)> = BinaryHeap::with_capacity(which.limit + 1);
        for (slot, entry) in self.pairs.iter() {
            if entry.id <= which.after || !self.is_meant(slot, entry, which) {
                continue;
            }
            // One more than fits says whether there is a next page.
            if page.len() <= which.limit {
                page.push((entry.id, slot));
            } else if let Some(mut last) = page.peek_mut()
                && entry.id < last.0
            {
                *last = (entry.id, slot);
            }
        }
        let mut page = page.into_sorted_vec();
        let is_last = page.len() <= which.limit;
        page.truncate(which.limit);
        let next = page.last().map(|&(id, _)| id).filter(|_| !is_last);
        let sessions = page.into_iter().map(|(_, slot)| self.session(slot)).collect();
        Ok(Sessions { sessions, next })
    }

    /// Cuts a connection, as somebody at the admin address asks.
    pub(super) fn cut_one(&mut self, id: u64, client: &str) -> Result<Cut, Refused> {
        let Some(slot) = self.pairs.iter().find(|(_, entry)| entry.id == id).map(|(slot, _)| slot)
        else {
            let message = format!("there is no connection {id}; it may have ended");
            return Err(Refused::not_found(&message));
        };
        let (session, pool) = (self.session(slot), &self.pools[self.pool_of(slot)]);
        let place = match self.pairs.get(slot).backend {
            Some(choice) => BackendName(pool, choice.backend()).to_string(),
            None => pool.name().to_owned(),
        };
        let from = &session.client;
        let line = format!("Admin client {client} has connection {id} from {from} to {place} cut");
        self.news.info(self.now, line);
        let reason = CloseReason::CutByOperator;
        self.finish(slot, reason);
        Ok(Cut { reason: reason.words().to_owned(), session })
    }

    /// Whether what is asked for is there at all.
    fn check(&self, which: &Which) -> Result<(), Refused> {
        let pools = || self.listed_pools().map(|number| &self.pools[number]);
        let is_asked = |pool: &&Pool| which.pool.as_ref().is_none_or(|name| pool.name() == name);
        if let Some(name) = &which.pool
            && pools().find(is_asked).is_none()
        {
            return Err(Refused::no_pool(name, pools().map(Pool::name)));
        }
        let Some(address) = &which.backend else { return Ok(()) };
        let labels = || pools().filter(is_asked).flat_map(Pool::backends).map(|(_, b)| b.label());
        if labels().any(|label| label == address) {
            return Ok(());
        }
        match &which.pool {
            Some(pool) => Err(Refused::no_backend(pool, address, labels())),
            None => Err(Refused::no_backend_anywhere(address, labels())),
        }
    }

    fn is_meant(&self, slot: usize, entry: &Entry, which: &Which) -> bool {
        if which.pool.is_none() && which.backend.is_none() {
            return true;
        }
        let pool = &self.pools[self.pool_of(slot)];
        let backend = entry.backend.map(|choice| pool.backend(choice.backend()).label());
        which.pool.as_ref().is_none_or(|name| pool.name() == name)
            && which.backend.as_ref().is_none_or(|address| backend == Some(address))
    }

    fn session(&self, slot: usize) -> Session {
        let (entry, pool) = (self.pairs.get(slot), &self.pools[self.pool_of(slot)]);
        let age = self.now.saturating_duration_since(entry.opened).as_millis();
        Session {
            id: entry.id,
            client: entry.client.to_string(),
            listener: self.listeners[entry.listener()].name.clone(),
            pool: pool.name().to_owned(),
            backend: entry.backend.map(|choice| pool.backend(choice.backend()).label().to_owned()),
            phase: phase(entry.pair.phase()).to_owned(),
            waits_for: match entry.pair.outlook() {
                Outlook::Sure(wait) | Outlook::Silence(wait) => wait.word().to_owned(),
            },
            age_ms: u64::try_from(age).unwrap_or(u64::MAX),
            received: entry.pair.bytes(Direction::ToBackend),
            sent: entry.pair.bytes(Direction::ToClient),
        }
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Greeting => "greeting",
        Phase::Choosing => "choosing",
        Phase::Waiting => "waiting",
        Phase::Connecting => "connecting",
        Phase::Relaying => "relaying",
    }
}
