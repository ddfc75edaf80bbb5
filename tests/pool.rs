//! The control plane against a naive model: after any sequence of events, who may be chosen is what
//! a fresh look at all facts says. And the stories that the model does not tell: a slow start, an
//! agent, an operator, silence, flaps.

#![expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

use std::time::{Duration, Instant};

use evenkeel::pool::admin::{Admin, Author};
use evenkeel::pool::agent::Report;
use evenkeel::pool::backend::{Backend, BackendState, Target};
use evenkeel::pool::damping::STABLE;
use evenkeel::pool::health::{self, Thresholds};
use evenkeel::pool::picker::{PickKey, Policy};
use evenkeel::pool::terms::Terms;
use evenkeel::pool::{Change, Picked, Pool};
use proptest::prelude::*;

const DRAINED: Change = Change::Wanted(Admin::Draining, Author::Agent);
const SECOND: Duration = Duration::from_secs(1);

fn terms(policy: Policy) -> Terms {
    Terms { policy, seed: 7, ..Terms::new("web") }
}

/// A pool of backends that are up and have an address.
fn pool(terms: Terms, backends: Vec<Backend>, now: Instant) -> Pool {
    let count = backends.len();
    let mut pool = Pool::new(terms, backends, now);
    for index in 0..count {
        pool.relocate(index, vec![Target::Unix(format!("/run/{index}").into())], now);
    }
    pool
}

fn backend(index: usize) -> Backend {
    Backend::new(format!("b{index}"), 1, health::UP)
}

fn report(line: &str) -> Report {
    Report::parse(line.as_bytes()).unwrap()
}

fn probe(pool: &mut Pool, backend: usize, passed: bool, now: Instant) -> Option<Change> {
    let attempt = pool.backend(backend).first_attempt();
    pool.observe(backend, passed.then_some(attempt), now)
}

fn connected(pool: &mut Pool, backend: usize, now: Instant) -> Option<Change> {
    let attempt = pool.backend(backend).first_attempt();
    pool.connected(backend, attempt, Duration::ZERO, now)
}

/// Picks and opens so many connections; how many each backend got.
fn serve(pool: &mut Pool, count: usize, now: Instant) -> Vec<usize> {
    let mut served = vec![0; pool.backends().count()];
    for _ in 0..count {
        if let Picked::Backend(index) = pool.pick(PickKey::LOCAL, now, &[]) {
            pool.opened(index);
            served[index] += 1;
        }
    }
    served
}

#[derive(Debug, Clone)]
enum Event {
    Probe(usize, bool),
    ConnectFailed(usize),
    Connected(usize),
    Silent(usize),
    FirstByte(usize),
    Reset(usize),
    Served(usize, u64),
    Agent(usize, &'static str),
    Want(usize, Admin),
    Weigh(usize, u16),
    Locate(usize),
    Pick(Vec<usize>),
    Close(usize),
    Wait(u64),
    Remove(usize),
    /// One that was removed comes back, or another one in its place if nothing is left of it.
    Return(usize),
    Policy(Policy),
}

const SIZE: usize = 5;

fn event() -> impl Strategy<Value = Event> {
    let index = 0..SIZE;
    let lines = ["up", "down", "0%", "60%", "100%", "drain", "maint", "ready", "maxconn:1 up"];
    let admins = [Admin::Ready, Admin::Draining, Admin::Maintenance];
    prop_oneof![
        3 => (index.clone(), any::<bool>()).prop_map(|(i, passed)| Event::Probe(i, passed)),
        3 => index.clone().prop_map(Event::ConnectFailed),
        1 => index.clone().prop_map(Event::Connected),
        2 => index.clone().prop_map(Event::Silent),
        1 => index.clone().prop_map(Event::FirstByte),
        3 => index.clone().prop_map(Event::Reset),
        1 => (index.clone(), 0u64..20_000).prop_map(|(i, ago)| Event::Served(i, ago)),
        1 => (index.clone(), prop::sample::select(lines.to_vec()))
            .prop_map(|(i, line)| Event::Agent(i, line)),
        1 => (index.clone(), prop::sample::select(admins.to_vec()))
            .prop_map(|(i, admin)| Event::Want(i, admin)),
        1 => (index.clone(), 0u16..4).prop_map(|(i, weight)| Event::Weigh(i, weight)),
        1 => index.clone().prop_map(Event::Locate),
        8 => prop::collection::hash_set(index.clone(), 0..SIZE)
            .prop_map(|tried| Event::Pick(tried.into_iter().collect())),
        3 => index.clone().prop_map(Event::Close),
        1 => index.clone().prop_map(Event::Remove),
        1 => index.prop_map(Event::Return),
        1 => policies().prop_map(Event::Policy),
        2 => (0u64..40_000).prop_map(Event::Wait),
    ]
}

/// What is known of one backend, kept beside the pool.
#[derive(Debug, Clone)]
struct Facts {
    weight: u16,
    backup: bool,
    most: Option<u32>,
    located: bool,
    wanted: Admin,
    agent: Report,
    active: u32,
    removed: bool,
}

impl Facts {
    fn hear(&mut self, report: &Report) {
        self.agent.percent = report.percent.or(self.agent.percent);
        self.agent.most = report.most.or(self.agent.most);
        self.agent.service = report.service.or(self.agent.service);
        self.agent.admin = report.admin.or(self.agent.admin);
    }

