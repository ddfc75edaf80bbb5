//! Who may be chosen now, kept as facts change and never searched for.
//!
//! Every backend has a rank: primaries serve; backups while no primary can; those that are ejected
//! while nobody else can, because a soft verdict must not leave clients with nobody. The best rank
//! that anyone holds is the one that serves. In it, whoever is below its cap is open, and only the
//! open ones does the picker know as such. Ranks and open ones are counted, so whether anyone could
//! serve is known without a look at the backends. Only a change of the serving rank walks over all.

use std::time::{Duration, Instant};

use super::Picked;
use super::picker::{Measure, Member, PickKey, Picker, Policy, WHOLE};

/// The seats of a pool's backends, by index, and the picker that knows the open ones.
#[derive(Debug, Clone)]
pub(super) struct Roster {
    picker: Picker,
    seats: Vec<Seat>,
    ranks: [usize; RANKS],
    serving: Rank,
    open: usize,
    /// Where the search among those that do not serve begins.
    after: usize,
}

impl Roster {
    /// A roster on which nobody has a rank yet.
    pub(super) fn new(policy: Policy, members: &[Member], seed: u64) -> Self {
        let mut picker = Picker::new(policy, members, seed);
        for index in 0..members.len() {
            picker.set_open(index, false);
        }
        Self {
            picker,
            seats: members.iter().map(|_| Seat::default()).collect(),
            ranks: [0; RANKS],
            serving: Rank::Primary,
            open: 0,
            after: 0,
        }
    }

    /// Gives a new member the next index, or the one at `vacant`, whose member is gone.
    pub(super) fn add(&mut self, member: Member, vacant: Option<usize>) -> usize {
        match vacant {
            Some(index) => {
                self.place(index, Place::default());
                self.seats[index].active = 0;
                self.picker.replace(index, member);
                index
            }
            None => {
                let index = self.picker.add(member);
                self.picker.set_open(index, false);
                self.seats.push(Seat::default());
                index
            }
        }
    }

    /// The list of backends has this order from now on, those that are gone left out.
    pub(super) fn arrange(&mut self, order: &[usize]) {
        self.picker.arrange(order);
    }

    /// Chooses in another way from now on, among the same members.
    pub(super) fn choose_by(&mut self, policy: Policy, members: &[Member], seed: u64) {
        self.picker = Picker::new(policy, members, seed);
        for (index, seat) in self.seats.iter().enumerate() {
            self.picker.set_open(index, seat.open);
            self.picker.set_share(index, seat.place.share);
            self.picker.set_active(index, seat.active);
        }
    }

    /// A backend has this place from now on.
    pub(super) fn place(&mut self, index: usize, place: Place) {
        let before = std::mem::replace(&mut self.seats[index].place, place);
        if before.share != place.share {
            self.picker.set_share(index, place.share);
        }
        if before.rank == place.rank {
            self.settle(index);
            return;
        }
        self.count(before.rank, |count| count - 1);
        self.count(place.rank, |count| count + 1);
        let serving = self.best_rank();
        if std::mem::replace(&mut self.serving, serving) == serving {
            self.settle(index);
        } else {
            (0..self.seats.len()).for_each(|index| self.settle(index));
        }
    }

    /// A backend has so many connections now.
    pub(super) fn set_active(&mut self, index: usize, active: u32) {
        self.seats[index].active = active;
        self.picker.set_active(index, active);
        self.settle(index);
    }

    /// A backend has this weight from now on. Whether it may be chosen is said by its place.
    pub(super) fn set_weight(&mut self, index: usize, weight: u16) {
        self.picker.set_weight(index, weight);
    }

    /// A connect to a backend, or its first byte, took so long.
    pub(super) fn sample(&mut self, index: usize, took: Duration, now: Instant) {
        self.picker.sample(index, took, now);
    }

    /// Whose turn it is, those in `tried` left out.
    pub(super) fn pick(&mut self, key: PickKey, now: Instant, tried: &[usize]) -> Picked {
        if let Some(index) = self.picker.pick(key, now, tried) {
            return Picked::Backend(index);
        }
        let mut rank = Some(self.serving);
        while let Some(searched) = rank {
            let others = self.ranks[searched as usize];
            let used_up = tried.iter().filter(|&&index| self.rank(index) == Some(searched)).count();
            if others > used_up {
                return self.search(searched, tried);
            }
            rank = searched.next();
        }
        Picked::Nobody
    }

