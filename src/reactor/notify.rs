//! What the service manager is told: sd_notify(3), as datagrams to the socket that it names.
//!
//! `READY=1` once every socket is bound, `RELOADING=1` and `READY=1` around a reload, `STOPPING=1`
//! when the doors close, and `WATCHDOG=1` from the loop itself, twice in the time that the manager
//! allows: a loop that is stuck says nothing, and is started again. Nothing here waits for the
//! manager. What its socket does not take at once is owed, and sent before anything else.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Reactor;

/// The line to the service manager; nobody is told where there is none.
#[derive(Debug, Default)]
pub(super) struct Notify {
    manager: Option<Manager>,
    watchdog: Option<Watchdog>,
    owed: VecDeque<String>,
    retry: Option<Instant>,
}

impl Notify {
    /// As the environment asks for it.
    pub(super) fn from_environment(now: Instant) -> Self {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
        let asked = Asked {
            socket: env::var_os("NOTIFY_SOCKET"),
            watchdog: number("WATCHDOG_USEC").map(Duration::from_micros),
            of: number("WATCHDOG_PID"),
        };
        match Self::new(&asked, now) {
            Ok(notify) => notify,
            Err(error) => {
                log::warn!(
                    "the service manager cannot be told that this is ready: {error} (NOTIFY_SOCKET \
                     is {:?})",
                    asked.socket.unwrap_or_default()
                );
                Self::default()
            }
        }
    }

    fn new(asked: &Asked, now: Instant) -> io::Result<Self> {
        let Some(name) = asked.socket.as_ref().filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(ErrorKind::Unsupported, "no unix socket")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        // What is asked of a parent is not asked of us.
        let is_ours = asked.of.is_none_or(|id| id == u64::from(std::process::id()));
        let every = asked.watchdog.filter(|all| is_ours && !all.is_zero()).map(|all| all / 2);
        let watchdog = every.map(|every| Watchdog { every: every.max(QUICKEST), due: now });
        let manager = Some(Manager { socket, address, was_reached: true });
        Ok(Self { manager, watchdog, ..Self::default() })
    }

    /// Everything is in place, at the start or after a reload.
    pub(super) fn ready(&mut self, status: &str, now: Instant) {
        let process = std::process::id();
        self.say(format!("READY=1\nMAINPID={process}\nSTATUS={status}"), now);
    }

    /// A reload begins; [`Self::ready`] ends it, whatever has come of it. The manager wants to know
    /// the time, to tell this reload from the one before.
    pub(super) fn reloading(&mut self, now: Instant) {
        let time = clock_gettime(ClockId::Monotonic);
        let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1000;
        self.say(format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading"), now);
    }

    /// The doors close, and live connections go on.
    pub(super) fn stopping(&mut self, now: Instant) {
        self.say("STOPPING=1".to_owned(), now);
    }

    /// So many connections are left. Gives us more time than the manager would by itself, as long
    /// as we go on saying so.
    pub(super) fn draining(&mut self, left: usize, now: Instant) {
        let micros = MORE_TIME.as_micros();
        self.say(
            format!(
                "EXTEND_TIMEOUT_USEC={micros}\nSTATUS=draining, {left} connections are left; \
                 they may finish"
            ),
            now,
        );
    }

    /// Says what is due.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            while let Some(text) = self.owed.pop_front() {
                if !self.send(&text) {
                    self.owed.push_front(text);
                    self.retry = Some(now + RETRY);
                    break;
                }
            }
        }
        if let Some(watchdog) = &mut self.watchdog
            && watchdog.due <= now
        {
            watchdog.due = now + watchdog.every;
            // One that is not taken now is no use later.
            let _ = self.send("WATCHDOG=1");
        }
    }

    /// When [`Self::tick`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        let watchdog = self.watchdog.as_ref().map(|watchdog| watchdog.due);
        [watchdog, self.retry].into_iter().flatten().min()
    }

    fn say(&mut self, text: String, now: Instant) {
        if self.manager.is_none() || (self.owed.is_empty() && self.send(&text)) {
            return;
        }
        self.owed.push_back(text);
        if self.owed.len() > MOST_OWED {
            self.owed.pop_front();
        }
        self.retry.get_or_insert(now + RETRY);
    }

    /// False: the manager's queue is full.
    fn send(&mut self, text: &str) -> bool {
        let Some(manager) = &mut self.manager else { return true };
        match manager.socket.send_to_addr(text.as_bytes(), &manager.address) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => {
                if manager.was_reached {
                    log::warn!("the service manager does not hear this process: {error}");
                }
                manager.was_reached = false;
            }
            Ok(_) => manager.was_reached = true,
        }
        true
    }
}

