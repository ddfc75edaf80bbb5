//! Clients, backends with queues, and the clock of the simulation.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use evenkeel::pool::picker::{Member, PickKey, Picker, Policy, WHOLE};

/// What is tried out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) policy: Policy,
    /// The most connections of each backend.
    pub(crate) limit: Option<u32>,
}

/// What came of it. Waiting is the time in a backend's queue, in microseconds.
#[derive(Debug)]
pub(crate) struct Report {
    /// The most connections that any backend had at any time.
    pub(crate) peak: u32,
    /// The largest number of connections over the mean of all open backends, averaged over all
    /// arrivals.
    pub(crate) imbalance_percent: u64,
    /// Waiting and being served.
    pub(crate) mean_answer: u64,
    pub(crate) mean_wait: u64,
    pub(crate) p99_wait: u64,
    pub(crate) refused: u32,
    /// Clients that were sent to the flapping backend while it was closed.
    pub(crate) to_the_closed: u32,
}

/// Runs a scene to the last answer.
#[must_use]
pub(crate) fn run(scene: Scene) -> Report {
    let mut world = World::new(scene);
    while let Some(Reverse((time, _, event))) = world.events.pop() {
        world.time = time;
        match event {
            Event::Arrival => world.arrive(),
            Event::Answer { backend, came } => world.answer(backend, came),
            Event::Flap { open } => world.flap(open),
            Event::Reports => world.report(),
        }
    }
    world.sum_up()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Answer {
        backend: usize,
        came: u64,
    },
    Flap {
        open: bool,
    },
    /// Every backend's agent says how much it takes.
    Reports,
}

struct World {
    scene: Scene,
    picker: Picker,
    backends: Vec<Server>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    start: Instant,
    /// Microseconds since the start.
    time: u64,
    seed: u64,
    waits: Vec<u64>,
    /// The sum of all times from coming to being answered.
    answers: u64,
    peak: u32,
    imbalances: u64,
    refused: u32,
    to_the_closed: u32,
}

