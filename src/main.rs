//! The program: arguments to a command, a command to an exit code. The only file that exits.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use evenkeel::admin::{self, Snapshot};
use evenkeel::answer::{Answerer, HttpAnswer, LineAnswer};
use evenkeel::cli::{self, Check, Command, Demo, Run, Source, Status, TestBackend};
use evenkeel::config::{self, Complaint, Config, LoadError, LogFormat};
use evenkeel::demo::{self, DemoError};
use evenkeel::logging;
use evenkeel::reactor::{self, Door, Ending, Reactor, StartError};
use log::LevelFilter;

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
    let (mut config, warnings) = match &run.source {
        Source::File(file) => {
            let loaded = config::load(file)?;
            let warnings = loaded.render(&loaded.warnings);
            (loaded.config, warnings)
        }
        Source::Arguments { listen, backends } => {
            (Config::from_arguments(listen, backends)?, String::new())
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
    Ok(Reactor::balancing(&config)?.run()?)
}

/// Loads as `run` would, and resolves the names unless told not to.
fn examine(check: &Check) -> Result<Ending, Failure> {
    let loaded = config::load(&check.file)?;
    let mut warnings = loaded.warnings.clone();
    for name in loaded.names.iter().filter(|_| !check.offline) {
        if let Err(error) = reactor::look_up(&name.host, name.port) {
            let message = format!("the name {:?} does not resolve now ({error})", name.host);
            let cure = "check the spelling; a running balancer asks again every 30 s";
            warnings.push(Complaint::new(message, cure).at(name.span.clone()).as_warning());
        }
    }
    let _ = write!(io::stderr(), "{}", loaded.render(&warnings));
    let _ = writeln!(io::stdout(), "{}", loaded.summary());
    Ok(Ending::Drained)
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

/// Asks a running balancer for its state and shows it.
fn tell(status: &Status) -> Result<Ending, Failure> {
    let body = inquire(&status.admin, "/api/v1/status")?;
    let shown = if status.json {
        String::from_utf8_lossy(&body).into_owned()
    } else {
        let snapshot: Snapshot = serde_json::from_slice(&body)
            .map_err(|error| unanswered(&status.admin, &format!("it is no evenkeel: {error}")))?;
        admin::table(&snapshot)
    };
    // Who closes our output has seen enough.
    let _ = write!(io::stdout(), "{shown}");
    Ok(Ending::Drained)
}

/// The answer of a running balancer to a question.
fn inquire(admin: &cli::Admin, path: &str) -> Result<Vec<u8>, Failure> {
    let refused = |message: String| Failure { message: format!("evenkeel: {message}\n"), code: 1 };
    let token = match &admin.token_file {
        Some(file) => Some(config::read_token(file).map_err(|error| refused(error.to_string()))?),
        None => None,
    };
    let answered = reactor::ask(&admin.address, path, token.as_ref())
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
            String::from_utf8_lossy(&answered.body).trim_end()
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