    fn is_usable(&self, health: health::Health) -> bool {
        let ready = |admin| admin == Admin::Ready;
        self.weight > 0
            && !self.removed
            && self.located
            && health.is_usable()
            && self.agent.percent != Some(0)
            && self.agent.service.is_none_or(|word| word.to_string() == "up")
            && ready(self.wanted)
            && self.agent.admin.is_none_or(ready)
    }

    fn is_full(&self) -> bool {
        self.agent.most.or(self.most).is_some_and(|most| self.active >= most)
    }
}

fn is_up(health: health::Health) -> bool {
    matches!(health, health::Health::Up { .. })
}

/// What resets are held against one backend.
#[derive(Debug, Clone, Default)]
struct Resets {
    failures: u32,
    until: Option<Instant>,
}

impl Resets {
    fn served(&mut self, since: Instant) {
        if self.until.is_none_or(|until| until <= since) {
            *self = Self::default();
        }
    }
}

/// What a pick may answer, worked out from scratch.
fn expected(pool: &Pool, facts: &[Facts], tried: &[usize], now: Instant) -> Vec<Picked> {
    let rank = |index: usize| {
        let fact = &facts[index];
        if !fact.is_usable(pool.health(index)) {
            return None;
        }
        let eligible = pool.backend(index).is_eligible(now);
        Some(if !eligible { 2 } else { u8::from(fact.backup) })
    };
    for searched in 0..3 {
        let left = (0..SIZE).filter(|i| rank(*i) == Some(searched) && !tried.contains(i));
        let left: Vec<usize> = left.collect();
        if left.is_empty() {
            continue;
        }
        let open = left.into_iter().filter(|&i| !facts[i].is_full()).map(Picked::Backend);
        let open: Vec<Picked> = open.collect();
        return if open.is_empty() { vec![Picked::Full] } else { open };
    }
    vec![Picked::Nobody]
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::RoundRobin), Just(Policy::LeastConnections)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_never_differs_from_a_fresh_look(
        events in prop::collection::vec(event(), 1..150),
        kinds in prop::collection::vec((0u16..3, any::<bool>(), prop::option::of(1u32..4)), SIZE),
        policy in policies(),
        slowly in any::<bool>(),
    ) {
        let mut now = Instant::now();
        let facts_of = |&(weight, backup, most): &(u16, bool, Option<u32>)| Facts {
            weight, backup, most,
            located: false,
            wanted: Admin::Ready,
            agent: Report::default(),
            active: 0,
            removed: false,
        };
        let mut facts: Vec<Facts> = kinds.iter().map(facts_of).collect();
        let backends = facts.iter().enumerate().map(|(index, fact)| {
            Backend::new(format!("b{index}"), fact.weight, health::Health::Checking)
                .with_backup(fact.backup)
                // A slow start has caps of its own, which the model does not know.
                .with_most(fact.most.filter(|_| !slowly))
        });
        let slow_start = if slowly { SECOND * 30 } else { Duration::ZERO };
        let terms = Terms { slow_start, agent_patience: Some(SECOND), ..terms(policy) };
        let mut pool = Pool::new(terms, backends.collect(), now);
        if slowly {
            facts.iter_mut().for_each(|fact| fact.most = None);
        }
        let mut resets = vec![Resets::default(); SIZE];
        for event in events {
            let health_before: Vec<_> = (0..SIZE).map(|index| pool.health(index)).collect();
            let eligible_before = pool.backends().filter(|(_, b)| b.is_eligible(now)).count();
            let change = match &event {
                Event::Probe(index, passed) => probe(&mut pool, *index, *passed, now),
                Event::ConnectFailed(index) => pool.connect_failed(*index, now),
                Event::Connected(index) => connected(&mut pool, *index, now),
                Event::Silent(index) => pool.silent(*index, now),
                Event::FirstByte(index) => pool.first_byte(*index, Duration::ZERO, now),
                Event::Reset(index) => pool.reset(*index, now),
                Event::Served(index, ago) => {
                    pool.served(*index, now - Duration::from_millis(*ago));
                    None
                }
                Event::Agent(_, line) if slowly && line.contains("maxconn") => None,
                Event::Agent(index, line) => {
                    facts[*index].hear(&report(line));
                    pool.agent(*index, report(line), now)
                }
                Event::Want(index, admin) => {
                    facts[*index].wanted = *admin;
                    pool.set_state(*index, *admin, now)
                }
                Event::Weigh(index, weight) => {
                    let before = std::mem::replace(&mut facts[*index].weight, *weight);
                    let change = pool.set_weight(*index, *weight, now);
                    let expected = Change::Weighed(before);
                    prop_assert_eq!(change, (before != *weight).then_some(expected));
                    None
                }
                Event::Locate(index) => {
                    facts[*index].located = true;
                    let place = Target::Unix(format!("/run/{index}").into());
                    pool.relocate(*index, vec![place], now)
                }
                Event::Pick(tried) => {
                    let allowed = expected(&pool, &facts, tried, now);
                    let picked = pool.pick(PickKey::LOCAL, now, tried);
                    prop_assert!(allowed.contains(&picked), "{:?} of {:?}", picked, allowed);
                    if let Picked::Backend(index) = picked {
                        pool.opened(index);
                        facts[index].active += 1;
                    }
                    None
                }
                Event::Close(index) => {
                    if facts[*index].active > 0 {
                        pool.closed(*index);
                        facts[*index].active -= 1;
                    }
                    None
                }
                Event::Remove(index) => {
                    if !std::mem::replace(&mut facts[*index].removed, true) {
                        pool.remove(&[*index], now);
                    }
                    None
                }
                Event::Return(index) if !facts[*index].removed => None,
                Event::Return(index) if facts[*index].active > 0 => {
                    facts[*index].removed = false;
                    pool.restore(*index, now);
                    prop_assert_eq!(pool.health(*index), health::Health::Checking);
                    None
                }
                Event::Return(_) => {
                    let new = Backend::new("new".to_owned(), 1, health::Health::Checking);
                    let index = pool.add(new, now);
                    prop_assert!(facts[index].removed && facts[index].active == 0);
                    facts[index] = facts_of(&(1, false, None));
                    resets[index] = Resets::default();
                    None
                }
                Event::Policy(policy) => {
                    let terms = Terms { policy: *policy, ..pool.terms().clone() };
                    pool.set_terms(terms, now);
                    None
                }
                Event::Wait(millis) => {
                    let until = now + Duration::from_millis(*millis);
                    // As the loop does: awake at every deadline, asleep in between.
                    while let Some(at) = pool.next_deadline().filter(|&at| at <= until) {
                        now = now.max(at);
                        pool.tick(now);
                        prop_assert!(pool.next_deadline().is_none_or(|next| next > now));
                    }
                    now = until;
                    None
                }
            };
            if let Some(Change::Ejected(_)) = change {
                prop_assert!(eligible_before > 1, "the last one was ejected");
            }
            if let Event::Reset(index) = event {
                resets[index].failures += 1;
                if let Some(Change::Ejected(time)) = change {
                    resets[index].until = Some(now + time);
                }
            } else if let Event::Served(index, ago) = event {
                resets[index].served(now - Duration::from_millis(ago));
            } else if let Event::Probe(index, true) = event
                && !is_up(health_before[index])
                && is_up(pool.health(index))
            {
                resets[index] = Resets::default();
            }
            for (index, fact) in facts.iter().enumerate() {
                prop_assert_eq!(pool.has_resets(index), resets[index].failures > 0);
                if resets[index].until.is_some_and(|until| until > now) {
                    prop_assert!(!pool.backend(index).is_eligible(now), "it is left alone");
                }
                prop_assert_eq!(pool.backend(index).counters().active, u64::from(fact.active));
                prop_assert_eq!(pool.backend(index).weight(), fact.weight);
                prop_assert_eq!(pool.status(index, now).state, pool.backend(index).state(now));
            }
            let listed: Vec<usize> = pool.backends().map(|(index, _)| index).collect();
            for (index, fact) in facts.iter().enumerate() {
                let gone = fact.removed && fact.active == 0;
                prop_assert_eq!(listed.iter().filter(|&&i| i == index).count(), usize::from(!gone));
            }
            let anyone = expected(&pool, &facts, &[], now);
            prop_assert_eq!(pool.has_place(), matches!(anyone[0], Picked::Backend(_)));
            prop_assert_eq!(pool.is_available(), anyone != [Picked::Nobody]);
        }
    }
}

