//! What an operator is told over HTTP, without sockets and without a clock.
//!
//! [`snapshot`] is the running state as plain values, and at the same time the JSON of
//! `GET /api/v1/status`: the server writes it, `evenkeel status` reads it back. [`route`] turns a
//! request and a snapshot into a response, [`metrics`] writes the snapshot for Prometheus,
//! [`gate`] decides who is answered at all, and [`conversation`] is one client: requests in their
//! order, one at a time. [`mod@table`] shows a snapshot to people, [`dashboard`] is the page that
//! does so in a browser, [`change`] is what can be asked for besides. Nothing here changes anything
//! itself: that is the [`Balancer`]'s.

mod asked;
pub mod change;
pub mod conversation;
pub mod dashboard;
mod emptying;
pub mod explain;
pub mod gate;
mod listing;
pub mod membership;
pub mod metrics;
pub mod overview;
pub mod query;
mod refused;
pub mod reload;
mod rope;
pub mod route;
pub mod sessions;
pub mod snapshot;
pub mod story;
pub mod table;

pub use change::{Change, Changed};
pub use conversation::Conversation;
pub use emptying::Emptying;
use explain::{Explanation, Riddle};
pub use gate::Gate;
pub use membership::{Addition, NewBackend, Removal};
pub use overview::{Figures, Health, Overview, Spot};
pub use refused::{Problems, Refused};
pub use reload::{Plan, PlanItem, Proposal};
use sessions::{Cut, Sessions, Which};
pub use snapshot::Snapshot;
pub use table::{error_in, one_line, plan_table, reload_table, rendered_in, table};

/// The running balancer, as far as it can be asked.
pub trait Balancer {
    /// Its state now, but for what is told of each backend.
    fn overview(&self) -> Overview;

    /// What is told of a backend, with the name of its pool; nothing if it is gone.
    fn backend(&self, spot: Spot) -> Option<(String, snapshot::Backend)>;

    /// The figures of a backend; none if it is gone.
    fn figures(&self, spot: Spot) -> Option<Figures<'_>>;

    /// Whether it takes clients, and for whom.
    fn health(&self) -> Health;

    /// One backend as it is now; one that was removed is there until its connections have ended.
    ///
    /// # Errors
    /// When there is no such pool or backend.
    fn look(&self, pool: &str, address: &str) -> Result<Changed, Refused>;

    /// Changes a backend as `client` asks.
    ///
    /// # Errors
    /// When there is no such pool or backend; nothing is changed then.
    fn change(&mut self, change: &Change, client: &str) -> Result<Changed, Refused>;

    /// Gives a pool one more backend, as `client` asks.
    ///
    /// # Errors
    /// When there is no such pool, or it has the backend already or cannot have it.
    fn add(&mut self, addition: &Addition, client: &str) -> Result<Changed, Refused>;

    /// Takes a backend from its pool, as `client` asks. Its connections go on.
    ///
    /// # Errors
    /// When there is no such pool or backend.
    fn remove(&mut self, removal: &Removal, client: &str) -> Result<Changed, Refused>;

    /// Reads the configuration file again and does what it says, as `client` asks.
    ///
    /// # Errors
    /// When there is no file, or it cannot be used; nothing is changed then.
    fn reload(&mut self, client: &str) -> Result<Plan, Refused>;

    /// What a reload would do: with this text, or with the file if there is none.
    ///
    /// # Errors
    /// When there is no file, or it or the text cannot be used.
    fn plan(&self, proposal: Option<&Proposal>) -> Result<Plan, Refused>;

    /// Why connections went where they went, or where the next one would go.
    ///
    /// # Errors
    /// When the connection is not remembered, or there is no such pool.
    fn explain(&self, riddle: &Riddle) -> Result<Explanation, Refused>;

    /// The connections that live, a page of them.
    ///
    /// # Errors
    /// When there is no such pool or backend.
    fn sessions(&self, which: &Which) -> Result<Sessions, Refused>;

    /// Cuts a connection as `client` asks.
    ///
    /// # Errors
    /// When there is no such connection.
    fn cut_session(&mut self, id: u64, client: &str) -> Result<Cut, Refused>;
}
