//! Clients that wait for a backend: one line for each pool, first come, first served.
//!
//! A line waits either for a place, because every backend is at its limit, or for a backend,
//! because there is none. Which of the two is a fact about the pool, so it is kept once for all who
//! stand there, with the time of its last turn: when it turns, everybody's patience begins anew
//! (but nobody waits longer than for both together), and whoever was let in stays. As all in a line
//! have the same patience, the first in line is also the first to lose it: one deadline serves all.
//!
//! Who is called leaves the line for as long as the connect takes, and is then served, gone, or
//! back at the old place. How many are called at a time is a window: after an outage it begins at
//! one and grows with every success, so that a backend that comes back is not run over; a failure
//! shuts it to one, and nobody is called for a pause that doubles while failures go on.
//!
//! Who was connected to no purpose, and comes again, has its time go on: [`Room::backdate`].
//!
//! Every verb takes constant time, but for one who comes back: that looks at those who were on
//! their way with it.

mod line;

use std::time::Instant;

use slab::Slab;

pub use line::{Allowance, Terms, Want};
use line::{Line, WIDEST};

/// The lines of all pools. A client is known by a small number, its key.
#[derive(Debug, Default)]
pub struct Room {
    lines: Vec<Line>,
    seats: Slab<Seat>,
    /// Where each key has its seat.
    places: Vec<u32>,
    tickets: u64,
}

impl Room {
    /// Opens a line on these terms; its number is one more than the last one's.
    pub fn add_line(&mut self, terms: Terms) -> usize {
        self.lines.push(Line::new(terms));
        self.lines.len() - 1
    }

    /// Other terms hold in a line from now on, also for those who stand in it.
    pub fn set_terms(&mut self, line: usize, terms: Terms) {
        self.lines[line].terms = terms;
    }

    /// Begins a line anew in which nobody stands.
    ///
    /// # Panics
    /// If somebody stands there, or was called from it and is on the way.
    pub fn reset_line(&mut self, line: usize, terms: Terms) {
        let Line { standing, called, .. } = self.lines[line];
        assert!(standing + called == 0, "somebody would be lost");
        self.lines[line] = Line::new(terms);
    }

    /// Lets a client stand at the end of a line.
    ///
    /// # Errors
    /// When the terms do not let so many wait, or nobody at all.
    ///
    /// # Panics
    /// If it waits already.
    pub fn join(&mut self, line: usize, key: usize, want: Want, now: Instant) -> Result<(), Full> {
        assert!(self.seat_of(key).is_none(), "a client waits twice");
        let terms = &mut self.lines[line];
        let allowance = terms.terms.allowance(want).filter(|most| terms.standing < most.most);
        if allowance.is_none() {
            return Err(Full);
        }
        terms.turn(want, now);
        terms.waited += 1;
        let seat = Seat {
            key,
            line,
            ticket: self.tickets,
            joined: now,
            called: false,
            before: NOBODY,
            behind: NOBODY,
        };
        self.tickets += 1;
        let number = small(self.seats.insert(seat));
        if self.places.len() <= key {
            self.places.resize(key + 1, NOBODY);
        }
        self.places[key] = number;
        self.link(number, self.lines[line].last);
        Ok(())
    }

    /// The one whose turn it is to be connected; from now on it is not in line but on its way,
    /// until [`Self::served`], [`Self::put_back`] or [`Self::leave`].
    pub fn call(&mut self, line: usize, now: Instant) -> Option<usize> {
        if !self.lines[line].may_call(now) {
            return None;
        }
        let number = self.lines[line].first;
        self.unlink(number);
        self.lines[line].called += 1;
        let seat = &mut self.seats[number as usize];
        seat.called = true;
        Some(seat.key)
    }

    /// One who was called could not be helped: it is back at its old place.
    ///
    /// # Panics
    /// If it was not called.
    pub fn put_back(&mut self, key: usize, want: Want, now: Instant) {
        let number = self.seat_of(key).unwrap_or(NOBODY);
        assert!(self.is_called(key), "only who was called comes back");
        let seat = &mut self.seats[number as usize];
        seat.called = false;
        let line = seat.line;
        self.lines[line].called -= 1;
        self.lines[line].turn(want, now);
        self.link(number, self.place(number));
    }

