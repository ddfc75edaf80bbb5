//! Whom a pair waits for, as its flows tell it. What it means stands in [`crate::measure::waits`].

use super::endpoint::Stream;
use super::flow::State;
use super::{Pair, Phase, Side};
use crate::measure::{Outlook, Wait};

impl<S: Stream> Pair<S> {
    /// What the pair waits for until something happens to it.
    pub fn outlook(&self) -> Outlook {
        if self.spent {
            return Outlook::Sure(Wait::Balancer);
        }
        match self.phase {
            Phase::Greeting => Outlook::Sure(Wait::ClientSend),
            Phase::Choosing | Phase::Waiting => Outlook::Sure(Wait::Queue),
            Phase::Connecting => Outlook::Sure(Wait::Connect),
            Phase::Relaying if self.to_client.holds_bytes() => Outlook::Sure(Wait::ClientRead),
            Phase::Relaying if self.owes_backend() => Outlook::Sure(Wait::BackendRead),
            Phase::Relaying => match (self.to_backend.state(), self.to_client.state()) {
                (State::Open, State::Open) if self.last_word == Some(Side::Client) => {
                    Outlook::Silence(Wait::BackendSend)
                }
                (State::Open, State::Open) => Outlook::Silence(Wait::ClientSend),
                (State::Open, State::Ending(_) | State::Done(_)) => Outlook::Sure(Wait::ClientSend),
                (State::Ending(_) | State::Done(_), _) => Outlook::Sure(Wait::BackendSend),
            },
        }
    }

    /// Has the backend be waited for, though the client has not spoken yet.
    pub fn expect_backend(&mut self) {
        self.last_word = Some(Side::Client);
    }

    /// Whether the backend does not take what it is to be given.
    fn owes_backend(&self) -> bool {
        self.to_backend.holds_bytes() || self.opening.as_ref().is_some_and(|o| o.is_untold())
    }
}