#[test]
fn one_that_came_back_takes_up_its_load_little_by_little() {
    let start = Instant::now();
    let terms = Terms { slow_start: SECOND * 64, ..terms(Policy::RoundRobin) };
    let backends = vec![backend(0).with_most(Some(64)), backend(1)];
    let mut pool = pool(terms, backends, start);
    assert_eq!(serve(&mut pool, 20, start), [10, 10], "all are new: nobody starts slowly");
    for _ in 0..3 {
        probe(&mut pool, 0, false, start);
    }
    let now = start + SECOND;
    assert_eq!(probe(&mut pool, 0, true, now), None);
    assert_eq!(probe(&mut pool, 0, true, now), Some(Change::Up));
    let status = pool.status(0, now);
    assert_eq!((status.share, status.cap, status.most), (1, Some(1), Some(64)));
    let half = now + SECOND * 32;
    while let Some(at) = pool.next_deadline().filter(|&at| at <= half) {
        pool.tick(at);
    }
    assert_eq!((pool.status(0, half).share, pool.status(0, half).cap), (128, Some(32)));
    assert_eq!(serve(&mut pool, 30, half), [10, 20], "half of its weight");
    let end = now + SECOND * 64;
    while let Some(at) = pool.next_deadline() {
        assert!(at <= end, "awake after the end");
        pool.tick(at);
    }
    assert_eq!((pool.status(0, end).share, pool.status(0, end).cap), (256, Some(64)));
}

