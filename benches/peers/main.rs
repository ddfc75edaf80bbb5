//! The daemon beside HAProxy and nginx, measured in one interleaved run.
//!
//! `cargo bench --bench peers` takes each round through every workload, and each workload through
//! every peer, a different one first every time, so that a slow minute of the machine hits all
//! alike. It prints a table, and with `-- --svg FILE` draws it. What is not installed is left out,
//! and said. Only ratios from one run compare; absolute figures belong to the machine.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

mod load;
mod plot;
mod proxies;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod workloads;

use load::Window;
use proxies::Peer;
use table::{Results, Row};
use workloads::Workload;

fn main() -> ExitCode {
    let plan = match Plan::read(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(problem) => {
            let _ = write!(io::stderr(), "peers: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match plan.carry_out(&mut io::stdout()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            let _ = writeln!(io::stderr(), "peers: evenkeel failed in {failures} measurements");
            ExitCode::FAILURE
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is to be done.
struct Plan {
    pace: Pace,
    filters: Vec<String>,
    svg: Option<PathBuf>,
    list: bool,
    help: bool,
    words: Vec<String>,
}

impl Plan {
    /// Options of criterion that mean nothing here are passed over, as `cargo bench -- OPTION`
    /// gives them to every bench.
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let all: Vec<String> = arguments.collect();
        // The table and the plot tell of the command, but not of this machine's folders.
        let shown = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
        let words = all.iter().filter(|word| *word != "--bench").map(shown).collect();
        let (filters, svg) = (Vec::new(), None);
        // Without `--bench` it is `cargo test` that runs this: see that it works, and no more.
        let pace = if all.iter().any(|word| word == "--bench") { NORMAL } else { TRIAL };
        let mut plan = Self { pace, filters, svg, list: false, help: false, words };
        let mut arguments = all.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--test" => plan.pace = TRIAL,
                "--quick" => plan.pace = QUICK,
                "--full" => plan.pace = FULL,
                "--rounds" => {
                    let word = value()?;
                    plan.pace.rounds = word.parse().map_err(|_| format!("{word:?} rounds?"))?;
                }
                "--svg" => plan.svg = Some(PathBuf::from(value()?)),
                "--list" => plan.list = true,
                "--help" | "-h" => plan.help = true,
                option if PASSED_OVER.contains(&option) => {}
                option if PASSED_OVER_WITH_VALUE.contains(&option) => drop(value()?),
                option if option.starts_with('-') => {
                    return Err(format!("{option}: no such option"));
                }
                filter => plan.filters.push(filter.to_owned()),
            }
        }
        Ok(plan)
    }

    /// Measures and tells; returns the number of failures that are ours.
    fn carry_out(&self, out: &mut impl Write) -> io::Result<usize> {
        let wanted = |workload: &Workload| {
            let name = format!("peers/{}", workload.name());
            self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
        };
        let wanted: Vec<Workload> = Workload::ALL.into_iter().filter(wanted).collect();
        if self.help {
            write!(out, "{USAGE}")?;
            return Ok(0);
        }
        if self.list {
            for workload in wanted {
                writeln!(out, "peers/{}: benchmark", workload.name())?;
            }
            return Ok(0);
        }
        if wanted.is_empty() {
            return Ok(0);
        }
        let left_out = left_out(&wanted);
        let mut results = Results { heading: self.heading(&left_out), rows: rows(&wanted) };
        self.measure(&mut results);
        write!(out, "\n{}\n", results.render())?;
        if let Some(file) = &self.svg {
            fs::write(file, plot::draw(&results)).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
        }
        Ok(results.our_failures())
    }

    fn measure(&self, results: &mut Results) {
        let workloads = results.workloads();
        for round in 0..self.pace.rounds {
            for &workload in &workloads {
                let _ = writeln!(
                    io::stderr(),
                    "peers: round {} of {}: {}",
                    round + 1,
                    self.pace.rounds,
                    workload.name()
                );
                let mut rows: Vec<&mut Row> =
                    results.rows.iter_mut().filter(|row| row.workload == workload).collect();
                let first = round % rows.len();
                rows.rotate_left(first);
                for row in rows {
                    let outcome = workload.measure(row.peer, self.pace.window);
                    row.rounds.push(outcome.map_err(|error| error.to_string()));
                }
            }
        }
    }

    /// Machine, versions, date and command: without them figures mean nothing.
    fn heading(&self, left_out: &[&str]) -> Vec<String> {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let iperf = proxies::first_line("iperf3", "--version");
        let versions: Vec<String> =
            Peer::ALL.into_iter().filter_map(Peer::version).chain(iperf).collect();
        let window = self.pace.window.length;
        let mut command = "cargo bench --bench peers".to_owned();
        if !self.words.is_empty() {
            command = format!("{command} -- {}", self.words.join(" "));
        }
        let mut heading = vec![
            format!("{}, {cores} cores, Linux {}", model.unwrap_or("unknown CPU"), kernel.trim()),
            versions.join("; "),
            format!("{}; {command} ({} rounds of {window:?})", date(), self.pace.rounds),
        ];
        if self.pace.rounds <= 1 {
            heading.push("One round: it shows that everything works, and no more.".to_owned());
        }
        if !left_out.is_empty() {
            heading.push(format!("Left out, as not installed: {}", left_out.join(", ")));
        }
        heading
    }
}

/// How thorough.
#[derive(Debug, Clone, Copy)]
struct Pace {
    rounds: usize,
    window: Window,
}

/// A row for each workload that can be made and each peer that can be run.
fn rows(wanted: &[Workload]) -> Vec<Row> {
    let present = wanted.iter().filter(|workload| workload.missing().is_none());
    present
        .flat_map(|&workload| {
            let suits = move |peer: &Peer| peer.missing().is_none() && workload.suits(*peer);
            let peers = Peer::ALL.into_iter().filter(suits);
            peers.map(move |peer| Row { workload, peer, rounds: Vec::new() })
        })
        .collect()
}

/// The packages without which peers or workloads are left out.
fn left_out(wanted: &[Workload]) -> Vec<&'static str> {
    let peers = Peer::ALL.into_iter().filter_map(Peer::missing);
    let mut missing: Vec<_> = peers.chain(wanted.iter().filter_map(|w| w.missing())).collect();
    missing.dedup();
    missing
}

