//! Two ways to move bytes, and nobody at either end can tell which was taken.
//!
//! A flow runs over the simulation's sockets, which know every byte by its place: a write of a byte
//! that is not the next one fails on the spot. So what is compared is how many bytes the far end
//! saw, how it saw them end, and where the flow stands; that must not depend on the way, on chance
//! in the network, or on whether there is a pipe to be had.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper fails the test that called it")]

#[allow(dead_code, reason = "the simulation asks more of its sockets")]
#[path = "simulation"]
mod simulation {
    pub(crate) mod fake_stream;
    pub(crate) mod queues;
    pub(crate) mod random;
    pub(crate) mod socket;
    pub(crate) mod trace;
}

use std::io::{self, ErrorKind, Read, Write};
use std::panic::{self, AssertUnwindSafe};

use evenkeel::pair::buffer::BufferPool;
use evenkeel::pair::endpoint::{Endpoint, Ready, Stream};
use evenkeel::pair::flow::{End, Flow, Progress, Pump, State, Stores};
use evenkeel::pair::pipe::PipeStock;
use simulation::{fake_stream, queues, random, socket, trace};

use fake_stream::{FakeStream, Shared};
use queues::{Name, Run};
use random::Random;
use socket::{Events, Habits, Link, Socket};
use trace::Trace;

#[test]
fn copying_and_splicing_deliver_the_same_bytes_and_endings() {
    let mut spliced = 0;
    for seed in 0..SCHEDULES {
        let alike = panic::catch_unwind(AssertUnwindSafe(|| {
            let (script, terms) = draw(&mut Random::new(seed));
            let copied = play(Stage::<true>::new(&terms.copying(), seed), &script, seed);
            assert_eq!(copied.0, script.outcome(), "copying: {script:?} {terms:?}");
            assert!(fills(&copied.1) == 0, "nobody asked for a pipe");
            let other = play(Stage::<true>::new(&terms, !seed), &script, !seed);
            assert_eq!(other.0, copied.0, "splicing: {script:?} {terms:?}");
            let poor = play(Stage::<false>::new(&terms, seed), &script, !seed);
            assert_eq!(poor.0, copied.0, "without pipes: {script:?} {terms:?}");
            assert!(fills(&poor.1) == 0, "there was no pipe to fill");
            fills(&other.1)
        }));
        spliced += u64::from(alike.unwrap_or_else(|_| panic!("seed {seed}")) > 0);
    }
    assert!(spliced > SCHEDULES / 3, "only {spliced} of {SCHEDULES} schedules used a pipe");
}

/// Whatever comes exactly where a flow changes over, at every byte of a stream, with a sink that
/// takes all of the last read, all but a byte, one byte, or more.
#[test]
fn a_change_over_at_any_byte_loses_nothing() {
    for at in 1..LENGTH {
        for after in (1..=3).filter(|after| at % after == 0) {
            for room in [1, at / after, at, at + 1, 10 * LENGTH] {
                for next in Next::ALL {
                    change_over(at, after, room.max(1), next);
                }
            }
        }
    }
}

