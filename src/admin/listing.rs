//! A body that tells of every backend, put together a part at a time.
//!
//! One part takes about as long whatever there is to tell, so the traffic never waits for a list.

use std::mem;

use serde::Serialize;

use super::Balancer;
use super::metrics::Exposition;
use super::overview::{Overview, Spot};
use super::rope::Rope;
use super::snapshot::Backend;

/// What there is of a body, and what is to come.
#[derive(Debug)]
pub(super) struct Listing {
    body: Rope,
    pieces: std::vec::IntoIter<Piece>,
    form: Form,
}

/// How a backend is told of.
#[derive(Debug)]
enum Form {
    Status,
    Target,
    Metrics(Box<Exposition>),
}

/// What comes next.
#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Backend(Spot),
}

impl Listing {
    /// The whole snapshot as JSON.
    #[must_use]
    pub(super) fn status(overview: Overview) -> Self {
        let Overview { mut snapshot, spots, .. } = overview;
        let pools = mem::take(&mut snapshot.pools);
        let (head, tail) = around(&snapshot, "pools");
        let mut pieces = vec![Piece::Text(head)];
        for (index, (pool, spots)) in pools.iter().zip(spots).enumerate() {
            let (mut head, tail) = around(pool, "backends");
            if index > 0 {
                head.insert(0, b',');
            }
            pieces.push(Piece::Text(head));
            pieces.extend(spots.into_iter().map(Piece::Backend));
            pieces.push(Piece::Text(tail));
        }
        pieces.extend([Piece::Text(tail), Piece::Text(b"\n".into())]);
        Self::of(pieces, Form::Status)
    }

    /// All backends as one flat list in JSON.
    #[must_use]
    pub(super) fn targets(overview: Overview) -> Self {
        let mut pieces = vec![Piece::Text(b"[".into())];
        pieces.extend(overview.spots.into_iter().flatten().map(Piece::Backend));
        pieces.push(Piece::Text(b"]\n".into()));
        Self::of(pieces, Form::Target)
    }

    /// For Prometheus.
    #[must_use]
    pub(super) fn metrics(overview: Overview) -> Self {
        let exposition = Exposition::new(&overview.snapshot);
        if !overview.backend_metrics {
            return Self::of(Vec::new(), Form::Metrics(exposition.into()));
        }
        let pieces = overview.spots.into_iter().flatten().map(Piece::Backend).collect();
        Self::of(pieces, Form::Metrics(exposition.with_backends().into()))
    }

    fn of(pieces: Vec<Piece>, form: Form) -> Self {
        Self { body: Rope::default(), pieces: pieces.into_iter(), form }
    }

    /// Writes some more; the body, once it is whole.
    pub(super) fn go_on(&mut self, balancer: &impl Balancer) -> Option<Rope> {
        for _ in 0..PIECES {
            match self.pieces.next() {
                Some(Piece::Text(text)) => self.body.push(&text),
                Some(Piece::Backend(spot)) => self.tell(balancer, spot),
                None => return Some(self.finish()),
            }
        }
        None
    }

    fn tell(&mut self, balancer: &impl Balancer, spot: Spot) {
        match &mut self.form {
            Form::Status => {
                if let Some((_, backend)) = balancer.backend(spot) {
                    append(&mut self.body, &backend);
                }
            }
            Form::Target => {
                if let Some((pool, backend)) = balancer.backend(spot) {
                    append(&mut self.body, &Target::of(&pool, &backend));
                }
            }
            Form::Metrics(exposition) => {
                if let Some(figures) = balancer.figures(spot) {
                    exposition.add(&figures);
                }
            }
        }
    }

    fn finish(&mut self) -> Rope {
        match &mut self.form {
            Form::Status | Form::Target => mem::take(&mut self.body),
            Form::Metrics(exposition) => exposition.finish(),
        }
    }
}

/// A backend in the flat list.
#[derive(Debug, Serialize)]
struct Target<'a> {
    url: String,
    address: &'a str,
    healthy: bool,
    pool: &'a str,
    state: &'a str,
    weight: u16,
    active: u64,
    total: u64,
}