#[test]
fn one_that_turns_up_late_starts_slowly_and_so_does_one_readmitted() {
    let start = Instant::now();
    let terms = || Terms { slow_start: SECOND * 64, ..terms(Policy::RoundRobin) };
    let mut young = Pool::new(terms(), vec![backend(0), backend(1)], start);
    let place = || vec![Target::Unix("/run/0".into())];
    young.relocate(0, place(), start + SECOND);
    assert_eq!(young.status(0, start + SECOND).share, 256, "resolved at the start");
    young.relocate(1, place(), start + SECOND * 3600);
    assert_eq!(young.status(1, start + SECOND * 3600).share, 1, "resolved an hour later");
    let mut ejecting = pool(terms(), vec![backend(0), backend(1)], start);
    for _ in 0..3 {
        ejecting.connect_failed(0, start);
    }
    let later = start + SECOND * 10;
    assert_eq!(ejecting.tick(later), [(0, Change::Readmitted)]);
    assert_eq!(ejecting.status(0, later).share, 1);
}

#[test]
fn a_weight_that_changes_holds_for_the_next_choice_and_zero_takes_nothing() {
    let now = Instant::now();
    for policy in [Policy::RoundRobin, Policy::LeastConnections] {
        let mut pool = pool(terms(policy), vec![backend(0), backend(1)], now);
        assert_eq!(pool.set_weight(0, 1, now), None, "it has that weight");
        let change = pool.set_weight(0, 3, now);
        assert_eq!(change, Some(Change::Weighed(1)));
        assert_eq!(serve(&mut pool, 8, now), [6, 2], "{policy:?}");
        pool.set_weight(0, 0, now);
        assert_eq!(serve(&mut pool, 3, now), [0, 3], "{policy:?}");
        assert_eq!(pool.availability_changed(), None);
        pool.set_weight(1, 0, now);
        assert_eq!(pool.availability_changed(), Some(false));
        assert_eq!(pool.pick(PickKey::LOCAL, now, &[]), Picked::Nobody);
        pool.set_weight(0, 1, now);
        assert_eq!(pool.availability_changed(), Some(true));
    }
}

