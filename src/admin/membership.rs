//! Backends that come and go: how that is asked for.

use crate::config::Backend;

/// Who is to become a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// The name of the pool; may be left out where there is one.
    pub pool: Option<String>,
    /// The backend as it is to be.
    pub backend: Backend,
}

/// Who is to be a backend no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The name of the pool; may be left out where there is one.
    pub pool: Option<String>,
    /// The address of the backend.
    pub address: String,
}
