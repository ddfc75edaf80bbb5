//! Choosing a backend: one algorithm a file, pure, over indices into the pool.

pub mod round_robin;