#[test]
fn an_agent_decides_about_share_cap_and_service_but_not_over_the_operator() {
    let now = Instant::now();
    let terms = Terms { agent_patience: Some(SECOND * 9), ..terms(Policy::LeastConnections) };
    let mut pool = pool(terms, vec![backend(0).with_most(Some(9)), backend(1)], now);
    assert_eq!(pool.status(0, now).agent.as_deref(), Some("no word yet"));
    assert_eq!(pool.agent(0, report("50% maxconn:30"), now), None);
    let status = pool.status(0, now);
    assert_eq!((status.share, status.cap), (128, Some(30)), "its own word on its limit counts");
    assert_eq!(serve(&mut pool, 30, now), [10, 20]);
    assert_eq!(pool.agent(0, report("stopped # for an update"), now), Some(Change::Down));
    assert_eq!(pool.backend(0).state(now), BackendState::Down);
    assert_eq!(pool.health(0), health::UP, "its probes may think otherwise");
    let reason = pool.status(0, now).reason;
    assert!(reason.contains("stopped") && reason.contains("for an update"), "{reason}");
    assert_eq!(pool.agent(0, report("up"), now), Some(Change::Up));
    assert_eq!(pool.agent(0, report("drain"), now), Some(DRAINED));
    assert_eq!(pool.backend(0).state(now), BackendState::Draining);
    assert_eq!(serve(&mut pool, 4, now), [0, 4]);
    pool.set_state(0, Admin::Maintenance, now);
    assert_eq!(pool.agent(0, report("ready"), now), None, "the operator's wish holds");
    assert_eq!(pool.backend(0).state(now), BackendState::Maintenance);
    let later = now + SECOND * 20;
    let words = pool.status(0, later).agent.unwrap();
    assert!(words.contains("50%") && words.contains("silent for 20 s"), "{words}");
}

#[test]
fn what_probes_find_is_no_news_while_the_agent_says_that_it_is_down() {
    let now = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0), backend(1)], now);
    assert_eq!(pool.agent(0, report("down"), now), Some(Change::Down));
    for passed in [false, false, false, true, true] {
        assert_eq!(probe(&mut pool, 0, passed, now), None, "it is down all the time");
    }
    assert_eq!(pool.health(0), health::UP);
    assert_eq!(pool.agent(0, report("up"), now), Some(Change::Up));
    for expected in [None, None, Some(Change::Down)] {
        assert_eq!(probe(&mut pool, 0, false, now), expected);
    }
}

#[test]
fn who_takes_a_wish_back_or_whose_wish_is_left_is_told() {
    let now = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0)], now);
    let ready = |author| Some(Change::Wanted(Admin::Ready, author));
    assert_eq!(pool.agent(0, report("drain"), now), Some(DRAINED));
    assert_eq!(pool.agent(0, report("ready"), now), ready(Author::Agent));
    let mut by_operator = |admin, expected| assert_eq!(pool.set_state(0, admin, now), expected);
    let drained = Some(Change::Wanted(Admin::Draining, Author::Operator));
    by_operator(Admin::Draining, drained);
    by_operator(Admin::Ready, ready(Author::Operator));
    by_operator(Admin::Draining, drained);
    pool.agent(0, report("maint"), now);
    assert_eq!(pool.agent(0, report("ready"), now), drained, "the operator's is left");
}

