//! What must hold after every step, after every turn, whenever nothing moves, and at every end.
//!
//! All of it is told from the sockets, which know what was given and taken; of the pair only its
//! public word is used. Order and content of bytes, writes after an end and second ends are checked
//! by the socket itself.

use std::time::{Duration, Instant};

use evenkeel::edge::proxy::read::{Fault, Reading};
use evenkeel::measure::{Outlook, Wait};
use evenkeel::pair::endpoint::Ready;
use evenkeel::pair::{CloseReason, Direction, Phase};
use evenkeel::pool::waiting::{Room, Want};

use crate::plan::Kind;
use crate::queues::PIPE;
use crate::socket::{Link, Socket};
use crate::world::{Entry, World};

/// An end that was passed on is one that came, after the last byte of it.
pub(crate) fn after_step(entry: &Entry) {
    let Some(backend) = &entry.backend else { return };
    let (client, backend) = (entry.client.get(), backend.get());
    for (source, sink) in [(&*client, &*backend), (&*backend, &*client)] {
        if sink.outgoing.shut {
            assert!(source.incoming.ended, "{} sees an end that never came", sink.name);
            assert!(sink.outgoing.has_head(), "{} sees an end and no header", sink.name);
            assert_all_passed(source, sink);
        }
    }
}

/// Limits and sums.
pub(crate) fn after_turn(world: &mut World) {
    let now = world.now;
    let mut holding = 0;
    let mut active = vec![0; world.control.pool.backends().count()];
    for (slot, entry) in &mut world.pairs {
        entry.refresh(now);
        if let Some((backend, _)) = entry.choice {
            active[backend] += 1;
        }
        if entry.pair.phase() == Phase::Greeting {
            let overdue = entry.opened + world.plan.patience <= now;
            assert!(!overdue, "pair {} outlives its time for a header", entry.id);
            continue;
        }
        let Some(backend) = &entry.backend else {
            check_wait(entry, &world.room, slot, now);
            // What was read for a backend that then reset the connection, or with the header.
            holding += usize::from(entry.client.get().incoming.taken_behind_head() > 0);
            continue;
        };
        let (client, backend) = (entry.client.get(), backend.get());
        let pairs = [
            (&*client, &*backend, Direction::ToBackend),
            (&*backend, &*client, Direction::ToClient),
        ];
        for (source, sink, direction) in pairs {
            let written = sink.outgoing.written_behind_head();
            assert_eq!(entry.pair.bytes(direction), written, "{}: count", sink.name);
            let held = source.incoming.taken_behind_head() - written;
            assert!(
                held <= (world.plan.buffer as u64).max(PIPE),
                "{}: holds {held} bytes",
                source.name
            );
            holding += usize::from(held > 0);
        }
        let ended =
            client.told_end || backend.told_end || client.outgoing.shut || backend.outgoing.shut;
        drop((client, backend));
        let limits = world.plan.limits;
        let (limit, since) = match entry.pair.phase() {
            Phase::Connecting => (Some(limits.connect), entry.attached),
            Phase::Relaying if ended => (shorter(limits.idle, limits.half_close), entry.active.0),
            Phase::Relaying => (limits.idle, entry.active.0),
            Phase::Greeting | Phase::Choosing | Phase::Waiting => {
                panic!("pair {} is left without a backend", entry.id)
            }
        };
        let overdue = limit.is_some_and(|limit| since + limit <= now);
        assert!(!overdue, "pair {} outlives {limit:?} while {:?}", entry.id, entry.pair.phase());
    }
    assert!(
        world.stores.buffers.borrowed() + world.stores.pipes.lent() <= holding,
        "buffers without bytes"
    );
    for (index, &active) in active.iter().enumerate() {
        let counted = world.control.pool.backend(index).counters().active;
        assert_eq!(counted, active, "active connections of b{index}");
    }
}

/// A pair without a backend stands in line, and not longer than it may.
fn check_wait(entry: &Entry, room: &Room, slot: usize, now: Instant) {
    let waits = entry.pair.phase() == Phase::Waiting && room.is_standing(slot);
    assert!(waits, "pair {} has no backend and does not wait for one", entry.id);
    let since = entry.waiting.expect("a time");
    let longest = room.terms(0).longest();
    let overdue = longest.is_some_and(|longest| since + longest <= now);
    assert!(!overdue, "pair {} waits longer than {longest:?}", entry.id);
}

/// A place that is free while somebody stands in line for one, whom nothing keeps from taking it.
fn check_places(world: &World) {
    let waits = world.room.want(0) == Some(Want::Place) && !world.room.has_called(0);
    let choosy = world.pairs.iter().any(|(_, entry)| !entry.tried.is_empty());
    assert!(choosy || !waits || !world.control.pool.has_place(), "a free place is not taken");
}

