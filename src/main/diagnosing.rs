//! `doctor`: the machine, compared with a file or with a running balancer.

use std::path::Path;

use evenkeel::cli;
use evenkeel::config;
use evenkeel::doctor::{self, Origin, Subject, host, running};
use evenkeel::reactor::{self, Ending};

use crate::{Failure, print, state_of};

/// Reads, compares and tells; fails with 7 when something is worse than a note.
pub(crate) fn doctor(asked: &cli::Doctor) -> Result<Ending, Failure> {
    let (subject, unanswered) = match &asked.file {
        Some(file) => {
            let config = config::load(file)?.config;
            (Subject { config, origin: Origin::File }, None)
        }
        None => match state_of(&asked.admin) {
            Ok((_, snapshot)) => (running::subject(&snapshot), None),
            Err(failure) => (running::nothing(), Some(failure.message)),
        },
    };
    let mut facts = host::read(Path::new("/"), &subject.config);
    reactor::survey(&subject.config, asked.offline, &mut facts);
    let mut report = doctor::examine(&subject, &facts);
    if let Some(message) = unanswered {
        let why = message.trim_end().trim_start_matches("evenkeel: ");
        report.note(
            "configuration",
            why.to_owned(),
            "only what holds for every configuration was looked at",
            "evenkeel doctor -c FILE",
        );
    }
    let text = if asked.json {
        serde_json::to_string(&report).map_err(std::io::Error::from)? + "\n"
    } else {
        report.text()
    };
    print(text.as_bytes())?;
    if report.is_fine() {
        return Ok(Ending::Drained);
    }
    Err(Failure { message: String::new(), code: 7 })
}
