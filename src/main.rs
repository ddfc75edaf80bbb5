//! The program: arguments to a command, a command to an exit code. The only file that exits.

mod connections;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::admin::change::{WantedState, Wishes};
use evenkeel::admin::{self, Changed, Snapshot};
use evenkeel::answer::{Answerer, HttpAnswer, LineAnswer};
use evenkeel::cli::{self, Check, Command, Demo, Run, Source, Status, TestBackend, Wait, Wish};
use evenkeel::config::{
    self, Amendments, Complaint, Config, LoadError, LogFormat, Origin, state_file,
};
use evenkeel::demo::{self, DemoError};
use evenkeel::logging;
use evenkeel::reactor::{self, Door, Ending, Question, Reactor, StartError};
use log::LevelFilter;
use serde::de::DeserializeOwned;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            // Nothing can be done about an output that is closed.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let outcome = match command {
        Command::Run(run) => balance(&run),
        Command::Check(check) => examine(&check),
        Command::Demo(demo) => show(&demo),
        Command::Backend(backend) => answer(backend),
        Command::Status(status) => tell(&status),
        Command::Change(change) => alter(&change),
        Command::Explain(explain) => connections::explain(&explain),
        Command::Sessions(sessions) => connections::sessions(&sessions),
        Command::Completions(shell) => print(&cli::completions(shell)),
        Command::Manual => cli::manual().map_err(Failure::from).and_then(|page| print(&page)),
    };
    match outcome {
        Ok(Ending::Drained) => ExitCode::SUCCESS,
        Ok(Ending::Cut(0)) => ExitCode::SUCCESS,
        Ok(Ending::Cut(_)) => ExitCode::from(5),
        Err(failure) => {
            let _ = write!(io::stderr(), "{}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn balance(run: &Run) -> Result<Ending, Failure> {
    let (mut config, warnings, origin) = match &run.source {
        Source::File(file) => {
            let origin = Origin { file: file.clone(), overrides: run.overrides.clone() };
            let loaded = origin.load()?;
            let warnings = loaded.render(&loaded.warnings);
            (loaded.config, warnings, Some(origin))
        }
        Source::Arguments { listen, backends } => {
            (Config::from_arguments(listen, backends)?, String::new(), None)
        }
    };
    config.apply(&run.overrides)?;
    start(config.global.log_format, run.level);
    match config.global.log_format {
        LogFormat::Text => drop(write!(io::stderr(), "{warnings}")),
        // Whoever reads objects must not meet a drawing.
        LogFormat::Json if warnings.is_empty() => {}
        LogFormat::Json => log::warn!("{}", warnings.trim_end()),
    }
    let amendments = match &config.global.state_file {
        Some(path) => state_file::load(path)?,
        None => Amendments::default(),
    };
    Ok(Reactor::balancing(config, origin, amendments)?.run()?)
}

/// Loads as `run` would, and resolves the names unless told not to.
fn examine(check: &Check) -> Result<Ending, Failure> {
    let loaded = config::load(&check.file)?;
    let mut warnings = loaded.warnings.clone();
    for name in loaded.names.iter().filter(|_| !check.offline) {
        if let Err(error) = reactor::look_up(&name.host, name.port) {
            let message = format!("the name {:?} does not resolve now ({error})", name.host);
            let cure = "check the spelling; a running balancer asks again every 5 s";
            warnings.push(Complaint::new(message, cure).at(name.span.clone()).as_warning());
        }
    }
    let kept = loaded.config.global.state_file.as_deref().map(examine_kept).transpose()?;
    let _ = write!(io::stderr(), "{}", loaded.render(&warnings));
    let _ = write!(io::stdout(), "{}\n{}", loaded.summary(), kept.unwrap_or_default());
    Ok(Ending::Drained)
}

/// What is kept of changes made at run time, in a line if there is any.
fn examine_kept(path: &Path) -> Result<String, Failure> {
    let kept = state_file::load(path)?;
    if let Some(complaint) = state_file::obstacle(path) {
        let _ = writeln!(io::stderr(), "warning: {complaint}");
    }
    let path = path.display();
    Ok(match kept.len() {
        0 => String::new(),
        1 => format!("{path}: 1 backend was changed at run time\n"),
        number => format!("{path}: {number} backends were changed at run time\n"),
    })
}

fn show(demo: &Demo) -> Result<Ending, Failure> {
    start(demo.overrides.log_format.unwrap_or_default(), demo.level);
    Ok(demo::run(demo, &mut io::stdout())?)
}

fn answer(backend: TestBackend) -> Result<Ending, Failure> {
    if let Some(parent) = backend.exit_with
        && demo::is_orphaned(parent)?
    {
        return Ok(Ending::Drained);
    }
    start(LogFormat::Text, LevelFilter::Info);
    let door = if backend.inherit_listener {
        // Standard input must not keep the socket open once we stop listening.
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
        Door::Inherit(socket)
    } else {
        Door::Bind(backend.listen)
    };
    let answerer = |port: Option<u16>| {
        let name = match (backend.name, port) {
            (Some(name), _) => name,
            (None, Some(port)) if backend.http => port.to_string(),
            (None, Some(port)) => format!("backend:{port}"),
            (None, None) => "backend".to_owned(),
        };
        if backend.http {
            Answerer::Http(HttpAnswer::new(&name, port))
        } else {
            Answerer::Line(LineAnswer::new(&name))
        }
    };
    Ok(Reactor::answering(door, answerer, backend.delay)?.run()?)
}

/// To standard output; who closes it has seen enough.
fn print(text: &[u8]) -> Result<Ending, Failure> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(Ending::Drained),
    }
}