#[test]
fn no_percent_of_its_weight_is_shown_as_none() {
    let now = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0), backend(1)], now);
    pool.agent(0, report("0%"), now);
    assert_eq!(serve(&mut pool, 4, now), [0, 4]);
    let status = pool.status(0, now).to_string();
    assert!(status.contains("; 0 % of its weight"), "{status}");
}

#[test]
fn in_maintenance_nothing_is_probed_and_afterwards_the_first_result_decides() {
    let now = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0), backend(1)], now);
    assert!(pool.wants_probes(0));
    let change = pool.set_state(0, Admin::Maintenance, now);
    assert_eq!(change, Some(Change::Wanted(Admin::Maintenance, Author::Operator)));
    assert!(!pool.wants_probes(0));
    for _ in 0..5 {
        assert_eq!(probe(&mut pool, 0, false, now), None, "a probe that was under way");
    }
    assert_eq!(serve(&mut pool, 3, now), [0, 3]);
    pool.explain(0, "connected in 0 ms");
    pool.set_state(0, Admin::Ready, now);
    assert_eq!(pool.backend(0).state(now), BackendState::Checking);
    assert_eq!(pool.status(0, now).reason, "no probe result yet", "the last one is old");
    assert_eq!(probe(&mut pool, 0, false, now), Some(Change::Down));
    pool.set_state(0, Admin::Maintenance, now);
    pool.set_state(0, Admin::Ready, now);
    assert_eq!(pool.backend(0).state(now), BackendState::Down, "no clients for one that was dead");
}

#[test]
fn one_that_connects_and_says_nothing_is_ejected_and_a_connect_proves_nothing() {
    let now = Instant::now();
    let terms = Terms { first_byte_timeout: Some(SECOND), ..terms(Policy::RoundRobin) };
    let mut pool = pool(terms, vec![backend(0), backend(1)], now);
    for expected in [None, None, Some(Change::Ejected(SECOND * 10))] {
        assert_eq!(connected(&mut pool, 0, now), None);
        assert_eq!(pool.first_byte(0, SECOND * 2, now), None, "too late to count");
        assert_eq!(pool.silent(0, now), expected);
    }
    assert_eq!(connected(&mut pool, 0, now), None);
    assert_eq!(probe(&mut pool, 0, true, now), None);
    assert_eq!(pool.backend(0).state(now), BackendState::Ejected);
    assert!(pool.status(0, now).reason.contains("does not answer"));
    assert_eq!(pool.first_byte(0, SECOND, now), Some(Change::Readmitted));
    assert_eq!(pool.backend(0).state(now), BackendState::Up);
}

#[test]
fn one_that_resets_at_once_is_ejected_and_only_its_time_ends_that() {
    let start = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0), backend(1)], start);
    for expected in [None, None, Some(Change::Ejected(SECOND * 10))] {
        assert_eq!(connected(&mut pool, 0, start), None);
        assert_eq!(pool.reset(0, start), expected);
        assert_eq!(connected(&mut pool, 0, start), None, "one in flight");
        assert_eq!(probe(&mut pool, 0, true, start), None);
        assert_eq!(pool.first_byte(0, Duration::ZERO, start), None);
    }
    let now = start + SECOND * 9;
    pool.served(0, now);
    assert_eq!(pool.backend(0).state(now), BackendState::Ejected);
    assert!(pool.status(0, now).reason.contains("resets at once"));
    let now = start + SECOND * 10;
    assert_eq!(pool.tick(now), [(0, Change::Readmitted)]);
    pool.served(0, start);
    assert_eq!(pool.reset(0, now), Some(Change::Ejected(SECOND * 20)), "nobody new was served");
    let now = start + SECOND * 30;
    assert_eq!(pool.tick(now), [(0, Change::Readmitted)]);
    pool.served(0, now);
    assert!(!pool.has_resets(0));
    assert_eq!(pool.reset(0, now), None, "being served wipes the slate");
}

