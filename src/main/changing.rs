//! The commands that change a running balancer, and the ones that wait for what comes of it.

use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::admin::change::{WantedState, Wishes};
use evenkeel::admin::reload::{PLAN, RELOAD};
use evenkeel::admin::{self, Addition, Changed, Emptying, NewBackend, Plan, Proposal};
use evenkeel::cli::{self, Wait, Wish};
use evenkeel::config;
use evenkeel::reactor::{Answered, Ending, Question};

use super::{Failure, exchange, inquire, print, refused, understood};

/// Changes a backend of a running balancer, and waits for what comes of it if that is wanted.
pub(crate) fn alter(change: &cli::Change) -> Result<Ending, Failure> {
    let (weight, state) = match change.wish {
        Wish::Drain => (None, Some(WantedState::Draining)),
        Wish::Ready => (None, Some(WantedState::Ready)),
        Wish::Maintenance => (None, Some(WantedState::Maintenance)),
        Wish::Weight(weight) => (Some(weight), None),
    };
    let json = serde_json::to_string(&Wishes { weight, state }).map_err(io::Error::from)?;
    let path = path_of(&change.backend);
    let asking = Asking { admin: &change.admin, path: &path, json: change.json, goes: false };
    let changed = asking.answer(Question::Patch(&path, &json))?;
    asking.wait(change.wait, changed)
}

/// Gives a pool of a running balancer one more backend.
pub(crate) fn add(add: &cli::Add) -> Result<Ending, Failure> {
    let cli::Add { admin, pool, address, weight, max_connections, backup, json } = add;
    let (address, weight, backup) = (address.to_string(), *weight, *backup);
    let backend = NewBackend { address, weight, max_connections: *max_connections, backup };
    let body = serde_json::to_string(&backend).map_err(io::Error::from)?;
    let path = Addition::path(pool);
    let asking = Asking { admin, path: &path, json: *json, goes: false };
    let changed = asking.answer(Question::Post(&path, &body))?;
    asking.wait(None, changed)
}

/// Takes a backend from a pool of a running balancer.
pub(crate) fn remove(remove: &cli::Remove) -> Result<Ending, Failure> {
    let path = path_of(&remove.backend);
    let asking = Asking { admin: &remove.admin, path: &path, json: remove.json, goes: true };
    let changed = asking.answer(Question::Delete(&path))?;
    asking.wait(remove.wait, changed)
}

/// Lets a running balancer read its configuration again.
pub(crate) fn reload(reload: &cli::Reload) -> Result<Ending, Failure> {
    let answered = exchange(&reload.admin, Question::Post(RELOAD, "{}"))?;
    tell_plan(&reload.admin, &answered, reload.json, admin::reload_table)
}

/// Asks a running balancer what a reload would do.
pub(crate) fn plan(plan: &cli::PlanFile) -> Result<Ending, Failure> {
    let proposal = match &plan.file {
        Some(file) => {
            let proposal = Proposal { name: file.display().to_string(), text: read(file)? };
            serde_json::to_string(&proposal).map_err(io::Error::from)?
        }
        None => String::new(),
    };
    let answered = exchange(&plan.admin, Question::Post(PLAN, &proposal))?;
    tell_plan(&plan.admin, &answered, plan.json, admin::plan_table)
}

/// A text as `check` would read it.
fn read(file: &Path) -> Result<String, Failure> {
    Ok(config::read_text(file)?)
}

fn path_of(backend: &cli::Backend) -> String {
    let cli::Backend { pool, address } = backend.clone();
    admin::Change { pool, address, wishes: Wishes::default() }.path()
}

fn tell_plan(
    from: &cli::Admin,
    answered: &Answered,
    json: bool,
    table: impl Fn(&Plan) -> String,
) -> Result<Ending, Failure> {
    if json && matches!(answered.status, 200 | 422) {
        print(&answered.body)?;
    }
    match answered.status {
        200 if json => Ok(Ending::Drained),
        200 => print(table(&understood(from, &answered.body)?).as_bytes()),
        _ => Err(match admin::rendered_in(&answered.body) {
            Some(rendered) => Failure { message: rendered, code: 3 },
            None => refused(from, answered),
        }),
    }
}

