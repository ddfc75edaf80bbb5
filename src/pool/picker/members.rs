//! What a picker was told: each member's weight, share, connections, and whether it is open.

use super::{Member, WHOLE};

/// All members, by index.
#[derive(Debug, Clone)]
pub(super) struct Members {
    all: Vec<Standing>,
    total: Total,
}

/// Sums over all open members.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    pub(super) pull: u64,
    pub(super) active: u64,
}

/// One member and what was said of it.
#[derive(Debug, Clone, Copy)]
struct Standing {
    member: Member,
    share: u16,
    active: u32,
    open: bool,
}

impl Members {
    pub(super) fn new(members: &[Member]) -> Self {
        let mut new = Self { all: Vec::with_capacity(members.len()), total: Total::default() };
        for &member in members {
            new.add(member);
        }
        new
    }

    pub(super) fn add(&mut self, member: Member) -> usize {
        self.all.push(Standing { member, share: WHOLE, active: 0, open: true });
        self.total.pull += u64::from(self.pull(self.all.len() - 1));
        self.all.len() - 1
    }

    /// Gives the place of a member that is gone to another one: closed, and without connections.
    pub(super) fn replace(&mut self, index: usize, member: Member) {
        self.change(index, |standing| {
            *standing = Standing { member, share: WHOLE, active: 0, open: false };
            true
        });
    }

    /// These four say whether that changed anything.
    pub(super) fn set_weight(&mut self, index: usize, weight: u16) -> bool {
        self.change(index, |standing| {
            std::mem::replace(&mut standing.member.weight, weight) != weight
        })
    }

    pub(super) fn set_open(&mut self, index: usize, open: bool) -> bool {
        self.change(index, |standing| std::mem::replace(&mut standing.open, open) != open)
    }

    pub(super) fn set_share(&mut self, index: usize, share: u16) -> bool {
        assert!(share <= WHOLE, "a share of {share} parts is more than the whole");
        self.change(index, |standing| std::mem::replace(&mut standing.share, share) != share)
    }

    pub(super) fn set_active(&mut self, index: usize, active: u32) -> bool {
        self.change(index, |standing| std::mem::replace(&mut standing.active, active) != active)
    }

    fn change(&mut self, index: usize, set: impl Fn(&mut Standing) -> bool) -> bool {
        let before = self.part(index);
        let changed = set(&mut self.all[index]);
        let after = self.part(index);
        self.total.pull = self.total.pull + after.pull - before.pull;
        self.total.active = self.total.active + after.active - before.active;
        changed
    }

    /// What a member adds to the totals.
    fn part(&self, index: usize) -> Total {
        let pull = u64::from(self.pull(index));
        Total { pull, active: if pull > 0 { u64::from(self.active(index)) } else { 0 } }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn total(&self) -> Total {
        self.total
    }

    pub(super) fn identity(&self, index: usize) -> u64 {
        self.all[index].member.identity
    }

    pub(super) fn weight(&self, index: usize) -> u16 {
        self.all[index].member.weight
    }

    pub(super) fn share(&self, index: usize) -> u16 {
        self.all[index].share
    }

    pub(super) fn active(&self, index: usize) -> u32 {
        self.all[index].active
    }

    /// What counts of a member's weight now, in parts of [`WHOLE`]; 0 for one not to be chosen.
    pub(super) fn pull(&self, index: usize) -> u32 {
        let Standing { member, share, open, .. } = self.all[index];
        if open { u32::from(member.weight) * u32::from(share) } else { 0 }
    }

    /// Whether a member may be chosen.
    pub(super) fn is_open(&self, index: usize) -> bool {
        self.pull(index) > 0
    }

    /// The load of an open member with one more connection, over its weight. Equal fractions give
    /// equal numbers, and different ones differ as long as weights stay below 2^11; beyond 2^25
    /// connections all are alike.
    pub(super) fn load(&self, index: usize) -> Option<u64> {
        self.over_weight(index, u64::from(self.active(index)) + 1)
    }

    /// The same without a further connection.
    pub(super) fn load_now(&self, index: usize) -> Option<u64> {
        self.over_weight(index, u64::from(self.active(index)))
    }

    fn over_weight(&self, index: usize, connections: u64) -> Option<u64> {
        (connections.min(1 << 25) << 38).checked_div(u64::from(self.pull(index)))
    }
}