/// A backend with workers; who finds none free waits in line.
#[derive(Debug, Clone, Default)]
struct Server {
    slowness: u64,
    closed: bool,
    /// Clients there, of whom so many are being served.
    active: u32,
    busy: u32,
    /// When those who wait came, and the work they bring.
    queue: VecDeque<(u64, u64)>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "a simulation needs some instant to count from")]
    fn new(scene: Scene) -> Self {
        let members: Vec<Member> =
            (0..BACKENDS).map(|i| Member::new(&format!("10.0.0.{i}:80"), 1)).collect();
        let mut backends = vec![Server { slowness: 1, ..Server::default() }; BACKENDS];
        backends[SLOW].slowness = 10;
        let mut world = Self {
            scene,
            picker: Picker::new(scene.policy, &members, 1),
            backends,
            events: BinaryHeap::new(),
            scheduled: 0,
            start: Instant::now(),
            time: 0,
            seed: 1,
            waits: Vec::new(),
            answers: 0,
            peak: 0,
            imbalances: 0,
            refused: 0,
            to_the_closed: 0,
        };
        world.schedule(0, Event::Arrival);
        world.schedule(OPEN_FOR, Event::Flap { open: false });
        world.schedule(0, Event::Reports);
        world
    }

    fn schedule(&mut self, delay: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.time + delay, self.scheduled, event)));
    }

    fn arrive(&mut self) {
        let gap = self.below(2 * MEAN_GAP);
        let work = MEAN_WORK / 2 + self.below(MEAN_WORK);
        let client = u32::try_from(self.below(CLIENTS)).unwrap();
        if self.time + gap < END {
            self.schedule(gap, Event::Arrival);
        }
        let key = PickKey::of(IpAddr::V4(Ipv4Addr::from(client)));
        let Some(backend) = self.picker.pick(key, self.now(), &[]) else {
            self.refused += 1;
            return;
        };
        self.to_the_closed += u32::from(self.backends[backend].closed);
        self.backends[backend].active += 1;
        self.backends[backend].queue.push_back((self.time, work));
        self.serve(backend);
        self.counted(backend);
        self.measure();
    }

    fn answer(&mut self, backend: usize, came: u64) {
        self.backends[backend].busy -= 1;
        self.backends[backend].active -= 1;
        self.answers += self.time - came;
        let took = Duration::from_micros(self.time - came);
        self.picker.sample(backend, took, self.now());
        self.serve(backend);
        self.counted(backend);
    }

    /// Puts a free worker to work.
    fn serve(&mut self, backend: usize) {
        let server = &mut self.backends[backend];
        if server.busy == WORKERS {
            return;
        }
        if let Some((came, work)) = server.queue.pop_front() {
            server.busy += 1;
            let takes = work * server.slowness;
            self.waits.push(self.time - came);
            self.schedule(takes, Event::Answer { backend, came });
        }
    }

    /// Tells the picker how many connections a backend has now.
    fn counted(&mut self, backend: usize) {
        let server = &self.backends[backend];
        self.picker.set_active(backend, server.active);
        let full = self.scene.limit.is_some_and(|limit| server.active >= limit);
        self.picker.set_open(backend, !server.closed && !full);
    }

    fn flap(&mut self, open: bool) {
        self.backends[FLAPPING].closed = !open;
        self.counted(FLAPPING);
        if self.time < END {
            let next = if open { OPEN_FOR } else { CLOSED_FOR };
            self.schedule(next, Event::Flap { open: !open });
        }
    }

    /// An agent says 100 % while a worker is free, half of that when as many wait as work, ...
    fn report(&mut self) {
        if self.scene.policy != Policy::Resource || self.time >= END {
            return;
        }
        for (index, server) in self.backends.iter().enumerate() {
            let load = server.active.max(WORKERS);
            let share = (u32::from(WHOLE) * WORKERS / load).max(1);
            self.picker.set_share(index, u16::try_from(share).unwrap());
        }
        self.schedule(REPORT_EVERY, Event::Reports);
    }

    fn measure(&mut self) {
        let open =
            || self.backends.iter().filter(|server| !server.closed).map(|server| server.active);
        let (most, sum) = (open().max().unwrap_or(0), open().sum::<u32>().max(1));
        self.imbalances += 100 * u64::from(most) * open().map(|_| 1).sum::<u64>() / u64::from(sum);
        let peak = self.backends.iter().map(|server| server.active).max();
        self.peak = self.peak.max(peak.unwrap_or(0));
    }

    fn sum_up(mut self) -> Report {
        self.waits.sort_unstable();
        let count = self.waits.len();
        let arrivals = u64::try_from(count).unwrap();
        Report {
            peak: self.peak,
            imbalance_percent: self.imbalances / arrivals,
            mean_answer: self.answers / arrivals,
            mean_wait: self.waits.iter().sum::<u64>() / arrivals,
            p99_wait: self.waits[count * 99 / 100],
            refused: self.refused,
            to_the_closed: self.to_the_closed,
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.time)
    }

    /// A number below `limit`, by xorshift (Marsaglia, 2003).
    fn below(&mut self, limit: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % limit
    }
}

const BACKENDS: usize = 10;
const SLOW: usize = 3;
const FLAPPING: usize = 7;
const WORKERS: u32 = 4;
const CLIENTS: u64 = 1000;

/// All times in microseconds: a backend with four workers answers 400 clients a second, the slow
/// one 40; 2700 come, which is 77 % of what all can do.
const MEAN_WORK: u64 = 10_000;
const MEAN_GAP: u64 = 371;
const OPEN_FOR: u64 = 3_000_000;
const CLOSED_FOR: u64 = 2_000_000;
const REPORT_EVERY: u64 = 1_000_000;
const END: u64 = 30_000_000;