/// Asks a running balancer for its state and shows it.
fn tell(status: &Status) -> Result<Ending, Failure> {
    let body = inquire(&status.admin, Question::Get(STATUS))?;
    let shown = if status.json {
        String::from_utf8_lossy(&body).into_owned()
    } else {
        admin::table(&understood(&status.admin, &body)?)
    };
    // Who closes our output has seen enough.
    let _ = write!(io::stdout(), "{shown}");
    Ok(Ending::Drained)
}

/// Changes a backend of a running balancer, and waits for what comes of it if that is wanted.
fn alter(change: &cli::Change) -> Result<Ending, Failure> {
    let (weight, state) = match change.wish {
        Wish::Drain => (None, Some(WantedState::Draining)),
        Wish::Ready => (None, Some(WantedState::Ready)),
        Wish::Maintenance => (None, Some(WantedState::Maintenance)),
        Wish::Weight(weight) => (Some(weight), None),
    };
    let cli::Backend { pool, address } = change.backend.clone();
    let asked = admin::Change { pool, address, wishes: Wishes { weight, state } };
    let json = serde_json::to_string(&asked.wishes).map_err(io::Error::from)?;
    let body = inquire(&change.admin, Question::Patch(&asked.path(), &json))?;
    let changed: Changed = understood(&change.admin, &body)?;
    show_backend(change, &changed);
    if !changed.pool_available {
        let _ = writeln!(io::stderr(), "evenkeel: nobody can serve in pool {} now", changed.pool);
    }
    match change.wait {
        Some(wait) => empty(change, wait, changed),
        None => Ok(Ending::Drained),
    }
}