impl Reactor {
    /// Tells the service manager that everything is in place, and how much there is.
    pub(super) fn announce(&mut self) {
        let backends: usize = self.pools.iter().map(|pool| pool.order().len()).sum();
        let status =
            format!("serving {} listeners, {backends} backends", self.places.listeners.len());
        self.notify.ready(&status, self.now);
    }
}

/// What the environment says.
#[derive(Debug, Default)]
struct Asked {
    socket: Option<OsString>,
    watchdog: Option<Duration>,
    /// Of which process the watchdog is.
    of: Option<u64>,
}

#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Whether the last message came through.
    was_reached: bool,
}

#[derive(Debug)]
struct Watchdog {
    every: Duration,
    due: Instant,
}

/// How soon what is owed is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// Messages that wait for a manager that takes none; older ones are dropped.
const MOST_OWED: usize = 8;
/// However short a time the manager allows.
const QUICKEST: Duration = Duration::from_millis(1);
/// Several times as long as it takes until [`Notify::draining`] is called again.
const MORE_TIME: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;

    /// A manager that listens at an abstract address, and the line to it.
    fn listened(name: &str, watchdog: Option<u64>) -> (UnixDatagram, Notify, Instant) {
        let name = format!("evenkeel-test-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager.set_nonblocking(true).unwrap();
        let watchdog = watchdog.map(Duration::from_micros);
        let asked = Asked { socket: Some(format!("@{name}").into()), watchdog, of: None };
        let now = clock();
        (manager, Notify::new(&asked, now).unwrap(), now)
    }

    fn heard(manager: &UnixDatagram) -> Option<String> {
        let mut space = [0; 500];
        let length = manager.recv(&mut space).ok()?;
        Some(String::from_utf8(space[..length].to_vec()).unwrap())
    }

    #[test]
    fn without_a_manager_nothing_is_said_and_nothing_is_due() {
        let now = clock();
        let mut notify = Notify::new(&Asked::default(), now).unwrap();
        notify.ready("serving", now);
        notify.tick(now);
        assert_eq!((notify.next(), notify.owed.len()), (None, 0));
        let socket = Some("vsock:2:1234".into());
        assert!(Notify::new(&Asked { socket, ..Asked::default() }, now).is_err());
    }

    #[test]
    fn the_watchdog_hears_from_us_twice_in_its_time() {
        let (manager, mut notify, now) = listened("watchdog", Some(2_000_000));
        notify.tick(now);
        assert_eq!(heard(&manager).as_deref(), Some("WATCHDOG=1"));
        assert_eq!(notify.next(), Some(now + Duration::from_secs(1)));
        notify.tick(now + Duration::from_millis(999));
        assert_eq!(heard(&manager), None);
        notify.tick(now + Duration::from_secs(1));
        assert_eq!(heard(&manager).as_deref(), Some("WATCHDOG=1"));
    }

    #[test]
    fn a_watchdog_of_another_process_is_not_ours() {
        let now = clock();
        let watchdog = Some(Duration::from_secs(1));
        for (of, expected) in [(1, None), (u64::from(std::process::id()), Some(now))] {
            let asked = Asked { socket: Some("/nowhere".into()), watchdog, of: Some(of) };
            assert_eq!(Notify::new(&asked, now).unwrap().next(), expected);
        }
    }

    #[test]
    fn what_a_full_queue_refuses_is_sent_later_and_in_its_order() {
        let (manager, mut notify, now) = listened("full", None);
        while notify.send("X=1") {}
        notify.reloading(now);
        notify.ready("serving", now);
        assert_eq!((notify.owed.len(), notify.next()), (2, Some(now + RETRY)));
        while heard(&manager).is_some() {}
        notify.tick(now + RETRY);
        assert!(heard(&manager).unwrap().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        assert!(heard(&manager).unwrap().starts_with("READY=1\nMAINPID="));
        assert_eq!((heard(&manager), notify.next()), (None, None));
    }

    #[test]
    fn what_is_owed_has_a_limit() {
        let (_manager, mut notify, now) = listened("limit", None);
        while notify.send("X=1") {}
        for left in 0..100 {
            notify.draining(left, now);
        }
        assert_eq!(notify.owed.len(), MOST_OWED);
        assert!(notify.owed.back().unwrap().contains("99 connections"));
    }

    #[test]
    fn a_manager_that_is_gone_holds_nobody_up() {
        let (manager, mut notify, now) = listened("gone", None);
        drop(manager);
        notify.ready("serving", now);
        assert_eq!((notify.owed.len(), notify.next()), (0, None));
    }
}