/// Nothing moves any more: is there nothing that could?
pub(crate) fn at_rest(world: &World) {
    check_places(world);
    for (_, entry) in &world.pairs {
        let unheard = entry.pair.phase() == Phase::Greeting
            && entry.client.get().possible().has(Ready::READABLE);
        assert!(!unheard, "pair {} does not hear its header", entry.id);
        let Some(backend) = &entry.backend else {
            let client = entry.client.get();
            let here = client.link == Link::Connected && !has_left(&client);
            assert!(here, "pair {} does not notice that its client has left", entry.id);
            continue;
        };
        let (client, backend) = (entry.client.get(), backend.get());
        check_outlook(entry, &client, &backend);
        if entry.pair.phase() != Phase::Relaying {
            assert!(client.link == Link::Connected, "pair {} waits for nobody", entry.id);
            let connecting = matches!(backend.link, Link::Connecting(_));
            assert!(connecting, "pair {} does not notice its connect", entry.id);
            continue;
        }
        for (source, sink) in [(&*client, &*backend), (&*backend, &*client)] {
            let has = source.possible().has(Ready::READABLE)
                || source.incoming.taken_behind_head() > sink.outgoing.written_behind_head()
                || !sink.outgoing.has_head();
            let takes = sink.link == Link::Connected && sink.possible().has(Ready::WRITABLE);
            let stuck = has && takes && !sink.outgoing.shut;
            assert!(!stuck, "a wake-up is lost from {} to {}", source.name, sink.name);
            let kept = source.link == Link::Broken && takes;
            assert!(!kept, "the reset of {} is not passed on", source.name);
        }
    }
}

/// Whoever is said to be waited for has not done it.
fn check_outlook(entry: &Entry, client: &Socket, backend: &Socket) {
    let takes =
        |socket: &Socket| socket.link == Link::Connected && socket.possible().has(Ready::WRITABLE);
    let sends = |socket: &Socket| socket.possible().has(Ready::READABLE);
    let (wait, done) = match entry.pair.outlook() {
        Outlook::Sure(wait @ Wait::ClientRead) => (wait, takes(client)),
        Outlook::Sure(wait @ Wait::BackendRead) => (wait, takes(backend)),
        Outlook::Sure(wait @ Wait::ClientSend) => (wait, sends(client)),
        Outlook::Sure(wait @ Wait::BackendSend) => (wait, sends(backend)),
        Outlook::Silence(wait) => (wait, sends(client) || sends(backend)),
        Outlook::Sure(wait @ Wait::Connect) => (wait, entry.pair.phase() != Phase::Connecting),
        Outlook::Sure(wait @ (Wait::Queue | Wait::Balancer)) => (wait, true),
    };
    assert!(!done, "pair {} waits for {wait:?}, which is done", entry.id);
}

/// A pair is about to end.
pub(crate) fn at_end(world: &mut World, slot: usize, reason: CloseReason) {
    let (now, limits, kind) = (world.now, world.plan.limits, world.plan.kind);
    let entry = &mut world.pairs[slot];
    entry.refresh(now);
    let finished = matches!(reason, CloseReason::ClientFinished | CloseReason::BackendFinished);
    assert!(finished || kind != Kind::Cooperative, "{reason:?} among cooperative peers");
    let client = entry.client.get();
    check_greeting(entry, &client, reason, now >= entry.opened + world.plan.patience);
    let Some(backend) = &entry.backend else {
        assert_untouched(&client, world.plan.buffer);
        // One that ends before its first byte has only looked whether we are here.
        let gone = client.link == Link::Broken || has_left(&client);
        let held = world.plan.hold.filter(|_| reason == CloseReason::HoldTimeout);
        let queued = Some(world.plan.queue).filter(|_| reason == CloseReason::QueueTimeout);
        if let Some(allowance) = held.or(queued) {
            let patience = allowance.time.expect("a limit");
            assert!(entry.waiting.expect("a time") + patience <= now, "given up too early");
        }
        assert!(gone || reason != CloseReason::ClientGone, "a client that is there counts as gone");
        return;
    };
    let backend = backend.get();
    match reason {
        CloseReason::ClientFinished | CloseReason::BackendFinished => {
            assert!(client.incoming.ended && backend.incoming.ended, "{reason:?} before both ends");
            assert!(backend.outgoing.has_head(), "{reason:?} before the header");
            assert_all_passed(&client, &backend);
            assert_all_passed(&backend, &client);
        }
        CloseReason::ClientReset | CloseReason::BackendReset => {
            let by_client = reason == CloseReason::ClientReset;
            let (broken, other) = if by_client { (&client, &backend) } else { (&backend, &client) };
            // One that takes nothing for so long is not waited for.
            let limit = shorter(limits.idle, limits.half_close).unwrap_or(LAST_WORDS);
            let limit = limit.min(LAST_WORDS);
            let waited = now >= entry.moved.0 + limit;
            assert_reset(broken, other, waited);
        }
        CloseReason::ClientGone => {
            assert!(client.link == Link::Broken, "a client that is there counts as gone");
            assert!(entry.pair.phase() != Phase::Relaying, "gone before it was connected");
        }
        CloseReason::IdleTimeout | CloseReason::HalfCloseTimeout => {
            let limit = shorter(limits.idle, limits.half_close).expect("a limit");
            assert!(now >= entry.moved.0 + limit, "{reason:?} too early");
            if !entry.pair.holds_bytes() {
                assert_none_held(&client, &backend);
                assert_none_held(&backend, &client);
            }
        }
        CloseReason::Cut | CloseReason::CutByOperator => {}
        CloseReason::ConnectFailed
        | CloseReason::NoBackend
        | CloseReason::QueueFull
        | CloseReason::QueueTimeout
        | CloseReason::HoldFull
        | CloseReason::HoldTimeout
        | CloseReason::BackendDown
        | CloseReason::OutOfResources
        | CloseReason::Denied
        | CloseReason::NotAllowed
        | CloseReason::SourceFull
        | CloseReason::HeaderTimeout
        | CloseReason::HeaderMissing
        | CloseReason::HeaderMalformed
        | CloseReason::HeaderTooLong => {
            panic!("{reason:?} with a backend at hand");
        }
    }
}

