//! The log: `log` and `env_logger`, as text or JSON, on standard error.
//!
//! Traffic never waits for a log. A line is written only when the kernel says that standard error
//! takes it at once; otherwise it is dropped and counted, and the count is told as soon as lines
//! are taken again. The promise holds for lines of up to 4096 bytes (PIPE_BUF), so longer ones are
//! cut. Standard error is not made non-blocking, because it may be shared with other programs.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Stderr, Write};

use env_logger::fmt::Formatter;
use env_logger::{Builder, DEFAULT_FILTER_ENV, Target};
use log::kv::{Error, Key, Value, VisitSource};
use log::{LevelFilter, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::{AccessLog, LogFormat};

/// Starts the log. `RUST_LOG` holds over `level`; lines about connections, which are written only
/// where they were asked for, come at any level.
pub fn start(format: LogFormat, level: LevelFilter) {
    let mut builder = Builder::new();
    builder.filter_level(level);
    if std::env::var_os(DEFAULT_FILTER_ENV).is_none() {
        builder.filter_module(AccessLog::TARGET, level.max(LevelFilter::Info));
    }
    builder.parse_default_env().target(Target::Pipe(Box::new(Sink::new(format))));
    match format {
        LogFormat::Text => builder.format(text),
        LogFormat::Json => builder.format(json),
    };
    // A second start, as in tests, leaves the first log as it is.
    let _ = builder.try_init();
}

fn text(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let mut fields = Fields(String::new());
    let _ = record.key_values().visit(&mut fields);
    let time = out.timestamp_millis();
    writeln!(out, "{time} {:5} {}{}", record.level(), record.args(), fields.0)
}

fn json(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let mut object = Object(serde_json::Map::new());
    let time = out.timestamp_millis();
    object.0.insert("time".into(), time.to_string().into());
    object.0.insert("level".into(), record.level().as_str().into());
    object.0.insert("target".into(), record.target().into());
    object.0.insert("message".into(), record.args().to_string().into());
    let _ = record.key_values().visit(&mut object);
    writeln!(out, "{}", serde_json::Value::Object(object.0))
}

/// Fields as ` key=value`, values with spaces in quotes.
struct Fields(String);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let value = value.to_string();
        if value.contains([' ', '"', '=']) {
            write!(self.0, " {key}={value:?}")?;
        } else {
            write!(self.0, " {key}={value}")?;
        }
        Ok(())
    }
}

/// Fields as members of an object.
struct Object(serde_json::Map<String, serde_json::Value>);

impl<'kvs> VisitSource<'kvs> for Object {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let value = value.to_u64().map_or_else(|| value.to_string().into(), Into::into);
        self.0.insert(key.to_string(), value);
        Ok(())
    }
}

/// Standard error, as long as it takes lines.
#[derive(Debug)]
struct Sink {
    out: Stderr,
    format: LogFormat,
    is_terminal: bool,
    dropped: u64,
}

impl Sink {
    fn new(format: LogFormat) -> Self {
        let out = io::stderr();
        Self { is_terminal: out.is_terminal(), out, format, dropped: 0 }
    }

    fn note(&self) -> String {
        let count = self.dropped;
        match self.format {
            LogFormat::Text => format!("{count} log lines were dropped: nobody read them\n"),
            LogFormat::Json => {
                let message = "log lines were dropped: nobody read them";
                let note = serde_json::json!({
                    "level": "WARN", "message": message, "dropped": count
                });
                format!("{note}\n")
            }
        }
    }

    fn has_room(&self) -> bool {
        let mut fds = [PollFd::new(&self.out, PollFlags::OUT)];
        let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_err() || !fds[0].revents().is_empty()
    }

    /// A log that is gone for good is no reason to stop.
    fn put(&mut self, line: &[u8]) {
        if line.len() <= ATOMIC || self.is_terminal {
            let _ = self.out.write(line);
            return;
        }
        let mut cut = line[..ATOMIC - CUT_MARK.len()].to_vec();
        cut.extend_from_slice(CUT_MARK);
        let _ = self.out.write(&cut);
    }
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.dropped > 0 && self.has_room() {
            // In one write with the line if they fit: a small pipe may have room for one only.
            let note = self.note();
            self.dropped = 0;
            if note.len() + line.len() <= ATOMIC {
                self.put(&[note.as_bytes(), line].concat());
                return Ok(line.len());
            }
            self.put(note.as_bytes());
        }
        if self.has_room() {
            self.put(line);
        } else {
            self.dropped += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe with any room takes so much at once (PIPE_BUF on Linux, man 7 pipe).
const ATOMIC: usize = 4096;
const CUT_MARK: &[u8] = b"...\n";