fn change_over(at: u64, after: u64, room: u64, next: Next) {
    let scene = format!("{next:?} at byte {at}, {after} reads, room for {room}");
    let scratch = usize::try_from(at / after).expect("a small size");
    let terms = Terms { scratch, splice_after: Some(after.to_le_bytes()[0]), ..CALM };
    let mut stage = Stage::<true>::new(&terms, at);
    stage.sink.get().outgoing.capacity = room;
    match next {
        Next::More | Next::Urgent(_) => {
            let mark = if let Next::Urgent(place) = next { Some(at + place - 1) } else { None };
            stage.source.get().arrive(LENGTH, mark);
        }
        Next::Silence | Next::Finish | Next::Reset | Next::SinkReset => {
            stage.source.get().arrive(at, None);
        }
    }
    match next {
        Next::More | Next::Urgent(_) => {}
        Next::Finish => stage.source.get().peer_finished(),
        Next::Reset => stage.source.get().broken(),
        Next::Silence => {
            stage.settle();
            assert!(at > room || stage.to.stream().stream.0.get().outgoing.written == at);
            stage.source.get().arrive(LENGTH - at, None);
        }
        Next::SinkReset => {
            stage.settle();
            stage.source.get().arrive(LENGTH - at, None);
            stage.sink.get().broken();
            stage.settle();
        }
    }
    while stage.sink.get().outgoing.queued() > 0 || !stage.is_at_rest() {
        stage.settle();
        if next != Next::SinkReset {
            let mut sink = stage.sink.get();
            let queued = sink.outgoing.queued();
            sink.drain(queued);
        } else {
            break;
        }
    }
    let (total, state) = match next {
        Next::More | Next::Silence | Next::Urgent(_) => (LENGTH, State::Open),
        Next::Finish => (at, State::Done(End::Finished)),
        Next::Reset => (at, State::Done(End::SourceReset)),
        Next::SinkReset => (at.min(room), State::Done(End::SinkReset)),
    };
    let early = matches!(next, Next::Urgent(_));
    let calls = &stage.from.stream().calls;
    if total > at && !early {
        let full = Call::Read(scratch);
        let reads = usize::try_from(after).expect("a small count");
        assert!(calls[..reads].iter().all(|&call| call == full), "{scene}: {calls:?}");
        assert!(matches!(calls[reads], Call::Fill(_)), "{scene}: {calls:?}");
    }
    let written = stage.sink.get().outgoing.written;
    let (outcome, _) = stage.end();
    assert_eq!((written, outcome.state), (total, state), "{scene}");
    assert_eq!(outcome.shut, state == State::Done(End::Finished), "{scene}");
}

/// What is found behind the last byte that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// More, which was there already.
    More,
    /// Nothing, and more later.
    Silence,
    Finish,
    Reset,
    /// More, and a sink that takes nothing any more.
    SinkReset,
    /// More, with an urgent mark one before, at, or one behind that place.
    Urgent(u64),
}

impl Next {
    const ALL: [Self; 8] = [
        Self::More,
        Self::Silence,
        Self::Finish,
        Self::Reset,
        Self::SinkReset,
        Self::Urgent(0),
        Self::Urgent(1),
        Self::Urgent(2),
    ];
}

/// Behind an urgent mark a splice sees an end too early, and the event that tells of the mark may
/// still be on its way when a flow that splices tries its source again.
#[test]
fn an_end_seen_behind_an_urgent_mark_that_no_event_told_of_is_none() {
    let terms = Terms { scratch: 2, budget: 1, splice_after: Some(1), ..CALM };
    let mut stage = Stage::<true>::new(&terms, 4);
    stage.source.get().arrive(2, None);
    stage.mark();
    assert!(stage.pump().spent, "it stops after the read that makes it splice");
    stage.source.get().arrive(5, Some(0));
    stage.source.get().peer_finished();
    stage.pump();
    stage.settle();
    assert_eq!(stage.sink.get().outgoing.written, 7);
    assert_eq!(stage.end().0.state, State::Done(End::Finished));
}

/// Fills of the simulation are thin: four of them, and the flow reads again.
#[test]
fn thin_fills_in_a_row_end_the_splicing_and_full_reads_bring_it_back() {
    let mut stage = Stage::<true>::new(&Terms { scratch: 2, splice_after: Some(3), ..CALM }, 1);
    stage.source.get().arrive(400, None);
    while !stage.is_at_rest() {
        stage.settle();
        let queued = stage.sink.get().outgoing.queued();
        stage.sink.get().drain(queued);
    }
    let calls = &stage.from.stream().calls;
    let kinds: String = calls.iter().map(Call::letter).collect();
    assert!(kinds.starts_with("rrrffffrrrffffrrrffff"), "{kinds}");
    stage.end();
}

