//! Clients that wait for a backend: let into the line, called, given up.
//!
//! Who waits where and for how long is [`crate::pool::waiting`]'s business; its clients are pairs
//! here. A place may become free for many reasons: a connection ended, a limit was raised, a
//! backend came back, time passed. All of them bring a turn, and a turn ends with a look at those
//! who stand in line, so that a place that became free in a turn is taken in the same one.

use std::time::Instant;

use log::Level;

use super::Reactor;
use super::pairs::Failure;
use super::polls::User;
use super::report::Sparing;
use crate::pair::CloseReason;
use crate::pool::waiting::{Full, Want};

impl Reactor {
    /// Has a pair wait, or says why it may not.
    pub(super) fn wait(&mut self, slot: usize, want: Want) -> Result<(), CloseReason> {
        let pool = self.pool_of(slot);
        let allowed = match (self.room.is_called(slot), want) {
            _ if self.has_had_its_time(slot) => Err(Full),
            (true, Want::Backend) if !self.holds_clients(pool) => Err(Full),
            (true, _) => {
                self.room.put_back(slot, want, self.now);
                Ok(())
            }
            (false, _) => self.join_again(slot, want),
        };
        allowed.map_err(|Full| self.turned_away(slot, want))?;
        let entry = self.pairs.get_mut(slot);
        entry.pair.wait();
        self.decisions.waits(entry.id, want, self.now);
        if want == Want::Backend || !entry.tried.is_empty() {
            // When it is called, it may try them all again: one that failed may be back, and who
            // waits for another one only would keep those behind from it. But not at once.
            entry.tried.clear();
            self.room.discourage(pool, self.now);
        }
        self.tell_waiting(pool, want);
        Ok(())
    }

    /// Who comes while others stand in line goes behind them; true if the pair waits now. One who
    /// cannot be held any more has to try at once.
    pub(super) fn stands_behind(&mut self, slot: usize) -> Result<bool, CloseReason> {
        let pool = self.pool_of(slot);
        let Some(want) = self.room.want(pool) else { return Ok(false) };
        if self.room.is_called(slot) || !self.pairs.get(slot).tried.is_empty() {
            return Ok(false);
        }
        match (self.room.join(pool, slot, want, self.now), want) {
            (Ok(()), _) => {
                let entry = self.pairs.get_mut(slot);
                entry.pair.wait();
                self.decisions.waits(entry.id, want, self.now);
                Ok(true)
            }
            (Err(Full), Want::Backend) => Ok(false),
            (Err(Full), Want::Place) => Err(self.turned_away(slot, want)),
        }
    }

    /// Gives up those who have waited long enough, and calls those who can be served.
    pub(super) fn attend(&mut self) {
        for _ in 0..GIVEN_UP {
            let Some((slot, want)) = self.room.pop_expired(self.now) else { break };
            let reason = match want {
                Want::Place => CloseReason::QueueTimeout,
                Want::Backend if self.holds_clients(self.pool_of(slot)) => CloseReason::HoldTimeout,
                Want::Backend => CloseReason::NoBackend,
            };
            self.tell_refused(slot, reason);
            self.finish(slot, reason);
        }
        let crowded = if self.room.is_empty() { 0 } else { self.pools.len() };
        for pool in 0..crowded {
            while self.may_help(pool)
                && let Some(slot) = self.room.call(pool, self.now)
            {
                let entry = self.pairs.get_mut(slot);
                entry.pair.resume();
                self.decisions.called(entry.id, self.now);
                self.advance(slot);
                if self.room.is_standing(slot) {
                    break;
                }
            }
        }
        self.tell_relief();
    }

    /// Whether somebody who stands in line is worth a try: not while all are full.
    fn may_help(&self, pool: usize) -> bool {
        let pool_is_full = !self.pools[pool].has_place() && self.pools[pool].is_available();
        !pool_is_full || self.room.want(pool) == Some(Want::Backend)
    }

    /// Why a client that may not wait is sent away.
    fn turned_away(&mut self, slot: usize, want: Want) -> CloseReason {
        let pool = self.pool_of(slot);
        let entry = self.pairs.get(slot);
        let (tried, failure) = (entry.tried.len(), entry.failure);
        let reason = match want {
            Want::Place => CloseReason::QueueFull,
            Want::Backend if self.holds_clients(pool) => CloseReason::HoldFull,
            Want::Backend => CloseReason::NoBackend,
        };
        let by_failure = !self.holds_clients(pool) || failure == Failure::Reset;
        if want == Want::Backend && tried > 0 && by_failure {
            self.tell_unreachable(pool, tried);
            return failure.reason();
        }
        self.tell_refused(slot, reason);
        reason
    }

