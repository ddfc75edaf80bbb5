//! The program itself: started, watched through its log, signalled, and always ended.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::{wait_for, wait_until};

/// A running `evenkeel`.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    incoming: Receiver<String>,
    lines: Vec<String>,
    file: Option<tempfile::NamedTempFile>,
}

impl Daemon {
    /// With these arguments; returns when it has said what it listens on.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = program();
        command.args(arguments);
        Self::spawn(command).ready()
    }

    /// `run -c` with a file of this content.
    pub(crate) fn configured(text: &str) -> Self {
        let file = config_file(text);
        let mut command = program();
        command.args(["run", "-c"]).arg(file.path());
        let mut daemon = Self::spawn(command);
        daemon.file = Some(file);
        daemon.ready()
    }

    /// Gives the file that it runs with another content.
    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.config_path(), text).unwrap();
    }

    /// The file that it runs with.
    pub(crate) fn config_path(&self) -> &Path {
        self.file.as_ref().unwrap().path()
    }

    /// A test backend on a free port.
    pub(crate) fn backend(arguments: &[&str]) -> Self {
        Self::start(&[&["backend", "--port", "0"], arguments].concat())
    }

    /// Whatever `command` starts; its log is read, nothing is awaited.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (give, incoming) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if give.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, incoming, lines: Vec::new(), file: None }
    }

    /// Waits until it has named its addresses, which the line about limits follows.
    pub(crate) fn ready(mut self) -> Self {
        self.line("at most ");
        self
    }

    /// The first address it listens on.
    pub(crate) fn address(&mut self) -> SocketAddr {
        self.address_of("(")
    }

    /// The address named in the start-up line that has `mark`, such as `listener web `.
    pub(crate) fn address_of(&mut self, mark: &str) -> SocketAddr {
        let found = self.find(&["listening on ", mark]).unwrap();
        let (_, rest) = found.split_once("listening on ").unwrap();
        rest.split(' ').next().unwrap().trim_matches('"').parse().unwrap()
    }

    /// All log lines so far.
    pub(crate) fn log(&mut self) -> &[String] {
        self.lines.extend(self.incoming.try_iter());
        &self.lines
    }

    /// Waits for a log line with this text.
    pub(crate) fn line(&mut self, text: &str) -> String {
        self.line_with(&[text])
    }

    /// Waits for a log line with all of these texts.
    pub(crate) fn line_with(&mut self, texts: &[&str]) -> String {
        let fact = format!("a log line with {texts:?}");
        let mut found = None;
        wait_until_or_show(self, &fact, |daemon| {
            found = daemon.find(texts);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until so many log lines have this text.
    pub(crate) fn lines(&mut self, count: usize, text: &str) {
        let fact = format!("{count} log lines with {text:?}");
        wait_until_or_show(self, &fact, |daemon| daemon.count(text) >= count);
    }

    /// How many log lines have this text by now.
    pub(crate) fn count(&mut self, text: &str) -> usize {
        self.log().iter().filter(|line| line.contains(text)).count()
    }

    fn find(&mut self, texts: &[&str]) -> Option<String> {
        let has_all = |line: &&String| texts.iter().all(|text| line.contains(text));
        self.log().iter().find(has_all).cloned()
    }

    /// The status table, asked for now: its lines after the header.
    pub(crate) fn status(&mut self) -> Vec<String> {
        let before = self.log().len();
        self.signal(Signal::USR1);
        // The first line says how many backends follow; what ended comes last if anything did.
        wait_for("the status table", || {
            let lines: Vec<String> =
                self.log()[before..].iter().filter(|l| l.contains("status: ")).cloned().collect();
            let backends = lines.iter().filter(|line| line.contains(", weight ")).count();
            let whole = format!("; of {backends} backends:");
            lines.iter().any(|line| line.contains(&whole)).then_some(lines)
        })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let status = wait_for("the process to end", || self.child.try_wait().unwrap());
        // Its last lines may still be on their way.
        while let Ok(line) = self.incoming.recv() {
            self.lines.push(line);
        }
        status
    }

    /// Waits until it has ended by itself; its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.exit().code()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Memory in use, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Descriptors in use.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Descriptors in use of one kind: `socket` or `pipe`.
    pub(crate) fn descriptors_of(&self, kind: &str) -> usize {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        // One that was closed since it was listed is not counted.
        let targets = folder.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with(kind)).count()
    }

    /// Processor time used so far, in ticks of 10 ms.
    pub(crate) fn processor_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks =
            |field: usize| -> u64 { fields.split(' ').nth(field).unwrap().parse().unwrap() };
        ticks(11) + ticks(12)
    }
}

impl Drop for Daemon {
    #[expect(clippy::print_stderr, reason = "what it said helps to understand the failure")]
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log().join("\n");
            eprintln!("--- its log:\n{log}\n---");
        }
    }
}

/// One listener and one pool, both called `web`, without health checks unless asked for.
#[derive(Debug)]
pub(crate) struct Setup {
    global: String,
    listener: String,
    pool: String,
    health: String,
    backends: String,
}

impl Setup {
    pub(crate) fn new(backends: &[SocketAddr]) -> Self {
        let mut list = String::new();
        for backend in backends {
            write!(list, "\"{backend}\", ").unwrap();
        }
        Self::listing(&list)
    }

    /// With backends written as in a file.
    pub(crate) fn listing(backends: &str) -> Self {
        Self {
            global: String::new(),
            listener: String::new(),
            pool: String::new(),
            health: "type = \"none\"".to_owned(),
            backends: backends.to_owned(),
        }
    }

    /// Adds to `[global]`.
    pub(crate) fn global(mut self, line: &str) -> Self {
        writeln!(self.global, "{line}").unwrap();
        self
    }

    /// Adds to the listener.
    pub(crate) fn listener(mut self, line: &str) -> Self {
        writeln!(self.listener, "{line}").unwrap();
        self
    }

    /// Adds to the pool.
    pub(crate) fn pool(mut self, line: &str) -> Self {
        writeln!(self.pool, "{line}").unwrap();
        self
    }

    /// Replaces the health section.
    pub(crate) fn health(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.health);
        self
    }

    /// The file.
    pub(crate) fn text(&self) -> String {
        let Self { global, listener, pool, health, backends } = self;
        let bind = if listener.contains("bind") { "" } else { "bind = [\"127.0.0.1:0\"]" };
        format!(
            "[global]\n{global}\n[listener.web]\n{bind}\n{listener}\n\
             [pool.web]\nbackends = [{backends}]\n{pool}\n[pool.web.health]\n{health}\n"
        )
    }

    pub(crate) fn start(&self) -> Daemon {
        Daemon::configured(&self.text())
    }
}

/// Quick checks, for tests that wait for several of them.
pub(crate) const QUICK_HEALTH: &str = "type = \"tcp\"\ninterval = \"100ms\"\n\
    fast_interval = \"50ms\"\ntimeout = \"10s\"\n";

/// The binary under test, with a log that the environment does not change.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A file with this content, removed when dropped.
pub(crate) fn config_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn wait_until_or_show(daemon: &mut Daemon, fact: &str, mut look: impl FnMut(&mut Daemon) -> bool) {
    wait_until(fact, || look(daemon));
}