/// Waits until a backend that takes no new clients has no connections.
#[expect(
    clippy::disallowed_methods,
    reason = "this is no loop of events: it may look at the clock"
)]
fn empty(change: &cli::Change, wait: Wait, mut seen: Changed) -> Result<Ending, Failure> {
    let until = wait.deadline.map(|deadline| Instant::now() + deadline);
    while seen.backend.active > 0 {
        let (name, left) = (format!("{}/{}", seen.pool, seen.backend.address), seen.backend.active);
        if !seen.backend.takes_no_more() {
            let state = &seen.backend.state;
            let message = format!("evenkeel: {name} is {state}, somebody has ended the drain\n");
            return Err(Failure { message, code: 7 });
        }
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            let message = format!(
                "evenkeel: the deadline passed, {left} connections of {name} are left; they go on, \
                 and it still drains\n"
            );
            return Err(Failure { message, code: 7 });
        }
        thread::sleep(rest.map_or(LOOK, |rest| rest.min(LOOK)));
        let status: Snapshot =
            understood(&change.admin, &inquire(&change.admin, Question::Get(STATUS))?)?;
        let found = status.backends().find(|(pool, backend)| {
            pool.name == seen.pool && backend.address == seen.backend.address
        });
        let Some((pool, backend)) = found else {
            return Err(Failure { message: format!("evenkeel: {name} is gone\n"), code: 7 });
        };
        seen.pool_available = pool.available;
        seen.backend = backend.clone();
        if seen.backend.active != left {
            show_backend(change, &seen);
        }
    }
    Ok(Ending::Drained)
}

fn show_backend(change: &cli::Change, changed: &Changed) {
    let line = match serde_json::to_string(changed) {
        Ok(json) if change.json => json,
        Ok(_) | Err(_) => admin::one_line(changed),
    };
    // Who closes our output has seen enough.
    let _ = writeln!(io::stdout(), "{line}");
}

/// What an answer says.
fn understood<T: DeserializeOwned>(admin: &cli::Admin, body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| unanswered(admin, &format!("it is no evenkeel: {error}")))
}

/// The answer of a running balancer to a question.
fn inquire(admin: &cli::Admin, question: Question<'_>) -> Result<Vec<u8>, Failure> {
    let refused = |message: String| Failure { message: format!("evenkeel: {message}\n"), code: 1 };
    let token = match &admin.token_file {
        Some(file) => Some(config::read_token(file).map_err(|error| refused(error.to_string()))?),
        None => None,
    };
    let answered = reactor::ask(&admin.address, question, token.as_ref())
        .map_err(|why| unanswered(admin, &why))?;
    match answered.status {
        200 => Ok(answered.body),
        401 => Err(refused(format!(
            "the balancer at {} wants its token; name the file that holds it with --token-file \
             or EVENKEEL_TOKEN_FILE",
            admin.address
        ))),
        code => Err(refused(format!(
            "the balancer at {} refused ({code}): {}",
            admin.address,
            admin::error_in(&answered.body)
        ))),
    }
}

fn unanswered(admin: &cli::Admin, why: &str) -> Failure {
    let message = format!(
        "evenkeel: no answer from the admin address {} ({why}); is a balancer running there, with \
         --admin or an [admin] table? Name another address with --admin or EVENKEEL_ADMIN\n",
        admin.address
    );
    Failure { message, code: 6 }
}

const STATUS: &str = "/api/v1/status";
/// Between two looks at a backend that is to become empty.
const LOOK: Duration = Duration::from_millis(250);

fn start(format: LogFormat, level: LevelFilter) {
    logging::start(format, level);
    if let Err(error) = reactor::raise_descriptor_limit() {
        log::warn!("cannot raise the descriptor limit: {error}");
    }
}

/// Why the program could not do what it was asked, and with which code it exits.
struct Failure {
    message: String,
    code: u8,
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self { message: error.to_string(), code: 3 }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::Bind { .. } => 4,
            StartError::Descriptors { .. } | StartError::System(_) => 1,
        };
        Self { message: format!("evenkeel: {error}\n"), code }
    }
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::Start(error) => error.into(),
            DemoError::BackendPort { .. } => {
                Self { message: format!("evenkeel: {error}\n"), code: 4 }
            }
            DemoError::System(error) => error.into(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { message: format!("evenkeel: {error}\n"), code: 1 }
    }
}
