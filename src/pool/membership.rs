//! Who belongs to a pool while it is at work.
//!
//! A backend that is taken out of the list takes nothing new, as if it drained, and is still there
//! until its last connection has ended. Then its index is free for the next one that is added. One
//! that is put back before that is the same one: its counters and its connections go on.

use std::time::Instant;

use super::Pool;
use super::backend::Backend;
use super::picker::Member;
use super::terms::Terms;

impl Pool {
    /// Adds a backend behind the others; returns its index. It has no place yet, see
    /// [`Self::relocate`].
    pub fn add(&mut self, mut backend: Backend, now: Instant) -> usize {
        if !self.terms.probed {
            backend.set_probed(false);
        }
        let vacant = self.vacant.pop();
        let index = self.roster.add(member(&backend), vacant);
        match vacant {
            Some(index) => self.backends[index] = backend,
            None => self.backends.push(backend),
        }
        self.order.push(index);
        self.settle(index, now);
        index
    }

    /// Takes backends out of the list that are in it.
    pub fn remove(&mut self, indices: &[usize], now: Instant) {
        for &index in indices {
            self.backends[index].set_removed(true);
            // What is derived from all weights is to be as if it had never been.
            self.roster.set_weight(index, 0);
            self.settle(index, now);
            self.vacate(index);
        }
        self.order.retain(|&index| !self.backends[index].is_removed());
    }

    /// Gives the index of a backend free, if nothing is left of it.
    pub(super) fn vacate(&mut self, index: usize) {
        if self.backends[index].is_gone() {
            self.vacant.push(index);
        }
    }

    /// Puts a backend back that was taken out of the list and is not gone, behind the others.
    ///
    /// # Panics
    /// If it was not taken out.
    pub fn restore(&mut self, index: usize, now: Instant) {
        assert!(self.backends[index].is_removed(), "only one that was removed comes back");
        self.backends[index].set_removed(false);
        if self.terms.probed {
            // It was not probed meanwhile.
            self.backends[index].set_probed(true);
        }
        self.roster.set_weight(index, self.backends[index].weight());
        self.order.push(index);
        self.settle(index, now);
    }

    /// A backend has this limit and this role from now on; true if that is news.
    pub fn revise(&mut self, index: usize, most: Option<u32>, backup: bool, now: Instant) -> bool {
        let is_news = self.backends[index].revise(most, backup);
        self.settle(index, now);
        is_news
    }

    /// The list has this order from now on.
    ///
    /// # Panics
    /// If those are not the indices of all who are in it.
    pub fn arrange(&mut self, order: Vec<usize>) {
        if order == self.order {
            return;
        }
        let is_whole = order.len() == self.order.len()
            && order.iter().all(|&index| !self.backends[index].is_removed());
        assert!(is_whole, "everybody in the list has a place in it");
        self.roster.arrange(&order);
        self.order = order;
    }

    /// These terms hold from now on. What is known of the backends is kept as far as it still
    /// means something.
    pub fn set_terms(&mut self, terms: Terms, now: Instant) {
        let before = std::mem::replace(&mut self.terms, terms);
        if before.policy != self.terms.policy {
            let members: Vec<Member> = self.backends.iter().map(member).collect();
            self.roster.choose_by(self.terms.policy, &members, self.terms.seed);
            self.roster.arrange(&self.order);
        }
        for index in 0..self.backends.len() {
            let backend = &mut self.backends[index];
            if before.probed != self.terms.probed {
                backend.set_probed(self.terms.probed);
            }
            if self.terms.agent_patience.is_none() {
                backend.forget_agent();
            }
            self.settle(index, now);
        }
    }

    /// Those in the list, in its order, and those that were taken out and are not gone.
    pub fn backends(&self) -> impl Iterator<Item = (usize, &Backend)> {
        let removed = (0..self.backends.len()).filter(|&index| {
            let backend = &self.backends[index];
            backend.is_removed() && !backend.is_gone()
        });
        self.order.iter().copied().chain(removed).map(|index| (index, &self.backends[index]))
    }

    /// The backend with this index, as long as it is not gone.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Backend> {
        self.backends.get(index).filter(|backend| !backend.is_gone())
    }

    /// The index of the backend with this label, in the list or not; one in the list is preferred.
    #[must_use]
    pub fn find(&self, label: &str) -> Option<usize> {
        self.backends().find(|(_, backend)| backend.label() == label).map(|(index, _)| index)
    }

    /// The indices of those in the list, in its order.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }
}

/// A backend as the picker sees it; one that was removed weighs nothing.
fn member(backend: &Backend) -> Member {
    let weight = if backend.is_removed() { 0 } else { backend.weight() };
    Member::new(backend.label(), weight)
}