#[test]
fn resets_are_forgotten_when_a_client_is_served_or_the_backend_was_away() {
    let now = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0), backend(1)], now);
    for _ in 0..5 {
        assert_eq!([pool.reset(0, now), pool.reset(0, now)], [None, None]);
        pool.served(0, now - SECOND);
    }
    for _ in 0..3 {
        pool.reset(0, now);
    }
    for _ in 0..3 {
        probe(&mut pool, 0, false, now);
    }
    assert_eq!([0, 0].map(|_| probe(&mut pool, 0, true, now)), [None, Some(Change::Up)]);
    assert!(pool.backend(0).is_eligible(now), "what is there now is new");
}

#[test]
fn resets_never_eject_the_last_one() {
    let now = Instant::now();
    let mut pool = pool(terms(Policy::RoundRobin), vec![backend(0), backend(1)], now);
    let told = (0..300).filter(|turn| {
        connected(&mut pool, turn % 2, now);
        pool.reset(turn % 2, now).is_some()
    });
    assert_eq!(told.count(), 1);
    assert!(pool.backend(1).is_eligible(now));
}

#[test]
fn one_that_flaps_must_pass_more_until_it_has_been_calm() {
    let mut now = Instant::now();
    let thresholds = Thresholds { rise: 2, fall: 1 };
    let terms = Terms { thresholds, ..terms(Policy::RoundRobin) };
    let mut pool = pool(terms, vec![backend(0)], now);
    let passes = |pool: &mut Pool, now| {
        (1..).find(|_| probe(pool, 0, true, now) == Some(Change::Up)).unwrap()
    };
    let mut needed = Vec::new();
    for _ in 0..3 {
        now += SECOND;
        assert_eq!(probe(&mut pool, 0, false, now), Some(Change::Down));
        needed.push(passes(&mut pool, now));
    }
    assert_eq!(needed, [2, 4, 6]);
    let status = pool.status(0, now);
    assert_eq!(status.flaps, 2);
    assert!(status.to_string().contains("it flaps"), "{status}");
    now += STABLE * 3;
    assert_eq!(probe(&mut pool, 0, false, now), Some(Change::Down));
    assert_eq!(passes(&mut pool, now), 2);
}

#[test]
fn backups_take_over_and_hand_back_and_it_is_told_once_each_way() {
    use evenkeel::pool::Rank;
    let now = Instant::now();
    let backends = vec![backend(0), backend(1).with_backup(true), backend(2).with_backup(true)];
    let mut pool = pool(terms(Policy::RoundRobin), backends, now);
    assert_eq!(pool.serving_changed(), None);
    assert_eq!(serve(&mut pool, 6, now), [6, 0, 0]);
    assert_eq!(pool.pick(PickKey::LOCAL, now, &[0]), Picked::Backend(1), "tried in vain");
    for _ in 0..3 {
        probe(&mut pool, 0, false, now);
    }
    assert_eq!((pool.serving_changed(), pool.serving_changed()), (Some(Rank::Backup), None));
    assert_eq!(serve(&mut pool, 6, now), [0, 3, 3]);
    for _ in 0..2 {
        probe(&mut pool, 0, true, now);
    }
    assert_eq!(pool.serving_changed(), Some(Rank::Primary));
    assert_eq!(serve(&mut pool, 6, now), [6, 0, 0]);
}

#[test]
fn a_full_primary_is_waited_for_and_no_backup_takes_its_clients() {
    let now = Instant::now();
    let backends = vec![backend(0).with_most(Some(2)), backend(1).with_backup(true)];
    let mut pool = pool(terms(Policy::RoundRobin), backends, now);
    assert_eq!(serve(&mut pool, 5, now), [2, 0]);
    assert_eq!(pool.pick(PickKey::LOCAL, now, &[]), Picked::Full);
    assert!(pool.is_available() && !pool.has_place());
    pool.closed(0);
    assert!(pool.has_place());
    assert_eq!(pool.pick(PickKey::LOCAL, now, &[]), Picked::Backend(0));
}
