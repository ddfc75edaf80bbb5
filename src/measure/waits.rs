//! Whom a connection waits for, at every moment of its life.
//!
//! A relay knows no requests. What it knows is what it holds and who spoke last, and from these
//! each moment has one [`Wait`]:
//!
//! - bytes are held that a side does not take: that side is slow to read ([`Wait::ClientRead`],
//!   [`Wait::BackendRead`]; where both are, the client, who most likely keeps the backend waiting);
//! - one side has finished and nothing is held: the other one is to send;
//! - both may send and neither does: whoever breaks the silence with bytes was the one waited for,
//!   be it a client that thinks, or a backend in the middle of an answer. A silence that nobody
//!   breaks so, or not within [`PATIENCE`], is charged as it seems: after bytes of the client the
//!   backend is to send, otherwise the client; before any bytes, whoever spoke first on the last
//!   connection to this backend;
//! - the step before spent its budget: nobody is waited for but the balancer itself.
//!
//! Time is counted in ticks, of a millisecond, that are the same for all connections. Whatever a
//! connection waits for when a tick passes is charged with it. So the parts of a life add up to it
//! exactly, what is shorter than a tick is neither lost nor rounded up in the sum over many, and
//! a step within one tick costs a comparison.

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A backend to be chosen: the client stands in line.
    Queue,
    /// A backend's connect.
    Connect,
    /// The client to send.
    ClientSend,
    /// The client to take what is held for it.
    ClientRead,
    /// The backend to send.
    BackendSend,
    /// The backend to take what is held for it.
    BackendRead,
    /// The balancer: there is more to move, and others had their turn first.
    Balancer,
}

impl Wait {
    /// Every one, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Queue,
        Self::Connect,
        Self::ClientSend,
        Self::ClientRead,
        Self::BackendSend,
        Self::BackendRead,
        Self::Balancer,
    ];

    /// What a metric's label calls it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Connect => "connect",
            Self::ClientSend => "client_send",
            Self::ClientRead => "client_read",
            Self::BackendSend => "backend_send",
            Self::BackendRead => "backend_read",
            Self::Balancer => "balancer",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// What can be said of a wait before it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It is this, whatever ends it.
    Sure(Wait),
    /// Both sides may send; it seems to be this.
    Silence(Wait),
}

/// What one connection has waited for, in ticks.
///
/// Times spent for the client to send are not kept: they are what is left of its life. Each of the
/// others stays at its greatest value once it is reached, after 49 days.
/// Every live connection has one, so it is packed.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed)]
pub struct Waits {
    /// The tick up to which all is charged.
    since: u32,
    spent: [u32; KEPT.len()],
    /// Whether the present silence has lasted too long to be anybody's but who it seems.
    settled: bool,
}

impl Waits {
    /// For a connection that begins at this tick.
    #[must_use]
    pub fn new(tick: u32) -> Self {
        Self { since: tick, spent: [0; KEPT.len()], settled: false }
    }

    /// Whether everything before this tick is charged.
    #[must_use]
    pub fn is_charged(&self, tick: u32) -> bool {
        self.since == tick && !self.settled
    }

    /// Takes what a step has shown: the outlook before it and after it, and whether it moved bytes
    /// to the backend and to the client. Returns what is to be charged, with how many ticks.
    pub fn stepped(
        &mut self,
        tick: u32,
        (before, after): (Outlook, Outlook),
        moved: (bool, bool),
    ) -> Option<(Wait, u32)> {
        let is_over = moved != (false, false) || after != before;
        let settled = if is_over { std::mem::take(&mut self.settled) } else { self.settled };
        let wait = match before {
            Outlook::Sure(wait) => wait,
            Outlook::Silence(seeming) if settled || self.elapsed(tick) > PATIENCE => {
                self.settled = !is_over;
                seeming
            }
            Outlook::Silence(_) if !is_over => return None,
            Outlook::Silence(seeming) => match moved {
                (true, false) => Wait::ClientSend,
                (false, true) => Wait::BackendSend,
                (true, true) | (false, false) => seeming,
            },
        };
        self.charge(tick, wait)
    }

