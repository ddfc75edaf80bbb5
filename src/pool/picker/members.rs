//! What a picker was told: each member's weight, share, connections, and whether it is open.

use super::{Member, WHOLE};

/// All members, by index.
#[derive(Debug)]
pub(super) struct Members {
    all: Vec<Standing>,
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
        let mut new = Self { all: Vec::with_capacity(members.len()) };
        for &member in members {
            new.add(member);
        }
        new
    }

    pub(super) fn add(&mut self, member: Member) -> usize {
        self.all.push(Standing { member, share: WHOLE, active: 0, open: true });
        self.all.len() - 1
    }

    /// These four say whether that changed anything.
    pub(super) fn set_weight(&mut self, index: usize, weight: u16) -> bool {
        std::mem::replace(&mut self.all[index].member.weight, weight) != weight
    }

    pub(super) fn set_open(&mut self, index: usize, open: bool) -> bool {
        std::mem::replace(&mut self.all[index].open, open) != open
    }

    pub(super) fn set_share(&mut self, index: usize, share: u16) -> bool {
        assert!(share <= WHOLE, "a share of {share} parts is more than the whole");
        std::mem::replace(&mut self.all[index].share, share) != share
    }

    pub(super) fn set_active(&mut self, index: usize, active: u32) -> bool {
        std::mem::replace(&mut self.all[index].active, active) != active
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
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
}
