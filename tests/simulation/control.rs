//! The control plane of a world: the pool, its prober, and backends with moods.
//!
//! Checked here, because it needs no pair: probes of one backend do not overlap and are never
//! forgotten, a mood that lasts becomes the pool's verdict, availability is told once each way.

use std::time::{Duration, Instant};

use evenkeel::pool::backend::{Attempt, Backend, Target};
use evenkeel::pool::health::{Health, Thresholds};
use evenkeel::pool::picker::PickKey;
use evenkeel::pool::prober::{Pace, Prober};
use evenkeel::pool::terms::Terms;
use evenkeel::pool::{Picked, Pool};

use crate::plan::{Kind, Mood, Plan};
use crate::random::Random;
use crate::socket::Fate;
use crate::trace::Trace;

/// Backends as they are, and as the pool believes them to be.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) pool: Pool,
    prober: Prober<usize>,
    backends: Vec<Real>,
    kind: Kind,
    flips: Option<Instant>,
    available: bool,
    random: Random,
    trace: Trace,
}

impl Control {
    pub(crate) fn new(plan: &Plan, mut random: Random, now: Instant, trace: Trace) -> Self {
        let backends = (0..plan.moods.len())
            .map(|index| Backend::new(format!("b{index}"), 1, Health::Checking).with_most(plan.cap))
            .collect();
        let terms = Terms { thresholds: THRESHOLDS, ..Terms::new("sim") };
        let mut pool = Pool::new(terms, backends, now);
        let mut prober = Prober::new(random.below(u64::MAX));
        for index in 0..plan.moods.len() {
            let place = |turn| Target::Unix(format!("/sim/{index}/{turn}").into());
            pool.relocate(index, (0..plan.addresses).map(place).collect(), now);
            assert_eq!(prober.add(PACE, now), index);
            prober.join(index, index);
        }
        let mut real = |(index, &mood): (usize, &Mood)| {
            let dead = plan.addresses > 1 && random.chance(50);
            let place = random.below(plan.addresses as u64);
            let dead = dead.then(|| Target::Unix(format!("/sim/{index}/{place}").into()));
            Real { mood, dead, since: now, ended: now, probe: None, picked: 0 }
        };
        Self {
            pool,
            prober,
            backends: plan.moods.iter().enumerate().map(&mut real).collect(),
            kind: plan.kind,
            flips: (plan.kind == Kind::Failing).then_some(now),
            available: true,
            random,
            trace,
        }
    }

    /// A backend for a new connection, which is counted as opened.
    pub(crate) fn pick(&mut self, now: Instant, tried: &[usize]) -> Picked {
        let outcome = self.pool.pick(PickKey::LOCAL, now, tried);
        let Picked::Backend(picked) = outcome else { return outcome };
        assert!(!tried.contains(&picked), "a backend is tried twice");
        assert!(self.pool.backend(picked).is_usable(), "an unusable backend is picked");
        self.pool.opened(picked);
        self.backends[picked].picked += 1;
        self.check_shares();
        outcome
    }

    /// What a connect to a backend meets; an error if it fails at once.
    pub(crate) fn connect(&mut self, backend: usize, attempt: Attempt) -> Option<Meeting> {
        let target = self.pool.backend(backend).target(attempt).expect("an address to try");
        let mut mood = self.backends[backend].mood;
        if self.backends[backend].dead.as_ref() == Some(target) {
            mood = Mood::Refusing;
        }
        if mood == Mood::Moody {
            mood = self.random.pick(&[Mood::Well, Mood::Refusing, Mood::Silent]);
        }
        match mood {
            Mood::Well if self.random.chance(50) => Some(Meeting::AtOnce),
            Mood::Well => Some(Meeting::Later(Fate::Comes)),
            Mood::Refusing if self.random.chance(20) => None,
            Mood::Refusing => Some(Meeting::Later(Fate::IsRefused)),
            Mood::Silent | Mood::Moody => Some(Meeting::Later(Fate::Silent)),
        }
    }

    pub(crate) fn connected(
        &mut self,
        backend: usize,
        attempt: Attempt,
        took: Duration,
        now: Instant,
    ) {
        let change = self.pool.connected(backend, attempt, took, now);
        self.trace.say(|| format!("connected b{backend} {change:?}"));
    }

    pub(crate) fn connect_failed(&mut self, backend: usize, reset: bool, now: Instant) {
        let change = if reset {
            self.pool.reset(backend, now)
        } else {
            self.pool.connect_failed(backend, now)
        };
        self.pool.closed(backend);
        self.prober.hurry(backend, now);
        self.trace.say(|| format!("connect failed b{backend} {change:?}"));
        let usable = |b: &Backend| b.is_usable();
        let eligible = |b: &Backend| b.is_eligible(now);
        let backends = || self.pool.backends().map(|(_, backend)| backend);
        assert!(
            !backends().any(usable) || change.is_none() || backends().any(eligible),
            "the last backend is ejected"
        );
    }

