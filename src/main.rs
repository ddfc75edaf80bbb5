//! The program: arguments to a command, a command to an exit code. The only file that exits.

#[path = "main/changing.rs"]
mod changing;
mod connections;
#[path = "main/diagnosing.rs"]
mod diagnosing;
#[path = "main/watching.rs"]
mod watching;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use evenkeel::admin::{self, Snapshot};
use evenkeel::answer::{Answerer, HttpAnswer, LineAnswer};
use evenkeel::cli::{self, Check, Command, Demo, Run, Source, Status, TestBackend};
use evenkeel::config::{
    self, Amendments, Complaint, Config, LoadError, LogFormat, Origin, state_file,
};
use evenkeel::demo::{self, DemoError};
use evenkeel::logging;
use evenkeel::reactor::{self, Answered, Door, Ending, Question, Reactor, StartError};
use log::LevelFilter;
use serde::de::{DeserializeOwned, IgnoredAny};

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
        Command::Change(change) => changing::alter(&change),
        Command::Add(add) => changing::add(&add),
        Command::Remove(remove) => changing::remove(&remove),
        Command::Reload(reload) => changing::reload(&reload),
        Command::Plan(plan) => changing::plan(&plan),
        Command::Explain(explain) => connections::explain(&explain),
        Command::Sessions(sessions) => connections::sessions(&sessions),
        Command::Top(top) => watching::top(&top),
        Command::Doctor(doctor) => diagnosing::doctor(&doctor),
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
        Some(path) => restore(path, &config)?,
        None => Amendments::default(),
    };
    Ok(Reactor::balancing(config, origin, amendments)?.run()?)
}

/// What was changed before the program was started, which is told.
fn restore(path: &Path, config: &Config) -> Result<Amendments, Failure> {
    let kept = state_file::load(path)?;
    config.check_amended(&kept)?;
    if let Some(complaint) = state_file::obstacle(path) {
        log::warn!("{complaint}");
    }
    let mut settled = kept.clone();
    settled.settle(config);
    let (holds, rest) = (settled.len(), kept.len() - settled.len());
    if !kept.is_empty() {
        log::info!(
            "{}: {holds} backends are as they were changed at run time, {rest} as configured now",
            path.display()
        );
    }
    Ok(kept)
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
    let config = &loaded.config;
    let examine_kept = |path| examine_kept(path, config);
    let kept = config.global.state_file.as_deref().map(examine_kept).transpose()?;
    let _ = write!(io::stderr(), "{}", loaded.render(&warnings));
    print(format!("{}\n{}", loaded.summary(), kept.unwrap_or_default()).as_bytes())
}

/// What is kept of changes made at run time, in a line if there is any.
fn examine_kept(path: &Path, config: &Config) -> Result<String, Failure> {
    let kept = state_file::load(path)?;
    config.check_amended(&kept)?;
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
    let mut out = io::stdout();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(Ending::Drained),
    }
}

/// Asks a running balancer for its state and shows it.
fn tell(status: &Status) -> Result<Ending, Failure> {
    let (body, snapshot) = state_of(&status.admin)?;
    if status.json { print(&body) } else { print(admin::table(&snapshot).as_bytes()) }
}

/// The state of a running balancer, as it came and as it is understood.
fn state_of(admin: &cli::Admin) -> Result<(Vec<u8>, Snapshot), Failure> {
    let body = inquire(admin, Question::Get("/api/v1/status"))?;
    let snapshot: Snapshot = understood(admin, &body)?;
    if snapshot.service != env!("CARGO_PKG_NAME") {
        return Err(stranger(admin, "the status is of another program"));
    }
    Ok((body, snapshot))
}

/// What an answer says.
fn understood<T: DeserializeOwned>(admin: &cli::Admin, body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| stranger(admin, &error.to_string()))
}

/// The answer of a running balancer to a question that it can answer.
fn inquire(admin: &cli::Admin, question: Question<'_>) -> Result<Vec<u8>, Failure> {
    let answered = exchange(admin, question)?;
    match answered.status {
        200..=299 => Ok(answered.body),
        _ => Err(refused(admin, &answered)),
    }
}

/// Whatever a running balancer answers.
fn exchange(admin: &cli::Admin, question: Question<'_>) -> Result<Answered, Failure> {
    let token = match &admin.token_file {
        Some(file) => Some(
            config::read_token(file)
                .map_err(|error| Failure { message: format!("evenkeel: {error}\n"), code: 1 })?,
        ),
        None => None,
    };
    let answered = reactor::ask(&admin.address, question, token.as_ref())
        .map_err(|why| unanswered(admin, &why))?;
    // A balancer tells of success in an object that says something.
    let is_good = (200..=299).contains(&answered.status);
    if is_good && understood::<HashMap<String, IgnoredAny>>(admin, &answered.body)?.is_empty() {
        return Err(stranger(admin, "the answer is empty"));
    }
    Ok(answered)
}

fn refused(admin: &cli::Admin, answered: &Answered) -> Failure {
    let address = &admin.address;
    let message = match answered.status {
        401 => format!(
            "evenkeel: the balancer at {address} wants its token; name the file that holds it with \
             --token-file or EVENKEEL_TOKEN_FILE\n"
        ),
        code => format!(
            "evenkeel: the balancer at {address} refused ({code}): {}\n",
            admin::error_in(&answered.body)
        ),
    };
    Failure { message, code: 1 }
}

/// Somebody answered, but no balancer.
fn stranger(admin: &cli::Admin, why: &str) -> Failure {
    unanswered(admin, &format!("it is no evenkeel: {why}"))
}

fn unanswered(admin: &cli::Admin, why: &str) -> Failure {
    let message = format!(
        "evenkeel: no answer from the admin address {} ({why}); is a balancer running there, with \
         --admin or an [admin] table? Name another address with --admin or EVENKEEL_ADMIN\n",
        admin.address
    );
    Failure { message, code: 6 }
}

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
            StartError::Bind { .. } | StartError::Overlap { .. } => 4,
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