/// A backend that is being changed.
struct Asking<'a> {
    admin: &'a cli::Admin,
    path: &'a str,
    json: bool,
    /// Whether it is to be gone in the end.
    goes: bool,
}

impl Asking<'_> {
    /// Asks for a change, and shows what has become of the backend.
    fn answer(&self, question: Question<'_>) -> Result<Changed, Failure> {
        let changed: Changed = understood(self.admin, &inquire(self.admin, question)?)?;
        self.show(&changed, None)?;
        if !changed.pool_available {
            let pool = &changed.pool;
            let _ = writeln!(io::stderr(), "evenkeel: nobody can serve in pool {pool} now");
        }
        Ok(changed)
    }

    /// Waits, if that is wanted, until a backend that takes no new clients has no connections.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is no loop of events: it may look at the clock"
    )]
    fn wait(&self, wait: Option<Wait>, mut seen: Changed) -> Result<Ending, Failure> {
        let Some(Wait { deadline }) = wait else { return Ok(Ending::Drained) };
        let began = Instant::now();
        let emptying = Emptying::new(seen.backend.active);
        while seen.backend.active > 0 {
            let left = seen.backend.active;
            let passed = began.elapsed();
            let rest = deadline.map(|deadline| deadline.saturating_sub(passed));
            self.check(&seen, rest == Some(Duration::ZERO))?;
            thread::sleep(rest.map_or(LOOK, |rest| rest.min(LOOK)));
            let Some(now) = self.look(&seen)? else { break };
            seen = now;
            if seen.backend.active != left {
                self.show(&seen, Some((&emptying, began.elapsed())))?;
            }
        }
        Ok(Ending::Drained)
    }

    /// Whether there is still something to wait for.
    fn check(&self, seen: &Changed, is_late: bool) -> Result<(), Failure> {
        let (backend, left) = (&seen.backend, seen.backend.active);
        let name = format!("{}/{}", seen.pool, backend.address);
        let why = if !backend.takes_no_more() {
            let state = &backend.state;
            let what = if self.goes { "added it again" } else { "ended the drain" };
            format!("{name} is {state}, somebody has {what}")
        } else if is_late {
            let rest = if self.goes { "" } else { ", and it still drains" };
            format!("the deadline passed, {left} connections of {name} are left; they go on{rest}")
        } else {
            return Ok(());
        };
        Err(Failure { message: format!("evenkeel: {why}\n"), code: 7 })
    }

    /// The backend as it is now; `None` when it has gone as it was to.
    fn look(&self, seen: &Changed) -> Result<Option<Changed>, Failure> {
        let answered = exchange(self.admin, Question::Get(self.path))?;
        match answered.status {
            200 => understood(self.admin, &answered.body).map(Some),
            404 if self.goes => {
                let backend = admin::snapshot::Backend { active: 0, ..seen.backend.clone() };
                self.show(&Changed { backend, ..seen.clone() }, None)?;
                Ok(None)
            }
            404 => {
                let name = format!("{}/{}", seen.pool, seen.backend.address);
                Err(Failure { message: format!("evenkeel: {name} is gone\n"), code: 7 })
            }
            _ => Err(refused(self.admin, &answered)),
        }
    }

    fn show(
        &self,
        changed: &Changed,
        emptying: Option<(&Emptying, Duration)>,
    ) -> Result<Ending, Failure> {
        let line = match emptying {
            Some((emptying, passed)) if self.json => emptying.json(changed, passed),
            Some((emptying, passed)) => emptying.line(changed, passed),
            None if self.json => serde_json::to_string(changed).map_err(io::Error::from)?,
            None => admin::one_line(changed),
        };
        print(format!("{line}\n").as_bytes())
    }
}

/// Between two looks at a backend that is to become empty.
const LOOK: Duration = Duration::from_millis(250);
