//! Reading a configuration file: bytes, text, document, draft, configuration.
//!
//! Besides `admin.rs`, which reads a token, and `state_file.rs`, the only file of `config` that
//! touches the file system.
//! A file that cannot be read and one that says something wrong are both a [`LoadError`], which
//! prints everything there is to say.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::address::{BackendAddress, BindAddress};
use super::document;
use super::draft::{AdminDraft, Draft, Report};
use super::problem::{Complaint, Lines, Problem, Severity, Span, one_lines, render};
use super::semantics;
use super::syntax;
use super::{Agent, Config, Overrides};

/// A configuration that can be used, and what is needed to say more about its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What the file says.
    pub config: Config,
    /// What is probably not meant, though possible.
    pub warnings: Vec<Problem>,
    /// Every name that has to be resolved, in the order of the text, with its place: whoever
    /// resolves them can report a problem there.
    pub names: Vec<Mention>,
    file_name: String,
    text: String,
}

/// Where a configuration comes from, to be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// What the command line says over it.
    pub overrides: Overrides,
}

impl Origin {
    /// Reads and checks the file; what the command line says is not applied yet.
    ///
    /// # Errors
    /// As for [`load`].
    pub fn load(&self) -> Result<Loaded, LoadError> {
        load(&self.file)
    }

    /// The same while others wait, so that only a regular file will do.
    ///
    /// # Errors
    /// As for [`load`], or it is something else.
    pub fn load_again(&self) -> Result<Loaded, LoadError> {
        let is_kind = |metadata: std::fs::Metadata| metadata.is_file() || metadata.is_dir();
        // Opening a pipe would wait for somebody to write to it.
        if std::fs::metadata(&self.file).is_ok_and(|metadata| !is_kind(metadata)) {
            return Err(LoadError::Unreadable(format!(
                "{}: this is no regular file, and is not read a second time; put the \
                 configuration into one, and start the program with that\n",
                self.file.display()
            )));
        }
        self.load()
    }
}

/// A host name in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The name as written.
    pub host: String,
    /// The port that goes with it.
    pub port: u16,
    /// Where it stands.
    pub span: Span,
}

/// Why there is no configuration; prints as one or more complete lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The file could not be read; the message names it and the reason.
    Unreadable(String),
    /// An option of the command line does not fit the file; the message says why.
    Unfit(String),
    /// The text has errors.
    Invalid {
        /// All problems, in the order of the text; at least one is an error.
        problems: Vec<Problem>,
        /// The same, as they are shown.
        rendered: String,
        /// The same, the first hundred of them, in one line each.
        lines: Vec<String>,
    },
}

/// Reads and checks a file.
///
/// # Errors
///
/// The file is missing, unreadable, a directory, larger than 1 MiB or not UTF-8; or its text
/// has errors, of which every one is reported.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    parse(&path.display().to_string(), &read_text(path)?)
}

/// Reads a file that may hold a configuration.
///
/// # Errors
///
/// The file is missing, unreadable, a directory, larger than 1 MiB or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, LoadError> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|why| LoadError::Unreadable(format!("{name}: {why}\n")))?;
    String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))
}

/// Checks a text, and the token file that it names; `file_name` is what problems call it.
///
/// # Errors
///
/// All problems of the text, when at least one is an error.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, LoadError> {
    let (draft, mut problems) = examine(text);
    problems.sort_by_key(|problem| problem.span.start);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        let rendered = render(file_name, text, &problems);
        let lines = one_lines(file_name, text, &problems);
        return Err(LoadError::Invalid { problems, rendered, lines });
    }
    let names = mentions(&draft);
    Ok(Loaded {
        config: draft.into(),
        warnings: problems,
        names,
        file_name: file_name.to_owned(),
        text: text.to_owned(),
    })
}

impl Loaded {
    /// Shows problems of this text, whether found here or later, such as unresolved names.
    #[must_use]
    pub fn render(&self, problems: &[Problem]) -> String {
        render(&self.file_name, &self.text, problems)
    }

    /// The line that says the file is fine and how much it holds.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        let pools = &self.config.pools;
        format!(
            "{}: fine ({}, {}, {})",
            self.file_name,
            count(self.config.listeners.len(), "listener"),
            count(pools.len(), "pool"),
            count(pools.iter().map(|pool| pool.backends.len()).sum(), "backend")
        )
    }
}