    /// Whether somebody serves and is below its cap.
    pub(super) fn has_place(&self) -> bool {
        self.open > 0
    }

    /// Whether anyone could be chosen, caps aside.
    pub(super) fn is_available(&self) -> bool {
        self.ranks.iter().any(|&count| count > 0)
    }

    /// Who serves; `None` while nobody can.
    pub(super) fn serving(&self) -> Option<Rank> {
        self.is_available().then_some(self.serving)
    }

    /// Whether another backend than this one is there to serve, ejected ones aside.
    pub(super) fn has_others(&self, index: usize) -> bool {
        let itself = usize::from(self.rank(index).is_some_and(Rank::is_eligible));
        self.ranks[Rank::Primary as usize] + self.ranks[Rank::Backup as usize] > itself
    }

    pub(super) fn rank(&self, index: usize) -> Option<Rank> {
        self.seats[index].place.rank
    }

    pub(super) fn share(&self, index: usize) -> u16 {
        self.seats[index].place.share
    }

    pub(super) fn cap(&self, index: usize) -> Option<u32> {
        self.seats[index].place.cap
    }

    /// Whether a backend is among those that may be chosen.
    pub(super) fn is_open(&self, index: usize) -> bool {
        self.seats[index].open
    }

    /// How many may be chosen.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The best rank that anyone holds.
    pub(super) fn best(&self) -> Rank {
        self.serving
    }

    pub(super) fn measure(&self, index: usize, key: PickKey, now: Instant) -> Measure {
        self.picker.measure(index, key, now)
    }

    pub(super) fn identity(&self, index: usize) -> u64 {
        self.picker.identity(index)
    }

    /// One of a rank that is not tried and below its cap: who has the fewest connections, in turn
    /// among equals. Only for a client who has tried all that serve, so it may look at all.
    fn search(&mut self, rank: Rank, tried: &[usize]) -> Picked {
        let (count, first) = (self.seats.len(), self.after);
        let candidates = (first..count).chain(0..first).filter(|index| {
            let seat = &self.seats[*index];
            seat.place.rank == Some(rank) && !seat.is_full() && !tried.contains(index)
        });
        let Some(index) = candidates.min_by_key(|&index| self.seats[index].active) else {
            return Picked::Full;
        };
        self.after = index + 1;
        Picked::Backend(index)
    }

    /// Tells the picker if a backend is open that was not, or the other way round.
    fn settle(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        let open = seat.place.rank == Some(self.serving) && !seat.is_full();
        if open != std::mem::replace(&mut seat.open, open) {
            self.picker.set_open(index, open);
            self.open = if open { self.open + 1 } else { self.open - 1 };
        }
    }

    fn count(&mut self, rank: Option<Rank>, change: impl Fn(usize) -> usize) {
        if let Some(rank) = rank {
            let count = &mut self.ranks[rank as usize];
            *count = change(*count);
        }
    }

    fn best_rank(&self) -> Rank {
        let mut rank = Rank::Primary;
        while self.ranks[rank as usize] == 0
            && let Some(next) = rank.next()
        {
            rank = next;
        }
        rank
    }
}

/// What a backend's facts come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// `None`: it takes nothing new.
    pub(super) rank: Option<Rank>,
    /// Of its weight, in parts of [`WHOLE`].
    pub(super) share: u16,
    /// Connections at one time.
    pub(super) cap: Option<u32>,
}

impl Default for Place {
    fn default() -> Self {
        Self { rank: None, share: WHOLE, cap: None }
    }
}

/// Who comes before whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// An ordinary backend.
    Primary,
    /// A backup.
    Backup,
    /// Either, left alone because real traffic failed.
    Ejected,
}

impl Rank {
    fn next(self) -> Option<Self> {
        match self {
            Self::Primary => Some(Self::Backup),
            Self::Backup => Some(Self::Ejected),
            Self::Ejected => None,
        }
    }

