//! The `[admin]` table: where the admin interface listens, and who may ask it.
//!
//! Whoever can reach it sees everything that goes on here. So an address that other machines may
//! reach needs a token; a loopback address and a unix socket, which has permissions, do not.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::draft::{AdminDraft, Draft, Report};
use super::problem::{Complaint, quote};
use super::section::{Entry, Section};
use super::token::{LONGEST_TOKEN, Token};
use super::{BindAddress, overlap};

/// Where the admin interface listens, and who may ask it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// One address.
    pub listen: BindAddress,
    /// The file of the token.
    pub token_file: Option<PathBuf>,
    /// What it held when it was read.
    pub token: Option<Token>,
    /// Whether metrics tell of each backend.
    pub backend_metrics: bool,
}

impl Admin {
    /// Without a token.
    #[must_use]
    pub fn new(listen: BindAddress) -> Self {
        Self { listen, token_file: None, token: None, backend_metrics: true }
    }

    /// What is wrong with a token that is not there.
    pub(super) fn check_token(&self) -> Option<Complaint> {
        if self.token_file.is_some() || is_private(&self.listen) {
            return None;
        }
        let message = format!(
            "the admin address {} can be reached from other machines and has no token",
            quote(&self.listen.to_string())
        );
        let port = self.listen.port().unwrap_or_default();
        let cure = format!("write \"127.0.0.1:{port}\", or set `token_file` in [admin]");
        Some(Complaint::new(message, cure))
    }
}

/// Reads the table; the token file is read as well, so that a bad one is found before the start.
pub(super) fn admin(named: Entry<'_>, report: &mut Report) -> Option<AdminDraft> {
    let table = named.table("write [admin] above its keys", report)?;
    let mut section = Section::new("[admin]", table);
    let listen = section.take("listen");
    let is_there = listen.is_some();
    let form = "write \"127.0.0.1:9930\"";
    let listen = listen.and_then(|entry| entry.parsed(form, report, str::parse::<BindAddress>));
    let file = section.take("token_file");
    let form = "write the path of a file that holds the token";
    let token_file = file.as_ref().and_then(|entry| entry.text(form, report)).map(PathBuf::from);
    let mut token = None;
    if let (Some(entry), Some(path)) = (&file, &token_file) {
        match read_token(path) {
            Ok(read) => token = Some(read),
            Err(complaint) => entry.complain(complaint, report),
        }
    }
    let mut backend_metrics = true;
    section.read("backend_metrics", &mut backend_metrics, report, Entry::yes_or_no);
    let places = section.places();
    let misspelt = section.finish(report);
    if !is_there && !misspelt.contains(&"listen") {
        let message = "[admin] has no address to listen on";
        let complaint = Complaint::new(message, "write listen = \"127.0.0.1:9930\"");
        report.add(complaint.at(named.key_span()));
    }
    let listen = listen?;
    Some(AdminDraft { admin: Admin { listen, token_file, token, backend_metrics }, places })
}

/// Rules that need more than one value.
pub(super) fn check(draft: &Draft, report: &mut Report) {
    let Some(AdminDraft { admin, places }) = &draft.admin else { return };
    let Some(place) = places.of("listen") else { return };
    if let Some(complaint) = admin.check_token() {
        report.add(complaint.at(place.clone()));
    }
    let written = quote(&admin.listen.to_string());
    for listener in &draft.listeners {
        for bind in listener.listener.bind.iter().take(MOST_COMPARED) {
            if overlap::clash(&admin.listen, bind) {
                let message =
                    format!("the admin address {written} overlaps with one of {}", listener.title);
                let complaint = Complaint::new(message, "choose another port or address");
                report.add(complaint.at(place));
                return;
            }
        }
    }
}

/// Reads a token file.
///
/// # Errors
///
/// It cannot be read, or holds no possible token.
pub fn read_token(path: &Path) -> Result<Token, Complaint> {
    let name = quote(&path.display().to_string());
    let unreadable = |why: &str| {
        Complaint::new(format!("the token file {name} {why}"), "name a file that can be read")
    };
    let because = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => unreadable("is not there"),
        ErrorKind::PermissionDenied => unreadable("may not be read by this user"),
        _ => unreadable(&format!("cannot be read: {error}")),
    };
    // Opening a pipe would wait for somebody to write to it.
    if !std::fs::metadata(path).map_err(because)?.is_file() {
        return Err(unreadable("is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(because)?
        .take(LONGEST_FILE)
        .read_to_end(&mut bytes)
        .map_err(because)?;
    String::from_utf8_lossy(&bytes).parse().map_err(|Complaint { message, cure }| {
        let message = format!("the token file {name} is of no use: {message}");
        Complaint { message, cure }
    })
}

/// Whether only this machine can reach it, or only who has permission.
fn is_private(address: &BindAddress) -> bool {
    match address {
        BindAddress::Inet(address) => address.ip().to_canonical().is_loopback(),
        BindAddress::Unix(_) => true,
        BindAddress::Name { host, .. } => overlap::is_localhost(host),
        BindAddress::Any(_) => false,
    }
}

/// A token and some blanks; more is too long in any case.
const LONGEST_FILE: u64 = 2 * LONGEST_TOKEN as u64;
/// Of one listener; more are refused anyway.
const MOST_COMPARED: usize = 1024;