impl<'a> Target<'a> {
    fn of(pool: &'a str, backend: &'a Backend) -> Self {
        let scheme = if backend.address.starts_with("unix:") { "" } else { "tcp://" };
        Self {
            url: format!("{scheme}{}", backend.address),
            address: &backend.address,
            healthy: backend.is_healthy(),
            pool,
            state: &backend.state,
            weight: backend.weight,
            active: backend.active,
            total: backend.total,
        }
    }
}

/// Adds one more to a list.
fn append(body: &mut Rope, value: &impl Serialize) {
    if body.last() != Some(b'[') {
        body.push(b",");
    }
    body.push(&json(value));
}

/// A value as JSON, up to and behind what its empty list `key` will hold. Quotes within a text are
/// written with a backslash, so what looks like the key is the key.
fn around(value: &impl Serialize, key: &str) -> (Vec<u8>, Vec<u8>) {
    let mut head = json(value);
    let mark = format!("\"{key}\":[]").into_bytes();
    let found = head.windows(mark.len()).position(|window| window == mark);
    let tail = found.map(|at| head.split_off(at + mark.len() - 1)).unwrap_or_default();
    (head, tail)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // What a snapshot is made of can always be written.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Pieces that are written at a time: some tenths of a millisecond.
const PIECES: usize = 128;

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::{Fixed, sample};
    use super::super::snapshot::{Pool, Snapshot};
    use super::*;

    fn crowd(backends: usize) -> Fixed {
        let mut snapshot = sample();
        let first = snapshot.pools[0].backends[0].clone();
        let all = (0..backends).map(|n| Backend { address: format!("b:{n}"), ..first.clone() });
        snapshot.pools[0].backends = all.collect();
        snapshot.pools.push(sample().pools.remove(0));
        snapshot.pools.push(Pool { name: "\"backends\":[]".to_owned(), ..Pool::default() });
        Fixed { snapshot, ..Fixed::default() }
    }

    /// What comes of a listing, and in how many parts.
    fn write(fixed: &Fixed, make: fn(Overview) -> Listing) -> (String, usize) {
        let mut listing = make(fixed.overview());
        for parts in 1.. {
            if let Some(body) = listing.go_on(fixed) {
                return (body.text(), parts);
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn however_many_parts_it_takes_the_status_is_the_whole_snapshot() {
        for (backends, most) in [(0, 1), (3, 1), (1000, 9)] {
            let fixed = crowd(backends);
            let (text, parts) = write(&fixed, Listing::status);
            assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), fixed.snapshot);
            assert!(parts <= most, "{parts} parts for {backends}");
        }
        let mut fixed = crowd(2);
        fixed.snapshot.pools.clear();
        let (text, _) = write(&fixed, Listing::status);
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), fixed.snapshot);
    }

    #[test]
    fn one_that_is_gone_by_its_turn_is_left_out() {
        for make in [Listing::status, Listing::targets, Listing::metrics] {
            let mut fixed = crowd(600);
            let mut listing = make(fixed.overview());
            assert!(listing.go_on(&fixed).is_none());
            fixed.snapshot.pools[0].backends.truncate(400);
            fixed.snapshot.pools.truncate(1);
            let body = std::iter::repeat_with(|| listing.go_on(&fixed)).flatten().next().unwrap();
            let text = body.text();
            assert!(text.contains("b:399") && !text.contains("b:400"), "{text}");
            if !text.starts_with('#') {
                let json: serde_json::Value = serde_json::from_str(&text).unwrap();
                let list = if json.is_array() { &json } else { &json["pools"][0]["backends"] };
                assert_eq!(list.as_array().unwrap().len(), 400);
            }
        }
    }

    #[test]
    fn metrics_tell_of_every_backend_or_of_none() {
        let fixed = crowd(1000);
        let (text, parts) = write(&fixed, Listing::metrics);
        let count = |text: &str| text.lines().filter(|l| l.contains("backend_up{")).count();
        assert!(count(&text) == 1002 && parts > 4, "{parts}");
        let without = |overview| Listing::metrics(Overview { backend_metrics: false, ..overview });
        let (text, _) = write(&fixed, without);
        assert!(count(&text) == 0 && text.contains("pool_backends_up{pool=\"web\"}"), "{text}");
    }
}
