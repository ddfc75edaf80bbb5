//! What is wanted of a backend, by the configuration, the operator and its agent.

use std::time::Instant;

use super::super::admin::{Admin, Author};
use super::super::agent::{Memory, Report};
use super::super::health::{Health, UP};
use super::{Backend, NOT_PROBED};

impl Backend {
    /// Whether it was taken out of the list, and stays until its last connection has ended.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// Whether nothing is left of it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.removed && self.counters.active == 0
    }

    /// What it is wanted for, and who wants that.
    #[must_use]
    pub fn admin(&self) -> (Admin, Author) {
        let agent = self.agent.admin();
        if agent > self.wanted { (agent, Author::Agent) } else { (self.wanted, Author::Operator) }
    }

    /// Sets what the operator wants of it.
    pub(in crate::pool) fn want(&mut self, admin: Admin, probed: bool) {
        let before = self.admin().0;
        self.wanted = admin;
        self.look_anew(before, probed);
    }

    /// Takes what its agent says.
    pub(in crate::pool) fn hear(&mut self, report: Report, probed: bool, now: Instant) {
        let before = self.admin().0;
        self.agent.take(report, now);
        self.look_anew(before, probed);
    }

    /// Takes it out of the list, or puts it back.
    pub(in crate::pool) fn set_removed(&mut self, removed: bool) {
        self.removed = removed;
    }

    /// Gives it another limit and another role; true if that is news.
    pub(in crate::pool) fn revise(&mut self, most: Option<u32>, backup: bool) -> bool {
        let before = (self.most, self.backup);
        (self.most, self.backup) = (most, backup);
        before != (most, backup)
    }

    /// Whether it is probed has changed: what was known before says nothing any more.
    pub(in crate::pool) fn set_probed(&mut self, probed: bool) {
        self.health = if probed { Health::Checking } else { UP };
        self.words = (!probed).then(|| NOT_PROBED.to_owned());
    }

    /// Nobody speaks for it any more.
    pub(in crate::pool) fn forget_agent(&mut self) {
        self.agent = Memory::default();
    }

    /// Gives it another weight; returns the one it had.
    pub(in crate::pool) fn weigh(&mut self, weight: u16) -> u16 {
        std::mem::replace(&mut self.weight, weight)
    }

    /// What was known before a maintenance is old by its end: the next probe decides. One that was
    /// down then stays down until it has risen.
    fn look_anew(&mut self, before: Admin, probed: bool) {
        let ends = before == Admin::Maintenance && self.admin().0 != Admin::Maintenance;
        if ends && probed && self.health.is_usable() {
            self.health = Health::Checking;
            self.words = None;
        }
    }
}