    fn is_eligible(self) -> bool {
        match self {
            Self::Primary | Self::Backup => true,
            Self::Ejected => false,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Seat {
    place: Place,
    active: u32,
    open: bool,
}

impl Seat {
    fn is_full(&self) -> bool {
        self.place.cap.is_some_and(|cap| self.active >= cap)
    }
}

const RANKS: usize = 3;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOBODY: Place = Place { rank: None, share: WHOLE, cap: None };

    fn roster(policy: Policy, size: usize) -> Roster {
        let members: Vec<Member> = (0..size).map(|i| Member::new(&format!("b{i}"), 1)).collect();
        Roster::new(policy, &members, 7)
    }

    fn held(rank: Rank) -> Place {
        Place { rank: Some(rank), ..NOBODY }
    }

    /// What may be picked, worked out from scratch.
    fn expected(places: &[Place], active: &[u32], tried: &[usize]) -> Result<Vec<usize>, Picked> {
        for rank in [Rank::Primary, Rank::Backup, Rank::Ejected] {
            let holds = |i: &usize| places[*i].rank == Some(rank);
            let left: Vec<usize> =
                (0..places.len()).filter(holds).filter(|i| !tried.contains(i)).collect();
            if left.is_empty() {
                continue;
            }
            let below = |i: &usize| places[*i].cap.is_none_or(|cap| active[*i] < cap);
            let open: Vec<usize> = left.into_iter().filter(below).collect();
            return if open.is_empty() { Err(Picked::Full) } else { Ok(open) };
        }
        Err(Picked::Nobody)
    }

    #[test]
    fn those_that_do_not_serve_take_turns_with_who_has_tried_the_others() {
        let now = Instant::now();
        let mut roster = roster(Policy::RoundRobin, 3);
        roster.place(0, held(Rank::Primary));
        roster.place(1, held(Rank::Backup));
        roster.place(2, held(Rank::Backup));
        let mut pick = || roster.pick(PickKey::LOCAL, now, &[0]);
        assert_eq!([pick(), pick(), pick()], [1, 2, 1].map(Picked::Backend));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Place(usize, Option<u8>, u16, Option<u32>),
        Active(usize, u32),
        Pick(Vec<usize>),
    }

    fn event() -> impl Strategy<Value = Event> {
        let cap = prop::option::of(1u32..4);
        let rank = prop::option::of(0u8..3);
        prop_oneof![
            (0usize..6, rank, 1u16..=WHOLE, cap)
                .prop_map(|(index, rank, share, cap)| Event::Place(index, rank, share, cap)),
            (0usize..6, 0u32..5).prop_map(|(index, active)| Event::Active(index, active)),
            prop::collection::hash_set(0usize..6, 0..4)
                .prop_map(|tried| Event::Pick(tried.into_iter().collect())),
        ]
    }

    proptest! {
        /// After any events, what is picked and what is counted is what the facts say.
        #[test]
        fn it_never_differs_from_a_fresh_look(
            events in prop::collection::vec(event(), 1..120),
            least in any::<bool>(),
        ) {
            let now = Instant::now();
            let policy = if least { Policy::LeastConnections } else { Policy::RoundRobin };
            let mut roster = roster(policy, 6);
            let (mut places, mut active) = (vec![NOBODY; 6], vec![0; 6]);
            for event in events {
                match event {
                    Event::Place(index, rank, share, cap) => {
                        let ranks = [Rank::Primary, Rank::Backup, Rank::Ejected];
                        let rank = rank.map(|rank| ranks[usize::from(rank)]);
                        places[index] = Place { rank, share, cap };
                        roster.place(index, places[index]);
                    }
                    Event::Active(index, count) => {
                        active[index] = count;
                        roster.set_active(index, count);
                    }
                    Event::Pick(tried) => {
                        let allowed = expected(&places, &active, &tried);
                        match (roster.pick(PickKey::LOCAL, now, &tried), allowed) {
                            (Picked::Backend(index), Ok(open)) => {
                                prop_assert!(open.contains(&index), "{index} of {open:?}");
                            }
                            (picked, Err(none)) => prop_assert_eq!(picked, none),
                            (picked, Ok(open)) => prop_assert!(false, "{picked:?} of {open:?}"),
                        }
                    }
                }
                let ranked = places.iter().any(|place| place.rank.is_some());
                prop_assert_eq!(roster.is_available(), ranked);
                prop_assert_eq!(roster.has_place(), expected(&places, &active, &[]).is_ok());
                let eligible = |i: usize| places[i].rank.is_some_and(Rank::is_eligible);
                let others = |i: usize| (0..6).any(|other| other != i && eligible(other));
                prop_assert!((0..6).all(|i| roster.has_others(i) == others(i)));
            }
        }
    }
}