    /// One who has just joined had come by `since`, and was only seemingly served meanwhile: it
    /// stands where that puts it, and its time does not begin anew.
    ///
    /// # Panics
    /// If it does not stand in line.
    pub fn backdate(&mut self, key: usize, since: Instant) {
        assert!(self.is_standing(key), "only who stands in line has a place there");
        let number = self.seat_of(key).unwrap_or(NOBODY);
        self.unlink(number);
        let seat = &mut self.seats[number as usize];
        seat.joined = seat.joined.min(since);
        let (line, joined) = (&mut self.lines[seat.line], seat.joined);
        if line.standing + line.called == 0
            && let Some(cause) = &mut line.cause
        {
            cause.since = cause.since.min(joined);
        }
        self.link(number, self.place(number));
    }

    /// A client was connected; whether it was called makes no difference to those who wait: they
    /// hear that it can be done.
    pub fn served(&mut self, line: usize, key: usize) {
        self.connected(line, key);
        self.lines[line].window = (self.lines[line].window + 1).min(WIDEST);
        self.encourage(line);
    }

    /// A client was connected to a backend that may not keep it: nobody else should hope.
    pub fn connected(&mut self, line: usize, key: usize) {
        if self.is_called(key) {
            self.lines[line].served += 1;
        }
        self.leave(key);
    }

    /// A client ended, waiting or not.
    pub fn leave(&mut self, key: usize) {
        let Some(number) = self.seat_of(key) else { return };
        let Seat { line, called, .. } = self.seats[number as usize];
        if called {
            self.lines[line].called -= 1;
        } else {
            self.unlink(number);
        }
        self.seats.remove(number as usize);
        self.places[key] = NOBODY;
        self.lines[line].settle();
    }

    /// Something became better: the next one may be called at once, whatever failed before.
    pub fn encourage(&mut self, line: usize) {
        self.lines[line].encourage();
    }

    /// It was tried to connect somebody, in vain: nobody is called for a while.
    pub fn discourage(&mut self, line: usize, now: Instant) {
        self.lines[line].discourage(now);
    }

    /// Somebody who has waited as long as the terms allow, for what; it has left the line.
    pub fn pop_expired(&mut self, now: Instant) -> Option<(usize, Want)> {
        if self.seats.is_empty() {
            return None;
        }
        let due = |line: &Line| self.deadline(line).is_some_and(|deadline| deadline <= now);
        let line = self.lines.iter().find(|line| due(line))?;
        let want = line.cause?.want;
        let key = self.seats[line.first as usize].key;
        self.leave(key);
        Some((key, want))
    }

    /// When there is something to do that nobody will bring up.
    #[must_use]
    pub fn next(&self, now: Instant) -> Option<Instant> {
        if self.seats.is_empty() {
            return None;
        }
        let moments = |line| [self.deadline(line), line.resumes(now)];
        self.lines.iter().flat_map(moments).flatten().min()
    }

    /// What those who stand in a line wait for, if there are any.
    #[must_use]
    pub fn want(&self, line: usize) -> Option<Want> {
        let line = &self.lines[line];
        line.cause.filter(|_| line.standing > 0).map(|cause| cause.want)
    }

    /// Whether a client stands in a line.
    #[must_use]
    pub fn is_standing(&self, key: usize) -> bool {
        self.seat_of(key).is_some_and(|number| !self.seats[number as usize].called)
    }

    /// Whether a client was called and is on its way.
    #[must_use]
    pub fn is_called(&self, key: usize) -> bool {
        self.seat_of(key).is_some_and(|number| self.seats[number as usize].called)
    }

    /// Whether somebody was called from a line and is on the way.
    #[must_use]
    pub fn has_called(&self, line: usize) -> bool {
        self.lines[line].called > 0
    }

    /// Whether nobody waits nor is on the way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The terms of a line.
    #[must_use]
    pub fn terms(&self, line: usize) -> Terms {
        self.lines[line].terms
    }

    /// What there is to tell of a line.
    #[must_use]
    pub fn census(&self, line: usize) -> Census {
        let Line { standing, waited, served, .. } = self.lines[line];
        Census { standing, waited, served }
    }