    /// Takes a look at a connection of which nothing has happened.
    pub fn looked_at(&mut self, tick: u32, outlook: Outlook) -> Option<(Wait, u32)> {
        self.stepped(tick, (outlook, outlook), (false, false))
    }

    /// The connection ends.
    pub fn ended(&mut self, tick: u32, outlook: Outlook) -> Option<(Wait, u32)> {
        let (Outlook::Sure(wait) | Outlook::Silence(wait)) = outlook;
        self.charge(tick, wait)
    }

    /// What has been charged, of a life that has lasted for so many ticks.
    #[must_use]
    pub fn totals(&self, life: u64) -> WaitTotals {
        let mut totals = WaitTotals::default();
        for (wait, spent) in KEPT.into_iter().zip(self.spent) {
            totals.add(wait, spent.into());
        }
        let rest = life.saturating_sub(totals.0.iter().sum());
        totals.add(Wait::ClientSend, rest);
        totals
    }

    fn elapsed(&self, tick: u32) -> u32 {
        tick.wrapping_sub(self.since)
    }

    fn charge(&mut self, tick: u32, wait: Wait) -> Option<(Wait, u32)> {
        let elapsed = self.elapsed(tick);
        self.since = tick;
        if let Some(at) = KEPT.iter().position(|kept| *kept == wait) {
            self.spent[at] = self.spent[at].saturating_add(elapsed);
        }
        (elapsed > 0).then_some((wait, elapsed))
    }
}

/// Ticks by what was waited for, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitTotals([u64; Wait::ALL.len()]);

impl WaitTotals {
    /// Adds so many.
    pub fn add(&mut self, wait: Wait, ticks: u64) {
        self.0[wait.index()] += ticks;
    }

    /// How many there are of one.
    #[must_use]
    pub fn of(&self, wait: Wait) -> u64 {
        self.0[wait.index()]
    }
}

/// What is written down for each connection.
const KEPT: [Wait; 6] = [
    Wait::Queue,
    Wait::Connect,
    Wait::ClientRead,
    Wait::BackendSend,
    Wait::BackendRead,
    Wait::Balancer,
];

