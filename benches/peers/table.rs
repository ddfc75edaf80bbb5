//! Rounds to figures, figures to a table.
//!
//! A ratio is the median of the ratios of single rounds, in which both were measured one after the
//! other, and not a ratio of medians: a slow minute of the machine hits both.

use std::fmt::Write;
use std::time::Duration;

use crate::load::Measured;
use crate::proxies::Peer;
use crate::workloads::Workload;

/// All that was measured.
pub(crate) struct Results {
    /// What, where, when and how, a line each.
    pub(crate) heading: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// One workload through one peer.
pub(crate) struct Row {
    pub(crate) workload: Workload,
    pub(crate) peer: Peer,
    /// One entry a round.
    pub(crate) rounds: Vec<Result<Measured, String>>,
}

/// Medians over the rounds.
pub(crate) struct Summary {
    pub(crate) rate: Option<f64>,
    pub(crate) cost: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Results {
    /// The peer whose figures are 1 in ratios.
    pub(crate) fn reference(&self) -> Peer {
        let with_haproxy = self.rows.iter().any(|row| row.peer == Peer::Haproxy);
        if with_haproxy { Peer::Haproxy } else { Peer::Evenkeel }
    }

    /// The workloads measured, in order.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let mut workloads: Vec<Workload> = self.rows.iter().map(|row| row.workload).collect();
        workloads.dedup();
        workloads
    }

    /// The peers of one workload.
    pub(crate) fn of(&self, workload: Workload) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.workload == workload)
    }

    /// A figure of a row, as a multiple of the same figure of `base`.
    pub(crate) fn ratio(
        &self,
        row: &Row,
        base: Peer,
        figure: impl Fn(&Measured) -> Option<f64>,
    ) -> Option<f64> {
        let base = self.of(row.workload).find(|other| other.peer == base)?;
        let rounds = row.rounds.iter().zip(&base.rounds);
        median(rounds.filter_map(|(mine, theirs)| {
            Some(figure(mine.as_ref().ok()?)? / figure(theirs.as_ref().ok()?)?)
        }))
    }

    /// Failures of our own daemon.
    pub(crate) fn our_failures(&self) -> usize {
        let ours = self.rows.iter().filter(|row| row.peer.is_ours());
        ours.map(Row::failures).sum()
    }

    /// Everything as text, which is Markdown too.
    pub(crate) fn render(&self) -> String {
        let mut text = self.heading.join("\n");
        text.push('\n');
        for workload in self.workloads() {
            let _ = write!(text, "\n{}\n\n{}", workload.name(), self.table(workload));
            for row in self.of(workload) {
                if let Some(Err(problem)) = row.rounds.iter().find(|round| round.is_err()) {
                    let (failed, all) = (row.failures(), row.rounds.len());
                    let name = row.peer.name();
                    let _ = writeln!(text, "\n{name}: {failed} of {all} rounds failed: {problem}");
                }
            }
        }
        text
    }

    fn table(&self, workload: Workload) -> String {
        let (rate, cost) = workload.units();
        let reference = self.reference();
        let times = format!("× {}", reference.name());
        let head = ["peer", rate, &times, "× direct", cost, &times, "p50 µs", "p99 µs"];
        let mut lines = vec![head.map(str::to_owned)];
        for row in self.of(workload) {
            let summary = row.summary();
            let rate = |m: &Measured| Some(workload.rate(m));
            lines.push([
                row.peer.name().to_owned(),
                figure(summary.rate),
                ratio(self.ratio(row, reference, rate)),
                ratio(self.ratio(row, Peer::Direct, rate)),
                figure(summary.cost),
                ratio(self.ratio(row, reference, |m| workload.cost(m))),
                figure(summary.p50),
                figure(summary.p99),
            ]);
        }
        align(&lines)
    }
}

impl Row {
    pub(crate) fn summary(&self) -> Summary {
        let good = || self.rounds.iter().flatten();
        let at = |share: usize| {
            let micros = |m: &Measured| percentile(&m.latencies, share);
            median(good().filter_map(micros).map(|took| took.as_secs_f64() * 1e6))
        };
        Summary {
            rate: median(good().map(|measured| self.workload.rate(measured))),
            cost: median(good().filter_map(|measured| self.workload.cost(measured))),
            p50: at(50),
            p99: at(99),
        }
    }

    fn failures(&self) -> usize {
        self.rounds.iter().filter(|round| round.is_err()).count()
    }
}

/// The value below which `share` percent of the sorted values lie.
fn percentile(sorted: &[Duration], share: usize) -> Option<Duration> {
    sorted.get(sorted.len() * share / 100).copied()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

fn align(lines: &[[String; 8]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; 8] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let _ = match column {
                0 => write!(text, "| {cell:<width$} "),
                _ => write!(text, "| {cell:>width$} "),
            };
        }
        text.push_str("|\n");
        if number == 0 {
            let rule = |(column, width): (usize, usize)| match column {
                0 => format!("|{}", "-".repeat(width + 2)),
                _ => format!("|{}:", "-".repeat(width + 1)),
            };
            text.extend(widths.into_iter().enumerate().map(rule));
            text.push_str("|\n");
        }
    }
    text
}