impl From<Draft> for Config {
    /// The draft was checked and has no errors.
    fn from(draft: Draft) -> Self {
        Self {
            global: draft.global,
            admin: draft.admin.map(|draft| draft.admin),
            listeners: draft.listeners.into_iter().map(|l| l.listener).collect(),
            pools: draft.pools.into_iter().map(|p| p.pool).collect(),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(message) | Self::Unfit(message) => f.write_str(message),
            Self::Invalid { rendered, .. } => f.write_str(rendered),
        }
    }
}

impl std::error::Error for LoadError {}

/// Everything that can be read from a text, and everything that is wrong with it.
fn examine(text: &str) -> (Draft, Vec<Problem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let (mut problems, broken_lines) = syntax::problems(text, &errors);
    let mut report = Report::default();
    let mut draft = document::read(document.get_ref(), &mut report);
    draft.incomplete |= !errors.is_empty();
    draft.end = text.len();
    semantics::check(&mut draft, &mut report);
    let lines = Lines::new(text);
    let is_sound = |problem: &Problem| !broken_lines.contains(&lines.number(problem.span.start));
    problems.extend(report.problems.into_iter().filter(is_sound));
    (draft, problems)
}

fn mentions(draft: &Draft) -> Vec<Mention> {
    let mut names = Vec::new();
    let mut mention = |host: &String, port: &u16, span: &Span| {
        names.push(Mention { host: host.clone(), port: *port, span: span.clone() });
    };
    if let Some(AdminDraft { admin, places }) = &draft.admin
        && let (BindAddress::Name { host, port }, Some(span)) = (&admin.listen, places.of("listen"))
    {
        mention(host, port, &span);
    }
    for listener in &draft.listeners {
        for (bind, span) in listener.listener.bind.iter().zip(listener.bind.items()) {
            if let BindAddress::Name { host, port } = bind {
                mention(host, port, span);
            }
        }
    }
    for pool in &draft.pools {
        let health = &pool.pool.health;
        let agent = match &health.agent {
            Some(Agent::Address(address)) => Some(address),
            Some(Agent::Port(_)) | None => None,
        };
        for (key, address) in [("address", health.address.as_ref()), ("agent", agent)] {
            if let (Some(BackendAddress::Name { host, port }), Some(span)) =
                (address, pool.health.of(key))
            {
                mention(host, port, &span);
            }
        }
        for (backend, span) in pool.pool.backends.iter().zip(pool.backends.items()) {
            if let BackendAddress::Name { host, port } = &backend.address {
                mention(host, port, span);
            }
        }
    }
    names.sort_by_key(|mention| mention.span.start);
    names
}

/// The bytes of a file, or why there are none and what to do.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let because = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such file; give the path of a configuration file with -c".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => {
            "the file may not be read by this user; change its permissions or the user".to_owned()
        }
        _ => format!("the file cannot be read: {error}"),
    };
    let file = File::open(path).map_err(because)?;
    if file.metadata().map_err(because)?.is_dir() {
        return Err("this is a directory; give the path of a file in it with -c".to_owned());
    }
    let mut bytes = Vec::new();
    let limit = LARGEST_FILE + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(because)?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read == limit) {
        return Err(format!(
            "the file is larger than {} KiB, which no configuration needs; is it the right one?",
            LARGEST_FILE / 1024
        ));
    }
    Ok(bytes)
}

/// The text up to the bad byte is sound, so the place can be shown like any other.
fn not_utf8(file_name: &str, error: &std::string::FromUtf8Error) -> LoadError {
    let at = error.utf8_error().valid_up_to();
    let bytes = error.as_bytes();
    let byte = bytes.get(at).copied().unwrap_or_default();
    let message = format!("the byte 0x{byte:02x} at offset {at} is not UTF-8");
    let problem = Complaint::new(message, "save the file as UTF-8").at(at..at + 1);
    let text = String::from_utf8_lossy(bytes);
    let rendered = render(file_name, &text, std::slice::from_ref(&problem));
    let problems = vec![problem];
    let lines = one_lines(file_name, &text, &problems);
    LoadError::Invalid { problems, rendered, lines }
}

/// In bytes. Ten thousand backends take half of it.
pub const LARGEST_FILE: u64 = 1024 * 1024;
