//! Deadlines of many things that are numbered densely: at most one entry per key.
//!
//! An entry is a hint. Its owner keeps the true deadline and moves it later without a word; the
//! entry then fires too early, the owner compares and arms it again. Only an earlier deadline
//! touches the heap. That makes progress on a connection free, and because a key's entry outlives
//! its owner and serves the next one under the same key, the heap never holds more entries than
//! there were keys at once, however fast connections come and go.

use std::time::Instant;

/// A heap of deadlines with the position of every key, so that one can be moved.
#[derive(Debug, Default)]
pub struct Timers {
    heap: Vec<Entry>,
    places: Vec<u32>,
}

impl Timers {
    /// Makes sure that `key` fires at `deadline` at the latest.
    pub fn arm(&mut self, key: usize, deadline: Instant) {
        match self.place(key) {
            Some(place) if self.heap[place].deadline <= deadline => {}
            Some(place) => {
                self.heap[place].deadline = deadline;
                self.rise(place);
            }
            None => self.insert(key, deadline),
        }
    }

    /// Moves the entry of `key`, if there is one, to `deadline`, be that earlier or later. Worth
    /// its price where an entry is known to be far too early: one that fires finds its owner out
    /// of every cache.
    pub fn move_to(&mut self, key: usize, deadline: Instant) {
        let Some(place) = self.place(key) else { return };
        let is_later = self.heap[place].deadline < deadline;
        self.heap[place].deadline = deadline;
        if is_later {
            self.sink(place);
        } else {
            self.rise(place);
        }
    }

    /// Takes out one key whose entry is due at `now`. Its owner compares with the true deadline.
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        if self.heap.first()?.deadline > now {
            return None;
        }
        let entry = self.heap.swap_remove(0);
        self.places[entry.key as usize] = NOWHERE;
        if let Some(moved) = self.heap.first() {
            self.places[moved.key as usize] = 0;
            self.sink(0);
        }
        Some(entry.key as usize)
    }

    /// When the first entry fires.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    #[expect(clippy::cast_possible_truncation, reason = "keys are slab slots, bounded far below")]
    fn insert(&mut self, key: usize, deadline: Instant) {
        assert!(key < NOWHERE as usize, "keys are dense and small");
        if self.places.len() <= key {
            self.places.resize(key + 1, NOWHERE);
        }
        let place = self.heap.len();
        self.heap.push(Entry { deadline, key: key as u32 });
        self.places[key] = place as u32;
        self.rise(place);
    }

    fn place(&self, key: usize) -> Option<usize> {
        let place = *self.places.get(key)?;
        (place != NOWHERE).then_some(place as usize)
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent].deadline <= self.heap[place].deadline {
                return;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child].deadline) else {
                return;
            };
            if self.heap[place].deadline <= self.heap[least].deadline {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "places are bounded by the keys")]
    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].key as usize] = a as u32;
        self.places[self.heap[b].key as usize] = b as u32;
    }
}

#[derive(Debug)]
struct Entry {
    deadline: Instant,
    key: u32,
}

/// Children per node: four share a cache line or two, and halve the depth.
const ARITY: usize = 4;
const NOWHERE: u32 = u32::MAX;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::time::Duration;

    proptest! {
        #[test]
        fn fires_like_a_map_of_earliest_deadlines(
            steps in prop::collection::vec((0usize..40, 0u64..1000, 0u8..4), 1..400),
        ) {
            let base = Instant::now();
            let mut timers = Timers::default();
            let mut model: HashMap<usize, Instant> = HashMap::new();
            for (key, millis, kind) in steps {
                let at = base + Duration::from_millis(millis);
                if kind == 0 {
                    while let Some(fired) = timers.pop_due(at) {
                        let deadline = model.remove(&fired);
                        prop_assert!(deadline.is_some_and(|deadline| deadline <= at));
                    }
                    prop_assert!(model.values().all(|&deadline| deadline > at));
                } else if kind == 1 {
                    timers.move_to(key, at);
                    model.entry(key).and_modify(|entry| *entry = at);
                } else {
                    timers.arm(key, at);
                    let entry = model.entry(key).or_insert(at);
                    *entry = (*entry).min(at);
                }
                prop_assert_eq!(timers.next(), model.values().min().copied());
                prop_assert_eq!(timers.len(), model.len());
            }
        }
    }

    #[test]
    fn a_later_deadline_does_not_touch_the_entry() {
        let base = Instant::now();
        let mut timers = Timers::default();
        timers.arm(3, base);
        timers.arm(3, base + Duration::from_secs(9));
        assert_eq!((timers.next(), timers.len()), (Some(base), 1));
        assert_eq!(timers.pop_due(base), Some(3));
        assert!(timers.is_empty());
    }
}