    /// Has a pair stand in line. One that was connected has been on its way all the time since it
    /// came, so that it stands where it would if it had waited.
    fn join_again(&mut self, slot: usize, want: Want) -> Result<(), Full> {
        self.room.join(self.pool_of(slot), slot, want, self.now)?;
        let entry = self.pairs.get(slot);
        if entry.pair.was_connected() {
            self.room.backdate(slot, entry.opened);
        }
        Ok(())
    }

    /// Backends that accept and reset at once could send a client back into the line for ever. One
    /// that was connected before is not let in again once it is older than anybody may wait.
    fn has_had_its_time(&self, slot: usize) -> bool {
        let entry = self.pairs.get(slot);
        let longest = self.room.terms(self.pool_of(slot)).longest();
        entry.pair.was_connected()
            && longest.is_some_and(|longest| entry.opened + longest <= self.now)
    }

    fn holds_clients(&self, pool: usize) -> bool {
        self.room.terms(pool).backend.is_some()
    }

    /// One line when clients of a pool begin to be held, and now and then one while they queue.
    /// Those who are held should not have to wait for the next regular probe.
    fn tell_waiting(&mut self, pool: usize, want: Want) {
        let (name, census) = (self.pools[pool].name(), self.room.census(pool));
        let notes = &mut self.line_notes;
        match want {
            Want::Place if notes.pools[pool].crowded.may_speak(self.now) => {
                let line = format!(
                    "pool {name}: every backend is at its max_connections, {} clients wait",
                    census.standing
                );
                self.news.again(Level::Info, self.now, line);
            }
            Want::Place => {}
            Want::Backend if notes.pools[pool].held.is_some() => {}
            Want::Backend => {
                notes.pools[pool].held = Some(self.now);
                notes.holding += 1;
                let line =
                    format_args!("pool {name}: no backend can be connected, clients are held");
                self.news.warn(self.now, line);
                for &backend in self.pools[pool].order() {
                    self.prober.hurry(User::health(pool, backend), self.now);
                }
            }
        }
    }

    /// One line when clients of a pool are no longer held.
    fn tell_relief(&mut self) {
        if self.line_notes.holding == 0 {
            return;
        }
        let LineNotes { pools, holding } = &mut self.line_notes;
        for (pool, notes) in pools.iter_mut().enumerate() {
            if self.room.want(pool) == Some(Want::Backend) || self.room.has_called(pool) {
                continue;
            }
            // Those who left the line may be back at once.
            if notes.held.is_none() || self.pools[pool].is_resetting() {
                continue;
            }
            let Some(since) = notes.held.take() else { continue };
            *holding -= 1;
            let line = format!(
                "pool {}: clients are no longer held, after {} s; {} wait for a place",
                self.pools[pool].name(),
                self.now.saturating_duration_since(since).as_secs(),
                self.room.census(pool).standing
            );
            self.news.warn(self.now, line);
        }
    }

    /// Now and then, that clients are closed because they cannot wait, or not longer.
    fn tell_refused(&mut self, slot: usize, reason: CloseReason) {
        let pool = self.pool_of(slot);
        let may_speak = self.line_notes.pools[pool].refused.may_speak(self.now);
        // The state of a pool without backends is told by itself.
        if may_speak && reason != CloseReason::NoBackend {
            let line = format!(
                "pool {}: a client was closed ({}), {} clients wait",
                self.pools[pool].name(),
                reason.words(),
                self.room.census(pool).standing
            );
            self.news.again(Level::Warn, self.now, line);
        }
    }
}

/// What was said about the lines.
#[derive(Debug, Default)]
pub(super) struct LineNotes {
    pools: Vec<PoolNotes>,
    /// Pools whose clients are held.
    holding: usize,
}

impl LineNotes {
    pub(super) fn add_pool(&mut self) {
        self.pools.push(PoolNotes::default());
    }

    /// Nothing was said yet of the pool that has this number now.
    pub(super) fn reset_pool(&mut self, pool: usize) {
        if std::mem::take(&mut self.pools[pool]).held.is_some() {
            self.holding -= 1;
        }
    }
}

#[derive(Debug, Default)]
struct PoolNotes {
    crowded: Sparing,
    refused: Sparing,
    /// Since when clients are held.
    held: Option<Instant>,
}

/// Clients whose patience ends that are seen to in one turn.
const GIVEN_UP: usize = 1024;
