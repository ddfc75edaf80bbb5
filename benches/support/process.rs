//! Processes that end with the value that stands for them, and with this process at the latest.
//!
//! Dropping kills the process and all its descendants, also while panicking. Where `setpriv` is to
//! be had, the kernel ends the process too when this one is killed.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::until;

/// A running child with a log.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `words`, of which the first is the program; what it prints goes to a file in
    /// `folder`.
    pub(crate) fn start(name: &str, folder: &Path, words: &[String]) -> io::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let guard = ["setpriv", "--pdeathsig", "TERM", "--"].map(str::to_owned);
        let guarded = find("setpriv").is_some();
        let mut all = guard.iter().filter(|_| guarded).chain(words);
        let program = all.next().ok_or_else(|| io::Error::other("nothing to start"))?;
        let child = Command::new(program)
            .args(all)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// What it has printed so far.
    ///
    /// # Errors
    /// That it has ended, with its last words.
    pub(crate) fn output(&mut self) -> io::Result<String> {
        let text = fs::read_to_string(&self.log)?;
        match self.child.try_wait()? {
            None => Ok(text),
            Some(status) => {
                let name = &self.name;
                Err(io::Error::other(format!("{name} ended with {status}: {}", text.trim())))
            }
        }
    }

    /// The process and all that descend from it, parents first.
    pub(crate) fn family(&self) -> io::Result<Vec<u32>> {
        let mut parents = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process that ended meanwhile is no member.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(')').next().unwrap_or_default();
            if let Some(parent) = after_name.split_whitespace().nth(1) {
                parents.push((pid, parent.parse().unwrap_or(0)));
            }
        }
        let mut family = vec![self.child.id()];
        let mut seen = 0;
        while let Some(&member) = family.get(seen) {
            family.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(p, _)| *p));
            seen += 1;
        }
        Ok(family)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let family = match self.child.try_wait() {
            Ok(Some(_)) => Vec::new(),
            Ok(None) | Err(_) => self.family().unwrap_or_default(),
        };
        // The child first, so that it cannot replace a descendant. What is already gone is fine.
        let _ = self.child.kill();
        let descendants = family.iter().skip(1).filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        for pid in descendants {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Starts the daemon with this configuration; also says where it listens first.
pub(crate) fn evenkeel(
    name: &str,
    folder: &Path,
    config: &str,
) -> io::Result<(Process, SocketAddr)> {
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, config)?;
    let program = env!("CARGO_BIN_EXE_evenkeel").to_owned();
    let words = [program, "run".into(), "-c".into(), file.display().to_string()];
    let mut process = Process::start(name, folder, &words)?;
    let address = until("the daemon says where it listens", || {
        let output = process.output()?;
        let place = output.split("listening on ").nth(1).and_then(|rest| rest.split_once(' '));
        Ok(place.and_then(|(address, _)| address.parse().ok()))
    })?;
    Ok((process, address))
}

/// A configuration of the daemon: one listener on a free port, and these backends.
pub(crate) fn configuration(backends: &[SocketAddr], splice: bool, health: &str) -> String {
    let backends: Vec<String> = backends.iter().map(|address| format!("\"{address}\"")).collect();
    format!(
        "[listener.bench]\nbind = [\"127.0.0.1:0\"]\nsplice = {splice}\n\n\
         [pool.bench]\nbackends = [{}]\n\n\
         [pool.bench.health]\ntype = \"{health}\"\n",
        backends.join(", ")
    )
}

/// Where a program is; Debian keeps some outside of an ordinary user's PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