/// What a client began with, and what became of it, fit together.
fn check_greeting(entry: &Entry, client: &Socket, reason: CloseReason, late: bool) {
    match (entry.greeting, reason) {
        (Some(Reading::Wrong(Fault::Missing)), CloseReason::HeaderMissing) => {}
        (Some(Reading::Partial), CloseReason::HeaderMissing) => assert!(client.incoming.ended),
        (Some(Reading::Wrong(fault)), CloseReason::HeaderMalformed) => {
            assert_eq!(fault, Fault::Malformed);
        }
        (Some(Reading::Wrong(fault)), CloseReason::HeaderTooLong) => {
            assert_eq!(fault, Fault::TooLong);
        }
        (Some(_), CloseReason::HeaderTimeout) => {
            assert!(late, "{reason:?} too early");
        }
        (
            Some(Reading::Wrong(_) | Reading::Partial),
            CloseReason::ClientGone | CloseReason::Cut,
        )
        | (Some(Reading::Whole { .. }) | None, _) => assert!(!reason.is_refusal(), "{reason:?}"),
        (Some(wrong), _) => panic!("{reason:?} after {wrong:?}"),
    }
}

/// The schedule is over: nothing is left, and it was over in time.
pub(crate) fn after_all(world: &mut World) {
    assert!(world.pairs.is_empty(), "pairs are left");
    assert_eq!(
        (world.stores.buffers.borrowed(), world.stores.pipes.lent()),
        (0, 0),
        "buffers are left"
    );
    for (index, backend) in world.control.pool.backends() {
        assert_eq!(backend.counters().active, 0, "b{index} has connections left");
    }
    if world.plan.kind == Kind::Cooperative {
        world.settle_peers();
        for peer in &world.peers {
            let socket = peer.socket.get();
            let met = socket.link == Link::Connected;
            assert!(peer.sees_end || !met, "the peer of {} never saw its end", socket.name);
        }
    }
}

/// A client that goes to another backend has seen nothing of the last one, and what was read of it
/// is still held.
pub(crate) fn assert_untouched(client: &Socket, buffer: usize) {
    let seen = client.outgoing.written > 0 || client.outgoing.shut;
    assert!(!seen, "{} has seen something of a backend that is given up", client.name);
    let held = client.incoming.taken_behind_head() <= (buffer as u64).max(PIPE);
    assert!(held, "{} was read though it has no backend", client.name);
}

/// Whether a client that waits has finished without having said anything.
fn has_left(client: &Socket) -> bool {
    client.incoming.ended && client.incoming.arrived_behind_head() == 0
}

fn assert_all_passed(source: &Socket, sink: &Socket) {
    let sent = source.incoming.arrived_behind_head();
    let passed = sink.outgoing.written_behind_head();
    assert!(sent == passed, "{} gave {sent} bytes, {passed} were passed", source.name);
}

/// A broken stream: what it gave before was passed on, unless the other side cannot take it.
fn assert_reset(broken: &Socket, other: &Socket, waited: bool) {
    assert!(broken.link == Link::Broken, "{} is blamed for a reset", broken.name);
    if other.link == Link::Connected && !waited {
        assert_all_passed(broken, other);
        let told = other.outgoing.shut || !broken.incoming.ended;
        assert!(told, "the end that {} sent before it broke is not passed on", broken.name);
    }
}

fn assert_none_held(source: &Socket, sink: &Socket) {
    let same = source.incoming.taken_behind_head() == sink.outgoing.written_behind_head();
    assert!(same || sink.link == Link::Broken, "{}: bytes are lost", source.name);
}

/// How long what a broken side sent before may wait for the other to take it.
const LAST_WORDS: Duration = Duration::from_secs(5);

fn shorter(idle: Option<Duration>, half_close: Option<Duration>) -> Option<Duration> {
    match (idle, half_close) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Moves a mark to `now` if its count has changed.
pub(crate) fn follow(mark: &mut (Instant, u64), count: u64, now: Instant) {
    if mark.1 != count {
        *mark = (now, count);
    }
}
