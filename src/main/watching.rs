//! `top`: the live table over a running balancer.

use std::io;

use evenkeel::admin::{Change, Changed};
use evenkeel::cli;
use evenkeel::reactor::{self, Ending, Pace, Question};
use evenkeel::top::{News, Order, Top};

use crate::{Failure, inquire, state_of, understood};

/// Shows the table. Somebody must answer at the start, and for the last of so
/// many tables; else it waits for one that comes back.
pub(crate) fn top(top: &cli::Top) -> Result<Ending, Failure> {
    state_of(&top.admin)?;
    let cli::Top { admin, interval, frames, plain, json } = top.clone();
    let pace = Pace { interval, frames, plain, json };
    let table = Top::new(admin.address.to_string());
    let oracle = move |order| {
        let news = match order {
            Order::Look => state_of(&admin).map(|(_, snapshot)| News::Status(Box::new(snapshot))),
            Order::Change(change) => {
                request(&admin, &change).map(|changed| News::Changed(Box::new(changed)))
            }
        };
        news.map_err(|failure| failure.message.trim_end().to_owned())
    };
    if reactor::show(table, pace, oracle)? {
        return Ok(Ending::Drained);
    }
    // Why is said already.
    Err(Failure { message: String::new(), code: 6 })
}

fn request(admin: &cli::Admin, change: &Change) -> Result<Changed, Failure> {
    let json = serde_json::to_string(&change.wishes).map_err(io::Error::from)?;
    understood(admin, &inquire(admin, Question::Patch(&change.path(), &json))?)
}
