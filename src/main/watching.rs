//! `top`: the live table over a running balancer.

use std::io;

use evenkeel::admin::{Change, Changed};
use evenkeel::cli;
use evenkeel::reactor::{self, Ending, Pace, Question};
use evenkeel::top::{News, Order, Top};

use crate::{Failure, STATUS, inquire, understood};

/// Shows the table. Somebody must answer at the start; later it waits for one that comes back.
pub(crate) fn top(top: &cli::Top) -> Result<Ending, Failure> {
    inquire(&top.admin, Question::Get(STATUS))?;
    let cli::Top { admin, interval, frames, plain, json } = top.clone();
    let pace = Pace { interval, frames, plain, json };
    let table = Top::new(admin.address.to_string());
    let oracle = move |order| {
        let news = match order {
            Order::Look => inquire(&admin, Question::Get(STATUS))
                .and_then(|body| understood(&admin, &body))
                .map(News::Status),
            Order::Change(change) => {
                request(&admin, &change).map(|changed| News::Changed(Box::new(changed)))
            }
        };
        news.map_err(|failure| failure.message.trim_end().to_owned())
    };
    reactor::show(table, pace, oracle)?;
    Ok(Ending::Drained)
}

fn request(admin: &cli::Admin, change: &Change) -> Result<Changed, Failure> {
    let json = serde_json::to_string(&change.wishes).map_err(io::Error::from)?;
    understood(admin, &inquire(admin, Question::Patch(&change.path(), &json))?)
}