    /// When the first in a line has waited enough.
    fn deadline(&self, line: &Line) -> Option<Instant> {
        let cause = line.cause?;
        let first = self.seats.get(line.first as usize)?;
        let from_turn =
            line.terms.patience(cause.want).map(|time| first.joined.max(cause.since) + time);
        let from_begin = line.terms.longest().map(|time| first.joined + time);
        [from_turn, from_begin].into_iter().flatten().min()
    }

    fn seat_of(&self, key: usize) -> Option<u32> {
        self.places.get(key).copied().filter(|&number| number != NOBODY)
    }

    /// Behind whom a seat belongs. It is looked for from both ends: who was called belongs near the
    /// first, who never stood there near the last.
    fn place(&self, number: u32) -> u32 {
        let turn = |number: u32| {
            let seat = &self.seats[number as usize];
            (seat.joined, seat.ticket)
        };
        let (line, own) = (&self.lines[self.seats[number as usize].line], turn(number));
        let (mut behind, mut before) = (line.first, line.last);
        while before != NOBODY && turn(before) > own {
            if turn(behind) > own {
                return self.seats[behind as usize].before;
            }
            behind = self.seats[behind as usize].behind;
            before = self.seats[before as usize].before;
        }
        before
    }

    /// Puts a seat behind another one, or first.
    fn link(&mut self, number: u32, before: u32) {
        let line = &mut self.lines[self.seats[number as usize].line];
        line.standing += 1;
        let behind = match before {
            NOBODY => std::mem::replace(&mut line.first, number),
            before => std::mem::replace(&mut self.seats[before as usize].behind, number),
        };
        match behind {
            NOBODY => line.last = number,
            behind => self.seats[behind as usize].before = number,
        }
        let seat = &mut self.seats[number as usize];
        (seat.before, seat.behind) = (before, behind);
    }

    fn unlink(&mut self, number: u32) {
        let Seat { before, behind, line, .. } = self.seats[number as usize];
        let line = &mut self.lines[line];
        line.standing -= 1;
        match before {
            NOBODY => line.first = behind,
            before => self.seats[before as usize].behind = behind,
        }
        match behind {
            NOBODY => line.last = before,
            behind => self.seats[behind as usize].before = before,
        }
    }
}

/// Nobody more may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// How a line fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Waiting now.
    pub standing: usize,
    /// Ever let into the line.
    pub waited: u64,
    /// Of these, connected.
    pub served: u64,
}

#[derive(Debug)]
struct Seat {
    key: usize,
    line: usize,
    /// The order of the line, and among those of one moment a number that grows with every client.
    joined: Instant,
    ticket: u64,
    called: bool,
    before: u32,
    behind: u32,
}

#[expect(clippy::cast_possible_truncation, reason = "bounded by the connections")]
fn small(number: usize) -> u32 {
    assert!(number < NOBODY as usize, "seats are dense and few");
    number as u32
}

