//! Who has the smallest key: a tree of matches over all members.
//!
//! Every inner node holds the winner of the two below it, so a changed key replays one path to the
//! root and the overall winner is read off the top. Equal keys are won by the lower index.

/// A tournament among members with keys; a member without one takes no part.
#[derive(Debug, Clone)]
pub(super) struct Tournament<K> {
    keys: Vec<Option<K>>,
    /// Winners; the children of node `i` are `2i` and `2i + 1`, the members begin at the middle.
    nodes: Vec<u32>,
}

impl<K: Ord + Copy> Tournament<K> {
    /// A tournament without anybody.
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), nodes: vec![NOBODY; 2] }
    }

    /// Gives a member a key, or takes it out.
    #[expect(clippy::cast_possible_truncation, reason = "a pool has far fewer than 2^32 backends")]
    pub(super) fn set(&mut self, index: usize, key: Option<K>) {
        if index >= self.keys.len() {
            self.grow(index + 1);
        }
        self.keys[index] = key;
        let mut node = self.nodes.len() / 2 + index;
        self.nodes[node] = if key.is_some() { index as u32 } else { NOBODY };
        while node > 1 {
            node /= 2;
            self.play(node);
        }
    }

    /// The member with the smallest key, and the key.
    pub(super) fn first(&self) -> Option<(usize, K)> {
        let winner = self.nodes[1] as usize;
        self.keys.get(winner).copied().flatten().map(|key| (winner, key))
    }

    fn grow(&mut self, members: usize) {
        self.keys.resize(members, None);
        let width = members.next_power_of_two();
        if self.nodes.len() / 2 >= width {
            return;
        }
        let entries = self.nodes.split_off(self.nodes.len() / 2);
        self.nodes = vec![NOBODY; 2 * width];
        self.nodes[width..width + entries.len()].copy_from_slice(&entries);
        for node in (1..width).rev() {
            self.play(node);
        }
    }

    fn play(&mut self, node: usize) {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        let key = |member: u32| self.keys.get(member as usize).copied().flatten();
        let right_wins = match (key(left), key(right)) {
            (Some(left), Some(right)) => right < left,
            (None, Some(_)) => true,
            (Some(_) | None, None) => false,
        };
        self.nodes[node] = if right_wins { right } else { left };
    }
}

const NOBODY: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all(
            calls in prop::collection::vec((0usize..70, prop::option::of(0u8..20)), 1..300),
        ) {
            let mut tournament = Tournament::new();
            let mut model = [None; 70];
            for (index, key) in calls {
                tournament.set(index, key);
                model[index] = key;
                let least = model.iter().enumerate()
                    .filter_map(|(index, key)| key.map(|key| (key, index)))
                    .min();
                prop_assert_eq!(tournament.first(), least.map(|(key, index)| (index, key)));
            }
        }
    }
}
