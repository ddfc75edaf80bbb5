//! What a schedule is like, drawn from its seed: limits, sizes, temper of the peers, connects.

use std::time::Duration;

use evenkeel::edge::proxy::Version;
use evenkeel::pair::Limits;
use evenkeel::pool::waiting::Allowance;

use crate::peer::{Ending, Reading, Script};
use crate::random::Random;
use crate::socket::{Events, Habits};

/// The kinds of schedule; a seed's remainder chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All peers do what they should, one backend at least is well: everything must arrive, and no
    /// timeout may be needed.
    Cooperative,
    /// Peers do whatever they like.
    Hostile,
    /// Backends come and go.
    Failing,
    /// The process is told to leave in the middle of it.
    Leaving,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Cooperative, Self::Hostile, Self::Failing, Self::Leaving];

    pub(crate) fn of(seed: u64) -> Self {
        Self::ALL[usize::from((seed % 4).to_le_bytes()[0])]
    }
}

/// Everything about a schedule that is decided before it begins.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) clients: u64,
    pub(crate) moods: Vec<Mood>,
    /// Addresses of each backend.
    pub(crate) addresses: usize,
    pub(crate) attempts: usize,
    pub(crate) limits: Limits,
    pub(crate) buffer: usize,
    pub(crate) budget: usize,
    pub(crate) habits: Habits,
    /// Full reads before a flow splices, and how many pipes there are.
    pub(crate) splice_after: Option<u8>,
    pub(crate) pipes: usize,
    /// Events that come late, and events without a cause, in percent.
    pub(crate) late: u64,
    pub(crate) spurious: u64,
    /// When the process is told to leave, and how long it may take.
    pub(crate) leaves: Option<Duration>,
    pub(crate) drain: Option<Duration>,
    /// The most connections of each backend, and who may wait for a place there.
    pub(crate) cap: Option<u32>,
    pub(crate) queue: Allowance,
    /// How long clients wait for a backend, and how many of them.
    pub(crate) hold: Option<Allowance>,
    /// Whether clients must begin with a PROXY header, and how long they have for it.
    pub(crate) greets: bool,
    pub(crate) patience: Duration,
    /// Whether backends are told one.
    pub(crate) tells: Option<Version>,
    /// Whether the clock may jump.
    pub(crate) jumps: bool,
    most_bytes: u64,
}

impl Plan {
    pub(crate) fn draw(kind: Kind, random: &mut Random) -> Self {
        let backends = random.between(1, 3);
        let mut moods: Vec<Mood> = (0..backends).map(|_| Mood::draw(kind, random)).collect();
        let calm = kind == Kind::Cooperative;
        if calm {
            moods[0] = Mood::Well;
        }
        let seconds = |random: &mut Random, most| Duration::from_secs(random.between(1, most));
        let limits = Limits {
            connect: seconds(random, 5),
            idle: (calm || random.chance(80)).then(|| seconds(random, 30)),
            half_close: random.chance(80).then(|| seconds(random, 30)),
        };
        let limits =
            if calm { Limits { idle: limits.idle.map(|t| t + CALM), ..limits } } else { limits };
        Self {
            kind,
            clients: random.between(1, 4),
            addresses: usize::from(random.between(1, 2) == 2) + 1,
            attempts: if calm { moods.len() } else { moods.len().min(2) },
            moods,
            limits,
            buffer: random.pick(&[1, 3, 8, 16, 64]),
            budget: random.pick(&[1, 16, 64, 1000]),
            habits: Habits {
                queue: random.pick(&[1, 4, 16, 64]),
                interrupts: random.pick(&[0, 0, 5, 30]),
                events: random.pick(&[Events::Whole, Events::Narrow]),
                splices: random.chance(80),
            },
            splice_after: random.pick(&[None, Some(1), Some(3)]),
            pipes: random.pick(&[0, 1, 10]),
            late: random.pick(&[0, 20, 60]),
            spurious: random.pick(&[0, 0, 10]),
            leaves: match kind {
                Kind::Cooperative => None,
                Kind::Leaving => Some(random.millis(3_000)),
                Kind::Hostile | Kind::Failing => Some(Duration::from_secs(100)),
            },
            drain: random.chance(80).then(|| random.millis(20_000)),
            cap: (!calm && random.chance(50)).then_some(1),
            queue: Allowance {
                most: random.pick(&[0, 1, 3]),
                time: random.chance(80).then(|| random.millis(10_000)),
            },
            hold: (!calm && random.chance(50)).then(|| Allowance {
                most: random.pick(&[1, 3, 100]),
                time: random.chance(80).then(|| random.millis(20_000)),
            }),
            greets: random.chance(40),
            patience: if calm { CALM } else { seconds(random, 8) },
            tells: random.pick(&[None, None, Some(Version::V1), Some(Version::V2)]),
            jumps: !calm && random.chance(30),
            most_bytes: random.pick(&[2, 10, 60, 150]),
        }
    }

    /// What a client and its backend are going to do to each other.
    pub(crate) fn scripts(&self, random: &mut Random) -> (Script, Script) {
        let mut client = self.script(random);
        let mut backend = self.script(random);
        match random.below(3) {
            0 => backend.after = random.between(0, client.sends),
            1 => client.after = random.between(0, backend.sends),
            _ => {}
        }
        if client.ending == Ending::FinishLast && backend.ending == Ending::FinishLast {
            client.ending = Ending::Finish;
        }
        (client, backend)
    }

    fn script(&self, random: &mut Random) -> Script {
        let calm = self.kind == Kind::Cooperative || random.chance(50);
        let sends = random.between(0, self.most_bytes);
        let reading = match random.below(if calm { 4 } else { 6 }) {
            0..=2 => Reading::Whole,
            3 => Reading::Slow,
            _ => Reading::Until(random.between(0, self.most_bytes)),
        };
        let polite = [Ending::Finish, Ending::Finish, Ending::FinishLast];
        let rude =
            [Ending::Finish, Ending::Close, Ending::Reset, Ending::FinishReset, Ending::Silence];
        Script {
            sends,
            after: 0,
            reading,
            ending: if calm { random.pick(&polite) } else { random.pick(&rude) },
            pauses: random.pick(&[0, 0, 10]),
            pause_millis: if calm { 100 } else { random.pick(&[100, 5_000]) },
            urgent: random.pick(&[0, 0, 30]),
        }
    }
}

/// How a backend takes connects and probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Refusing,
    Silent,
    Moody,
}

impl Mood {
    pub(crate) fn draw(kind: Kind, random: &mut Random) -> Self {
        let all = [Self::Well, Self::Refusing, Self::Silent, Self::Moody];
        match kind {
            Kind::Failing => random.pick(&all),
            Kind::Cooperative if random.chance(70) => Self::Well,
            Kind::Cooperative => random.pick(&all[1..3]),
            Kind::Hostile | Kind::Leaving if random.chance(80) => Self::Well,
            Kind::Hostile | Kind::Leaving => random.pick(&all),
        }
    }
}

/// More than all pauses of a cooperative pair together.
const CALM: Duration = Duration::from_secs(600);