/// The only pipe is elsewhere: the flow copies, and splices once it is back.
#[test]
fn a_flow_that_gets_no_pipe_copies_until_there_is_one() {
    let terms = Terms { scratch: 4, splice_after: Some(1), pipes: 1, ..CALM };
    let mut stage = Stage::<true>::new(&terms, 2);
    let pipe = stage.stores.pipes.borrow(Tube::<true>::make_pipe).expect("the only pipe");
    stage.source.get().arrive(100, None);
    stage.settle();
    assert_eq!(stage.sink.get().outgoing.written, 100, "nothing waits for a pipe");
    assert_eq!(fills(&stage.from.stream().calls), 0);
    stage.stores.pipes.give_back(pipe);
    stage.source.get().arrive(100, None);
    stage.settle();
    assert_eq!(stage.sink.get().outgoing.written, 200);
    assert!(fills(&stage.from.stream().calls) > 0, "the pipe that came back is not used");
    stage.end();
}

/// A pipe is with a flow only while it holds bytes, and its sink decides how long that is.
#[test]
fn a_pipe_stays_with_a_flow_exactly_as_long_as_bytes_wait_in_it() {
    let mut stage = Stage::<true>::new(&Terms { scratch: 4, splice_after: Some(1), ..CALM }, 3);
    stage.sink.get().outgoing.capacity = 5;
    stage.source.get().arrive(40, None);
    stage.settle();
    assert_eq!(stage.stores.pipes.lent(), 1, "the sink is full");
    while !stage.is_at_rest() || stage.sink.get().outgoing.queued() > 0 {
        let waits = stage.flow.holds_bytes();
        let lent = stage.stores.pipes.lent() + stage.stores.buffers.borrowed();
        assert_eq!(lent, usize::from(waits));
        let queued = stage.sink.get().outgoing.queued();
        stage.sink.get().drain(queued);
        stage.settle();
    }
    assert_eq!(stage.sink.get().outgoing.written, 40);
    assert_eq!(stage.stores.pipes.lent(), 0);
    stage.end();
}

/// What the far ends do. How it ends is certain, whatever happens in between.
#[derive(Debug)]
struct Script {
    total: u64,
    /// Bytes behind an urgent mark.
    urgent: Vec<u64>,
    ending: Ending,
    /// The sink's peer resets the connection when it has seen so many bytes.
    resets: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Finish,
    Reset,
    /// Finishes, and resets some time later.
    FinishReset,
}

/// What can be told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    /// Bytes that the sink's peer saw.
    seen: u64,
    /// Whether it saw an end behind them.
    shut: bool,
    state: State,
}

impl Script {
    fn outcome(&self) -> Outcome {
        match (self.resets, self.ending) {
            (Some(seen), _) => Outcome { seen, shut: false, state: State::Done(End::SinkReset) },
            (None, Ending::Reset) => {
                let state = State::Done(End::SourceReset);
                Outcome { seen: self.total, shut: false, state }
            }
            (None, Ending::Finish | Ending::FinishReset) => {
                Outcome { seen: self.total, shut: true, state: State::Done(End::Finished) }
            }
        }
    }
}

/// Sizes and tempers of one schedule.
#[derive(Debug, Clone, Copy)]
struct Terms {
    scratch: usize,
    budget: usize,
    splice_after: Option<u8>,
    pipes: usize,
    window: u64,
    room: u64,
    habits: Habits,
    /// Events that come late, in percent.
    late: u64,
}

impl Terms {
    fn copying(self) -> Self {
        Self { splice_after: None, ..self }
    }
}

fn draw(random: &mut Random) -> (Script, Terms) {
    let total = random.pick(&[0, 7, 60, 300, 300]);
    let marks = if total == 0 { 0 } else { random.pick(&[0, 0, 1, 5]) };
    let mut urgent: Vec<u64> = (0..marks).map(|_| random.below(total)).collect();
    urgent.sort_unstable();
    let room = random.pick(&[1, 3, 16, 64]);
    // More than its own kernel can have taken, so that the flow is not done when it happens.
    let resets = (total > room + 1 && random.chance(20)).then(|| random.below(total - room));
    let terms = Terms {
        scratch: random.pick(&[1, 2, 5, 16]),
        budget: random.pick(&[1, 16, 1000]),
        splice_after: Some(random.pick(&[1, 2, 3])),
        pipes: random.pick(&[1, 10]),
        window: random.pick(&[1, 4, 40, 200]),
        room,
        habits: Habits {
            interrupts: random.pick(&[0, 0, 20]),
            events: random.pick(&[Events::Whole, Events::Narrow]),
            ..CALM.habits
        },
        late: random.pick(&[0, 30, 70]),
    };
    let ending = random.pick(&[Ending::Finish, Ending::Reset, Ending::FinishReset]);
    (Script { total, urgent, ending, resets }, terms)
}

