//! The terminal of `evenkeel top`: keys in, lines out, and everything as it was when it ends.
//!
//! It has nothing to do with the loop, and stands here because it reads the clock. The balancer is
//! asked by a thread of its own, so that keys are obeyed while it is silent. The terminal is given
//! back on every way out: keys, signals, a failed write, a panic.

use std::io::{self, ErrorKind, IsTerminal, Write, stdin, stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use serde::Serialize;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::clock;
use crate::admin::Snapshot;
use crate::top::rates::Rates;
use crate::top::view::{Line, Style, page, screen};
use crate::top::{Act, Key, News, Order, Top};

/// How often and in which form the table is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between two statuses.
    pub interval: Duration,
    /// So many times; `None`: until told to end.
    pub frames: Option<u64>,
    /// As text even where there is a terminal.
    pub plain: bool,
    /// As one JSON object for each status.
    pub json: bool,
}

/// Shows the table until told to end. `oracle` asks the balancer; it may take its time.
///
/// False if nobody answered when the last of so many tables was due.
///
/// # Errors
/// When the terminal or the output fails.
pub fn show<O>(mut top: Top, pace: Pace, mut oracle: O) -> io::Result<bool>
where
    O: FnMut(Order) -> Result<News, String> + Send + 'static,
{
    let is_screen = !pace.plain && !pace.json && stdin().is_terminal() && stdout().is_terminal();
    let shown = if is_screen {
        let (orders, taken) = channel::<Order>();
        let (give, answers) = channel();
        thread::Builder::new().name("asking".into()).spawn(move || {
            for order in taken {
                let is_look = order == Order::Look;
                if give.send((is_look, oracle(order))).is_err() {
                    return;
                }
            }
        })?;
        Live { line: Asking { orders, answers, is_asked: false }, next: clock(), pace }
            .run(&mut top)
            .map(|()| true)
    } else {
        print(&mut top, pace, oracle)
    };
    match shown {
        // Who closes our output has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(true),
        outcome => outcome,
    }
}

/// One status after the other to standard output, each an interval after the one before.
#[expect(clippy::disallowed_methods, reason = "there is nothing else to wait for")]
fn print<O>(top: &mut Top, pace: Pace, mut oracle: O) -> io::Result<bool>
where
    O: FnMut(Order) -> Result<News, String>,
{
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = width.filter(|&columns| columns > 0).unwrap_or(PLAIN_WIDTH);
    let (mut frame, mut is_answered) = (0, true);
    // Rates need two statuses.
    if let Ok(news) = oracle(Order::Look) {
        top.hear(news);
    }
    while pace.frames.is_none_or(|frames| frame < frames) {
        thread::sleep(pace.interval);
        let answer = oracle(Order::Look);
        is_answered = answer.is_ok();
        match answer {
            Ok(news) => {
                top.hear(news);
                let text = if pace.json { object(top)? } else { page(top, width) };
                let gap = if frame > 0 && !pace.json { "\n" } else { "" };
                let mut out = stdout().lock();
                write!(out, "{gap}{text}")?;
                out.flush()?;
            }
            Err(why) => {
                // Nothing can be done about an output that is closed.
                let _ = writeln!(io::stderr(), "{why}");
                top.unanswered(why);
            }
        }
        frame += 1;
    }
    Ok(is_answered)
}

/// A status and what happened in a second, on one line.
fn object(top: &Top) -> io::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        rates: Option<&'a Rates>,
        status: Option<&'a Snapshot>,
    }
    let (status, rates) = top.seen();
    let text = serde_json::to_string(&Object { rates, status }).map_err(io::Error::from)?;
    Ok(text + "\n")
}

/// The table on a terminal.
#[derive(Debug)]
struct Live {
    line: Asking,
    next: Instant,
    pace: Pace,
}

impl Live {
    fn run(mut self, top: &mut Top) -> io::Result<()> {
        let told_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(&told_to_end))?;
        }
        let mut frames = 0;
        let terminal = Terminal::take()?;
        loop {
            terminal.draw(top)?;
            self.line.look_if_due(clock() >= self.next);
            let ending = self.wait(top, &terminal)?;
            for (is_look, answer) in self.line.answers.try_iter() {
                if is_look {
                    self.line.is_asked = false;
                    self.next = clock() + self.pace.interval;
                    frames += 1;
                }
                match answer {
                    Ok(news) => top.hear(news),
                    Err(why) if is_look => top.unanswered(why),
                    Err(why) => top.refused(why),
                }
            }
            let is_enough = self.pace.frames.is_some_and(|most| frames > most);
            if ending || is_enough || told_to_end.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    /// Until there is a key, an answer may be there, or it is time to ask; true: to end.
    fn wait(&mut self, top: &mut Top, terminal: &Terminal) -> io::Result<bool> {
        let until_next = self.next.saturating_duration_since(clock());
        let timeout = if self.line.is_asked { SOON } else { until_next.min(LATER) };
        if hangs_up(timeout)? {
            return Ok(true);
        }
        // What was typed or pasted meanwhile is obeyed before anything is shown.
        while event::poll(Duration::ZERO)? {
            let Some(key) = meant(&event::read()?) else { continue };
            match top.press(key) {
                Act::Show => {}
                Act::Quit => return Ok(true),
                Act::Suspend => terminal.suspend()?,
                Act::Ask(Order::Look) => self.next = clock(),
                Act::Ask(order) => self.line.ask(order),
            }
        }
        Ok(false)
    }
}

