//! The commands that ask about connections: `explain` and `sessions`.

use std::io;

use evenkeel::admin::explain::{Decisions, Riddle};
use evenkeel::admin::sessions::{self, Which};
use evenkeel::admin::story;
use evenkeel::cli::{self, About, SessionsWish};
use evenkeel::reactor::{Ending, Question};

use crate::{Failure, inquire, print, understood};

/// Asks a running balancer why connections went where they went.
pub(crate) fn explain(explain: &cli::Explain) -> Result<Ending, Failure> {
    let riddle = match explain.about.clone() {
        About::Newest(limit) => Riddle::Newest(limit),
        About::Connection(id) => Riddle::One(id),
        About::Pool { pool, client } => Riddle::Pool { pool, client },
    };
    let body = inquire(&explain.admin, Question::Get(&riddle.path()))?;
    if explain.json {
        return print(&body);
    }
    let shown = match riddle {
        Riddle::Pool { .. } => story::peek(&understood(&explain.admin, &body)?),
        Riddle::Newest(_) => story::decisions(&understood(&explain.admin, &body)?),
        Riddle::One(_) => {
            let answer: Decisions = understood(&explain.admin, &body)?;
            answer.decisions.iter().map(story::decision).collect()
        }
    };
    print(shown.as_bytes())
}

/// Shows the connections of a running balancer, or cuts one.
pub(crate) fn sessions(asked: &cli::Sessions) -> Result<Ending, Failure> {
    let (pool, backend, after, limit) = match asked.wish.clone() {
        SessionsWish::List { pool, backend, after, limit } => (pool, backend, after, limit),
        SessionsWish::Cut(id) => {
            let body = inquire(&asked.admin, Question::Delete(&sessions::path_of(id)))?;
            let shown = story::cut(&understood(&asked.admin, &body)?);
            return print(if asked.json { &body } else { shown.as_bytes() });
        }
    };
    let mut all = sessions::Sessions::default();
    let mut which = Which { pool, backend, after, limit };
    loop {
        which.limit = (limit - all.sessions.len()).min(sessions::MOST);
        let body = inquire(&asked.admin, Question::Get(&which.path()))?;
        let page: sessions::Sessions = understood(&asked.admin, &body)?;
        all.sessions.extend(page.sessions);
        all.next = page.next;
        match page.next {
            Some(next) if all.sessions.len() < limit => which.after = next,
            Some(_) | None => break,
        }
    }
    if asked.json {
        let json = serde_json::to_string(&all).map_err(io::Error::from)?;
        return print(format!("{json}\n").as_bytes());
    }
    print(story::sessions(&all.sessions, all.next).as_bytes())
}