/// Performs a script in an order that chance decides, to its end.
fn play<const PIPES: bool>(
    mut stage: Stage<PIPES>,
    script: &Script,
    seed: u64,
) -> (Outcome, Vec<Call>) {
    let mut random = Random::new(seed);
    for _ in 0..TURNS {
        let acted = stage.act(script, &mut random);
        let late = random.chance(stage.terms.late);
        if !late {
            stage.mark();
        }
        let Progress { moved, spent, .. } = stage.pump();
        stage.again = spent;
        if !acted && !late && moved == 0 && stage.is_at_rest() {
            return stage.end();
        }
    }
    panic!("no end after {TURNS} turns: {script:?}");
}

/// A flow between two sockets, and both far ends.
#[derive(Debug)]
struct Stage<const PIPES: bool> {
    terms: Terms,
    source: Shared<Socket>,
    sink: Shared<Socket>,
    from: Endpoint<Tube<PIPES>>,
    to: Endpoint<Tube<PIPES>>,
    flow: Flow<Option<Run>>,
    stores: Stores<Option<Run>>,
    /// The last step spent its budget.
    again: bool,
    /// How far the source's script was played: ends that were sent.
    ends: usize,
    reset: bool,
}

impl<const PIPES: bool> Stage<PIPES> {
    fn new(terms: &Terms, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut socket = |backend| {
            let name = Name { pair: 1, backend };
            Socket::new(name, Link::Connected, terms.habits, random.fork(), Trace::off())
        };
        let (mut source, mut sink) = (socket(false), socket(true));
        source.incoming.window = terms.window;
        sink.outgoing.capacity = terms.room;
        let (source, sink) = (Shared::new(source), Shared::new(sink));
        Self {
            terms: *terms,
            from: Endpoint::new(Tube::of(&source), Ready::NONE),
            to: Endpoint::new(Tube::of(&sink), Ready::WRITABLE),
            source,
            sink,
            flow: Flow::default(),
            stores: Stores {
                scratch: vec![0; terms.scratch].into_boxed_slice(),
                buffers: BufferPool::new(terms.scratch, 1),
                pipes: PipeStock::new(terms.pipes),
            },
            again: false,
            ends: 0,
            reset: false,
        }
    }

    /// One of the things that may happen next at the far ends; false if there is none.
    fn act(&mut self, script: &Script, random: &mut Random) -> bool {
        let (left, window) = {
            let source = self.source.get();
            (script.total - source.incoming.arrived, source.incoming.window())
        };
        let sends = left.min(window);
        let ends = if script.ending == Ending::FinishReset { 2 } else { 1 };
        let reads = {
            let sink = self.sink.get();
            let most = script.resets.map_or(u64::MAX, |resets| resets - sink.outgoing.drained);
            if self.reset { 0 } else { sink.outgoing.queued().min(most) }
        };
        let resets = script.resets == Some(self.sink.get().outgoing.drained) && !self.reset;
        let possible = [sends > 0, left == 0 && self.ends < ends, reads > 0, resets];
        let count = possible.iter().filter(|&&possible| possible).count();
        if count == 0 {
            return false;
        }
        let nth = usize::try_from(random.below(count as u64)).expect("an index");
        let action = (0..4).filter(|&action| possible[action]).nth(nth).expect("one of them");
        match action {
            0 => self.arrive(random.between(1, sends), script),
            1 => {
                let finishes = self.ends == 0 && script.ending != Ending::Reset;
                let mut source = self.source.get();
                if finishes {
                    source.peer_finished()
                } else {
                    source.broken()
                }
                drop(source);
                self.ends += 1;
            }
            2 => self.sink.get().drain(random.between(1, reads)),
            _ => {
                self.sink.get().broken();
                self.reset = true;
            }
        }
        true
    }