    /// Moods change, probes begin and end; true if that changed what is known of a backend.
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        let mut news = false;
        for (index, change) in self.pool.tick(now) {
            news = true;
            self.trace.say(|| format!("b{index} {change:?}"));
        }
        if self.flips.is_some_and(|at| at <= now) {
            self.flips = Some(now + self.random.millis(20_000));
            let index =
                usize::try_from(self.random.below(self.backends.len() as u64)).expect("an index");
            let mood = Mood::draw(self.kind, &mut self.random);
            self.trace.say(|| format!("b{index} is {mood:?} now"));
            self.backends[index].mood = mood;
            self.backends[index].since = now;
        }
        for index in 0..self.backends.len() {
            if let Some(Probe { ends, passes }) = self.backends[index].probe
                && ends <= now
            {
                self.backends[index].probe = None;
                self.backends[index].ended = now;
                let attempt = passes.then(|| self.good_attempt(index));
                let change = self.pool.observe(index, attempt, now);
                news |= change.is_some();
                self.trace.say(|| format!("probe of b{index} {passes} {change:?}"));
                self.prober.finished(index, self.pool.is_turning(index), now);
            }
        }
        while let Some(number) = self.prober.pop_due(now) {
            self.begin_probe(number, now);
        }
        self.check(now);
        news
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let probes = self.backends.iter().filter_map(|b| b.probe.map(|probe| probe.ends)).min();
        [self.prober.next(), self.pool.next_deadline(), self.flips, probes]
            .into_iter()
            .flatten()
            .min()
    }

    /// How a probe finds its backend: at the first address that is alive.
    fn good_attempt(&self, backend: usize) -> Attempt {
        let dead = self.backends[backend].dead.as_ref();
        let backend = self.pool.backend(backend);
        let first = backend.first_attempt();
        if backend.target(first) == dead { first.next() } else { first }
    }

    fn begin_probe(&mut self, backend: usize, now: Instant) {
        let lag = self.random.millis(20);
        let timeout = self.prober.timeout(backend);
        let lucky = self.random.chance(50);
        let real = &mut self.backends[backend];
        assert!(real.probe.is_none(), "two probes of one backend at once");
        let (lasts, passes) = match real.mood {
            Mood::Well => (lag, true),
            Mood::Moody => (lag, lucky),
            Mood::Refusing => (lag, false),
            Mood::Silent => (timeout, false),
        };
        real.probe = Some(Probe { ends: now + lasts, passes });
    }

    fn check(&mut self, now: Instant) {
        for (index, real) in self.backends.iter().enumerate() {
            let forgotten = real.probe.is_none() && now > real.ended + PACE.interval * 11 / 10;
            assert!(!forgotten, "b{index} is not probed any more");
            let decided = match real.mood {
                Mood::Well => Some(true),
                Mood::Refusing | Mood::Silent => Some(false),
                Mood::Moody => None,
            };
            // A jump of the clock makes time without probes: only an unbroken row of them counts.
            if let Some(up) = decided
                && self.kind == Kind::Cooperative
                && now > real.since + SETTLED
            {
                assert_eq!(self.pool.health(index).is_usable(), up, "b{index} is misjudged");
            }
        }
        let usable = self.pool.backends().any(|(_, backend)| backend.is_usable());
        let told = self.pool.availability_changed();
        assert_eq!(told, (usable != self.available).then_some(usable), "availability is told");
        self.available = usable;
    }

    /// Round robin is exact while all backends are well.
    fn check_shares(&self) {
        if self.kind == Kind::Cooperative && self.backends.iter().all(|b| b.mood == Mood::Well) {
            let picked = || self.backends.iter().map(|b| b.picked);
            assert!(picked().max() <= picked().min().map(|least| least + 1), "unequal shares");
        }
    }
}

/// What a connect that did not fail at once comes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meeting {
    AtOnce,
    Later(Fate),
}

/// A backend as it is.
#[derive(Debug)]
struct Real {
    mood: Mood,
    /// One of its addresses, at which nobody ever listens.
    dead: Option<Target>,
    since: Instant,
    /// When its last probe ended.
    ended: Instant,
    probe: Option<Probe>,
    picked: u64,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    ends: Instant,
    passes: bool,
}

const THRESHOLDS: Thresholds = Thresholds { rise: 2, fall: 3 };
const PACE: Pace = Pace {
    interval: Duration::from_secs(8),
    fast_interval: Duration::from_millis(500),
    timeout: Duration::from_secs(2),
};
/// The longest steady wait and a row of probes that time out.
const SETTLED: Duration = Duration::from_secs(20);