/// The line to the thread that asks.
#[derive(Debug)]
struct Asking {
    orders: Sender<Order>,
    answers: Receiver<(bool, Result<News, String>)>,
    /// Whether a status is awaited.
    is_asked: bool,
}

impl Asking {
    fn look_if_due(&mut self, is_due: bool) {
        if is_due && !self.is_asked {
            self.is_asked = true;
            self.ask(Order::Look);
        }
    }

    /// The thread lives as long as this does.
    fn ask(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}

/// The terminal, as long as it is ours.
#[derive(Debug)]
struct Terminal {
    colours: bool,
}

impl Terminal {
    fn take() -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let terminal = Self { colours };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, DisableLineWrap, Hide, Clear(ClearType::All))
    }

    /// Stops as Ctrl-Z does elsewhere, and goes on when continued.
    fn suspend(&self) -> io::Result<()> {
        give_back();
        kill_process(getpid(), Signal::TSTP)?;
        self.enter()
    }

    /// Writes over what was there, so that nothing flickers.
    fn draw(&self, top: &Top) -> io::Result<()> {
        let (width, height) = size()?;
        let lines = screen(top, width.into(), height.into());
        let mut out = stdout().lock();
        queue!(out, BeginSynchronizedUpdate)?;
        for row in 0..height {
            queue!(out, MoveTo(0, row))?;
            let line = lines.get(usize::from(row));
            if let Some(line) = line {
                self.write(line, &mut out)?;
            }
            // Behind a full line the cursor is still on its last character.
            if line.is_none_or(|line| line.width() < usize::from(width)) {
                queue!(out, Clear(ClearType::UntilNewLine))?;
            }
        }
        queue!(out, EndSynchronizedUpdate)?;
        out.flush()
    }

    fn write(&self, line: &Line, out: &mut impl Write) -> io::Result<()> {
        for piece in &line.pieces {
            match piece.style {
                Style::Plain => {}
                Style::Bold => queue!(out, SetAttribute(Attribute::Bold))?,
                Style::Dim => queue!(out, SetAttribute(Attribute::Dim))?,
                Style::Chosen => queue!(out, SetAttribute(Attribute::Reverse))?,
                Style::Good => self.colour(Color::DarkGreen, out)?,
                Style::Mild => self.colour(Color::DarkYellow, out)?,
                Style::Bad => self.colour(Color::DarkRed, out)?,
            }
            queue!(out, Print(&piece.text))?;
            if piece.style != Style::Plain {
                queue!(out, SetAttribute(Attribute::Reset))?;
            }
        }
        Ok(())
    }

    fn colour(&self, colour: Color, out: &mut impl Write) -> io::Result<()> {
        if self.colours {
            queue!(out, SetForegroundColor(colour))?;
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// As it was before. A terminal that is gone needs it no more.
fn give_back() {
    let _ = execute!(stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Waits for something to be typed; true if the terminal is gone. Whoever reads from one that is
/// gone would be told again and again that there is nothing.
fn hangs_up(timeout: Duration) -> io::Result<bool> {
    let keyboard = stdin();
    let mut fds = [PollFd::new(&keyboard, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        // A signal, such as that of a new size.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let is_gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
            Ok(fds[0].revents().intersects(is_gone))
        }
    }
}

/// The key of an event, if it is one that means something. A new size has none: the table is
/// shown again in any case.
fn meant(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c' | 'd') => Some(Key::Interrupt),
            KeyCode::Char('z') => Some(Key::Suspend),
            _ => None,
        };
    }
    match code {
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Char(character) => Some(Key::Char(*character)),
        _ => None,
    }
}

/// How soon an answer is looked for.
const SOON: Duration = Duration::from_millis(30);
/// How soon a signal is looked for.
const LATER: Duration = Duration::from_millis(250);
/// In characters, where nobody says how wide it is.
const PLAIN_WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_and_new_sizes_mean_nothing() {
        let key = |code, modifiers| meant(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Char('q')));
        assert_eq!(key(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Key::Char('G')));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(meant(&Event::Resize(10, 3)), None);
    }

    #[test]
    fn an_object_is_one_line() {
        let mut top = Top::new("here".to_owned());
        top.hear(News::Status(Box::default()));
        let text = object(&top).unwrap();
        assert!(text.starts_with("{\"rates\":null,\"status\":{") && text.lines().count() == 1);
    }
}