    fn arrive(&self, count: u64, script: &Script) {
        let mut source = self.source.get();
        let start = source.incoming.arrived;
        let mark = script.urgent.iter().find(|&&at| at >= start && at < start + count);
        source.arrive(count, mark.map(|at| at - start));
    }

    /// Tells both ends of what has changed.
    fn mark(&mut self) {
        for (socket, endpoint) in [(&self.source, &mut self.from), (&self.sink, &mut self.to)] {
            if let Some(ready) = socket.get().take_event() {
                endpoint.mark(ready);
            }
        }
    }

    fn pump(&mut self) -> Progress {
        let mut pump = Pump {
            stores: &mut self.stores,
            budget: self.terms.budget,
            closing: false,
            splice_after: self.terms.splice_after,
        };
        self.flow.pump(&mut self.from, &mut self.to, &mut pump)
    }

    /// Lets the flow do all that it can.
    fn settle(&mut self) {
        loop {
            self.mark();
            self.again = self.pump().spent;
            if self.is_at_rest() {
                return;
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        !self.again && !self.source.get().has_event() && !self.sink.get().has_event()
    }

    /// Takes everything down; nothing may be left.
    fn end(mut self) -> (Outcome, Vec<Call>) {
        let state = self.flow.state();
        let (seen, shut) = {
            let outgoing = &self.sink.get().outgoing;
            (outgoing.drained, outgoing.shut)
        };
        assert_eq!(self.flow.bytes(), self.sink.get().outgoing.written, "bytes are miscounted");
        self.flow.release(&mut self.stores);
        let left = (self.stores.pipes.lent(), self.stores.buffers.borrowed());
        assert_eq!(left, (0, 0), "pipes and buffers are left");
        (Outcome { seen, shut, state }, self.from.into_stream().calls)
    }
}

/// A stream of the simulation that notes how bytes were taken; without `PIPES`, of a kernel that
/// makes none.
#[derive(Debug)]
struct Tube<const PIPES: bool> {
    stream: FakeStream,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read(usize),
    Fill(usize),
}

impl Call {
    fn letter(&self) -> char {
        match self {
            Self::Read(_) => 'r',
            Self::Fill(_) => 'f',
        }
    }
}

impl<const PIPES: bool> Tube<PIPES> {
    fn of(socket: &Shared<Socket>) -> Self {
        Self { stream: FakeStream(socket.clone()), calls: Vec::new() }
    }
}

impl<const PIPES: bool> Read for Tube<PIPES> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let outcome = self.stream.read(space);
        self.calls.extend(outcome.as_ref().ok().map(|&count| Call::Read(count)));
        outcome
    }
}

impl<const PIPES: bool> Write for Tube<PIPES> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<const PIPES: bool> Stream for Tube<PIPES> {
    type Pipe = Option<Run>;

    fn make_pipe() -> io::Result<Option<Run>> {
        if PIPES { Ok(None) } else { Err(ErrorKind::QuotaExceeded.into()) }
    }

    fn fill(&mut self, pipe: &mut Option<Run>) -> io::Result<usize> {
        let outcome = self.stream.fill(pipe);
        self.calls.extend(outcome.as_ref().ok().map(|&count| Call::Fill(count)));
        outcome
    }

    fn drain(&mut self, pipe: &mut Option<Run>, count: usize) -> io::Result<usize> {
        self.stream.drain(pipe, count)
    }

    fn establish(&mut self) -> io::Result<()> {
        self.stream.establish()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.finish()
    }
}

/// How many calls brought bytes through a pipe.
fn fills(calls: &[Call]) -> usize {
    calls.iter().filter(|call| matches!(call, Call::Fill(1..))).count()
}

/// Room for everything, and nothing goes wrong by itself.
const CALM: Terms = Terms {
    scratch: 8,
    budget: 1000,
    splice_after: Some(1),
    pipes: 10,
    window: 10_000,
    room: 10_000,
    habits: Habits { queue: 64, interrupts: 0, events: Events::Whole, splices: true },
    late: 0,
};
/// The stream in which the change-over is moved about.
const LENGTH: u64 = 60;
const SCHEDULES: u64 = 4000;
/// More turns than any schedule needs.
const TURNS: u32 = 50_000;