const NOBODY: u32 = u32::MAX;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::line::{FIRST_PAUSE, LONGEST_PAUSE};
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const PLACE: Allowance = Allowance { most: 3, time: Some(Duration::from_secs(5)) };
    const BACKEND: Allowance = Allowance { most: 4, time: Some(Duration::from_secs(30)) };
    const HOLDING: Terms = Terms { place: PLACE, backend: Some(BACKEND) };

    fn room(terms: Terms) -> (Room, Instant) {
        let mut room = Room::default();
        assert_eq!(room.add_line(terms), 0);
        (room, Instant::now())
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// What happens to a line, with a key where it is about one client.
    #[derive(Debug, Clone)]
    enum Act {
        Join(usize, bool),
        Call,
        Served(usize),
        Connected(usize),
        PutBack(usize, bool),
        /// Joins, having come so long ago.
        ComeBack(usize, bool, u64),
        Leave(usize),
        Encourage,
        Discourage,
        Sleep(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        let key = 0usize..8;
        prop_oneof![
            4 => (key.clone(), any::<bool>()).prop_map(|(key, place)| Act::Join(key, place)),
            4 => Just(Act::Call),
            1 => key.clone().prop_map(Act::Served),
            1 => key.clone().prop_map(Act::Connected),
            2 => (key.clone(), any::<bool>()).prop_map(|(key, place)| Act::PutBack(key, place)),
            2 => (key.clone(), any::<bool>(), 0u64..4000)
                .prop_map(|(key, place, ago)| Act::ComeBack(key, place, ago)),
            1 => key.prop_map(Act::Leave),
            1 => Just(Act::Encourage),
            1 => Just(Act::Discourage),
            2 => (0u64..4000).prop_map(Act::Sleep),
        ]
    }

    fn want(place: bool) -> Want {
        if place { Want::Place } else { Want::Backend }
    }

    /// The rules in the plainest words: everybody in one list, with what each is doing.
    #[derive(Debug, Default)]
    struct Model {
        /// Key, since when, whether called; in the order of joining.
        people: Vec<(usize, Instant, bool)>,
        cause: Option<(Want, Instant)>,
        window: usize,
        pause: Option<(Instant, Duration)>,
    }

    impl Model {
        fn standing(&self) -> usize {
            self.people.iter().filter(|(_, _, called)| !called).count()
        }

        fn turn(&mut self, to: Want, now: Instant) {
            if self.cause.is_none_or(|(from, _)| from != to) {
                self.cause = Some((to, now));
                if to == Want::Place {
                    self.pause = None;
                } else {
                    self.window = 1;
                }
            }
        }

        fn knows(&self, key: usize) -> bool {
            self.people.iter().any(|person| person.0 == key)
        }

        fn remove(&mut self, key: usize) {
            self.people.retain(|person| person.0 != key);
            if self.people.is_empty() {
                *self = Self { window: WIDEST, ..Self::default() };
            }
        }

        fn called(&self) -> usize {
            self.people.len() - self.standing()
        }

        /// Those who stand there, the first one first.
        fn line(&self) -> Vec<(usize, Instant)> {
            let standing = self.people.iter().filter(|(_, _, called)| !called);
            let mut line: Vec<(usize, Instant)> = standing.map(|&(key, at, _)| (key, at)).collect();
            line.sort_by_key(|(_, at)| *at);
            line
        }

        fn next_called(&self, now: Instant) -> Option<usize> {
            let open =
                self.called() < self.window && self.pause.is_none_or(|(until, _)| until <= now);
            self.line().first().filter(|_| open).map(|person| person.0)
        }

        fn deadlines(&self) -> Vec<(usize, Instant)> {
            let Some((want, since)) = self.cause else { return Vec::new() };
            let time = if want == Want::Place { seconds(5) } else { seconds(30) };
            let due = |at: Instant| (at.max(since) + time).min(at + seconds(35));
            self.line().into_iter().map(|(key, at)| (key, due(at))).collect()
        }
    }

    proptest! {
        #[test]
        fn the_line_does_what_a_plain_list_does(acts in prop::collection::vec(act(), 1..120)) {
            let (mut room, mut now) = room(HOLDING);
            let mut model = Model { window: WIDEST, ..Model::default() };
            for act in acts {
                match act {
                    Act::Join(key, _) | Act::ComeBack(key, _, _) if model.knows(key) => {}
                    Act::Join(key, place) => {
                        let most = if place { PLACE.most } else { BACKEND.most };
                        let welcome = model.standing() < most;
                        prop_assert_eq!(room.join(0, key, want(place), now).is_ok(), welcome);
                        if welcome {
                            model.people.push((key, now, false));
                            model.turn(want(place), now);
                        }
                    }
                    Act::ComeBack(key, place, ago) => {
                        if room.join(0, key, want(place), now).is_err() {
                            continue;
                        }
                        let came = now - Duration::from_millis(ago);
                        room.backdate(key, came);
                        model.people.push((key, came, false));
                        model.turn(want(place), now);
                        if model.people.len() == 1 {
                            model.cause = Some((want(place), came));
                        }
                    }
                    Act::Call => {
                        let expected = model.next_called(now);
                        prop_assert_eq!(room.call(0, now), expected);
                        let mut people = model.people.iter_mut();
                        let called = people.find(|person| Some(person.0) == expected);
                        called.into_iter().for_each(|person| person.2 = true);
                    }
                    Act::Served(key) => {
                        room.served(0, key);
                        model.remove(key);
                        model.window = (model.window + 1).min(WIDEST).max(model.called() + 1);
                        model.pause = None;
                    }
                    Act::Connected(key) => {
                        room.connected(0, key);
                        model.remove(key);
                    }
                    Act::PutBack(key, place) => {
                        let mut people = model.people.iter_mut();
                        if let Some(person) = people.find(|person| person.0 == key && person.2) {
                            person.2 = false;
                            room.put_back(key, want(place), now);
                            model.turn(want(place), now);
                        }
                    }
                    Act::Leave(key) => {
                        room.leave(key);
                        model.remove(key);
                    }
                    Act::Encourage => {
                        room.encourage(0);
                        model.window = model.window.max(model.called() + 1).min(WIDEST);
                        model.pause = None;
                    }
                    Act::Discourage => {
                        room.discourage(0, now);
                        if model.people.is_empty() {
                            continue;
                        }
                        model.window = 1;
                        if model.pause.is_none_or(|(until, _)| until <= now) {
                            let length = model.pause.map_or(FIRST_PAUSE, |(_, last)| last * 2);
                            let length = length.min(LONGEST_PAUSE);
                            model.pause = Some((now + length, length));
                        }
                    }
                    Act::Sleep(millis) => now += Duration::from_millis(millis),
                }
                while let Some((key, want)) = room.pop_expired(now) {
                    let first = model.deadlines()[0];
                    prop_assert!(first.0 == key && first.1 <= now, "{first:?} and not {key}");
                    prop_assert_eq!(model.cause.map(|cause| cause.0), Some(want));
                    model.remove(key);
                }
                let deadlines = model.deadlines();
                prop_assert!(deadlines.iter().all(|(_, deadline)| *deadline > now));
                let pause = model.pause.map(|(until, _)| until);
                let pause = pause.filter(|&until| until > now && !model.people.is_empty());
                let next = deadlines.iter().map(|(_, deadline)| *deadline).chain(pause).min();
                prop_assert_eq!(room.next(now), next);
                prop_assert_eq!(room.census(0).standing, model.standing());
                let want = model.cause.map(|cause| cause.0).filter(|_| model.standing() > 0);
                prop_assert_eq!(room.want(0), want);
                prop_assert_eq!(room.is_empty(), model.people.is_empty());
            }
        }
    }

    #[test]
    fn without_hold_nobody_waits_for_a_backend_and_who_waits_for_a_place_goes() {
        let (mut room, now) = room(Terms { place: PLACE, backend: None });
        assert_eq!(room.join(0, 7, Want::Backend, now), Err(Full));
        room.join(0, 7, Want::Place, now).unwrap();
        room.join(0, 8, Want::Place, now).unwrap();
        assert_eq!(room.call(0, now), Some(7));
        room.put_back(7, Want::Backend, now);
        let mut gone = || room.pop_expired(now).map(|(key, _)| key);
        assert_eq!((gone(), gone(), gone()), (Some(7), Some(8), None));
    }

    #[test]
    fn nothing_allowed_is_nothing_let_in() {
        let place = Allowance { most: 0, ..PLACE };
        let (mut room, now) = room(Terms { place, backend: Some(BACKEND) });
        assert_eq!(room.join(0, 1, Want::Place, now), Err(Full));
        room.join(0, 1, Want::Backend, now).unwrap();
        assert_eq!(room.call(0, now), Some(1));
        room.put_back(1, Want::Place, now);
        assert!(room.is_standing(1), "who was let in stays");
    }

    #[test]
    fn after_an_outage_they_are_called_in_growing_numbers() {
        let terms = Allowance { most: 1000, time: None };
        let (mut room, now) = room(Terms { place: PLACE, backend: Some(terms) });
        (0..500).for_each(|key| room.join(0, key, Want::Backend, now).unwrap());
        let mut waves = Vec::new();
        while !room.is_empty() {
            let wave: Vec<usize> = std::iter::from_fn(|| room.call(0, now)).collect();
            wave.iter().for_each(|&key| room.served(0, key));
            waves.push(wave.len());
        }
        assert_eq!(waves, [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64, 53]);
    }

    #[test]
    fn lines_do_not_mix() {
        let (mut room, now) = room(HOLDING);
        let other = room.add_line(Terms { place: PLACE, backend: None });
        room.join(0, 1, Want::Backend, now).unwrap();
        room.join(other, 2, Want::Place, now).unwrap();
        assert_eq!((room.want(0), room.want(other)), (Some(Want::Backend), Some(Want::Place)));
        assert_eq!(room.pop_expired(now + seconds(5)), Some((2, Want::Place)));
        assert_eq!(room.call(0, now), Some(1));
        assert_eq!(room.next(now), None);
    }
}