/// Ticks in a second.
pub const TICKS: u32 = 1000;
/// How long a silence may last, in ticks, and still be charged to whoever breaks it.
pub const PATIENCE: u32 = 10 * TICKS;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UP: (bool, bool) = (true, false);
    const DOWN: (bool, bool) = (false, true);
    const STILL: (bool, bool) = (false, false);
    const CLIENT: Outlook = Outlook::Silence(Wait::ClientSend);
    const BACKEND: Outlook = Outlook::Silence(Wait::BackendSend);

    #[test]
    fn a_silence_belongs_to_whoever_breaks_it() {
        let mut waits = Waits::new(5);
        assert_eq!(waits.stepped(8, (CLIENT, BACKEND), UP), Some((Wait::ClientSend, 3)));
        assert_eq!(waits.stepped(10, (BACKEND, CLIENT), DOWN), Some((Wait::BackendSend, 2)));
        // An answer with pauses is the backend's, a request with pauses the client's.
        assert_eq!(waits.stepped(17, (CLIENT, CLIENT), DOWN), Some((Wait::BackendSend, 7)));
        assert_eq!(waits.stepped(18, (CLIENT, BACKEND), UP), Some((Wait::ClientSend, 1)));
        assert_eq!(waits.stepped(22, (BACKEND, BACKEND), UP), Some((Wait::ClientSend, 4)));
        let totals = waits.totals(17);
        assert_eq!((totals.of(Wait::ClientSend), totals.of(Wait::BackendSend)), (8, 9));
    }

    #[test]
    fn a_silence_that_no_byte_breaks_is_whose_it_seems() {
        let mut waits = Waits::new(0);
        assert_eq!(waits.looked_at(4, BACKEND), None, "it is not over");
        assert_eq!(waits.ended(9, BACKEND), Some((Wait::BackendSend, 9)), "the client gave up");
        let mut waits = Waits::new(0);
        let finished = Outlook::Sure(Wait::BackendSend);
        assert_eq!(waits.stepped(3, (CLIENT, finished), STILL), Some((Wait::ClientSend, 3)));
        assert_eq!(waits.looked_at(4, finished), Some((Wait::BackendSend, 1)), "nobody else can");
    }

    #[test]
    fn a_long_silence_is_whose_it_seems_however_often_it_is_looked_at() {
        for looks in [&[][..], &[11_000], &[5, 10_001, 10_002, 19_000]] {
            let mut waits = Waits::new(0);
            for look in looks {
                let told = waits.looked_at(*look, CLIENT);
                assert_eq!(told.is_some(), *look > PATIENCE);
            }
            waits.stepped(20_000, (CLIENT, CLIENT), DOWN);
            assert_eq!(waits.totals(20_000).of(Wait::BackendSend), 0, "{looks:?}");
            // The next one is short again.
            waits.stepped(20_009, (CLIENT, CLIENT), DOWN);
            assert_eq!(waits.totals(20_009).of(Wait::BackendSend), 9, "{looks:?}");
        }
    }

    #[test]
    fn ticks_that_begin_anew_after_49_days_lose_nothing() {
        let mut waits = Waits::new(u32::MAX - 1);
        let held = Outlook::Sure(Wait::ClientRead);
        assert_eq!(waits.looked_at(2, held), Some((Wait::ClientRead, 4)));
        waits.looked_at(1, held);
        waits.looked_at(0, held);
        assert_eq!(waits.totals(u64::MAX).of(Wait::ClientRead), u64::from(u32::MAX));
    }

    #[test]
    fn many_that_are_shorter_than_a_tick_are_right_in_sum() {
        // A thousand connections of a third of a tick each, one after the other.
        let mut all = WaitTotals::default();
        for number in 0..1000u32 {
            let (begun, ended) = (number / 3, (number + 1) / 3);
            let charged = Waits::new(begun).ended(ended, BACKEND);
            charged.iter().for_each(|(wait, ticks)| all.add(*wait, u64::from(*ticks)));
        }
        assert_eq!(all.of(Wait::BackendSend), 333);
    }

    fn outlook() -> impl Strategy<Value = Outlook> {
        let wait = (0..Wait::ALL.len()).prop_map(|index| Wait::ALL[index]);
        prop_oneof![wait.clone().prop_map(Outlook::Sure), wait.prop_map(Outlook::Silence)]
    }

    proptest! {
        /// Whatever happens and whenever it is looked at, the parts are the whole.
        #[test]
        fn the_parts_of_a_life_add_up_to_it(
            begun in any::<u32>(),
            steps in prop::collection::vec((0u32..30_000, outlook(), any::<(bool, bool)>()), 1..60),
        ) {
            let (mut waits, mut life, mut charged) = (Waits::new(begun), 0, 0);
            let mut before = CLIENT;
            for (passed, after, moved) in steps {
                life += passed;
                let tick = begun.wrapping_add(life);
                let after = if moved == STILL && passed % 2 == 0 { before } else { after };
                let told = waits.stepped(tick, (before, after), moved);
                charged += told.map_or(0, |(_, ticks)| ticks);
                before = after;
            }
            charged += waits.ended(begun.wrapping_add(life), before).map_or(0, |(_, t)| t);
            prop_assert_eq!(charged, life);
            let totals = waits.totals(life.into());
            let sum: u64 = Wait::ALL.into_iter().map(|wait| totals.of(wait)).sum();
            prop_assert_eq!(sum, u64::from(life));
        }
    }
}