#[expect(clippy::disallowed_methods, reason = "a table of figures says when they were taken")]
fn date() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

const NORMAL: Pace = pace(3, 200, 1000);
const QUICK: Pace = pace(2, 100, 300);
const FULL: Pace = pace(5, 600, 2000);
const TRIAL: Pace = pace(1, 10, 40);

const fn pace(rounds: usize, warm: u64, length: u64) -> Pace {
    let (warm, length) = (Duration::from_millis(warm), Duration::from_millis(length));
    Pace { rounds, window: Window { warm, length } }
}

const PASSED_OVER: [&str; 13] = [
    "--bench",
    "--verbose",
    "-v",
    "--quiet",
    "--noplot",
    "-n",
    "--discard-baseline",
    "--exact",
    "--ignored",
    "--include-ignored",
    "--nocapture",
    "--show-output",
    "--no-capture",
];
const PASSED_OVER_WITH_VALUE: [&str; 19] = [
    "--color",
    "-c",
    "--save-baseline",
    "-s",
    "--baseline",
    "-b",
    "--baseline-lenient",
    "--load-baseline",
    "--format",
    "--output-format",
    "--plotting-backend",
    "--profile-time",
    "--sample-size",
    "--warm-up-time",
    "--measurement-time",
    "--nresamples",
    "--noise-threshold",
    "--confidence-level",
    "--significance-level",
];
const USAGE: &str = "\
Usage: cargo bench --bench peers -- [OPTIONS] [WORKLOAD]...

  --svg FILE    also draw the ratios
  --full        5 rounds of 2 s, instead of 3 of 1 s
  --quick       2 rounds of 0.3 s
  --test        see that everything works, measure nothing
  --rounds N    so many rounds
  --list        name the workloads
";
