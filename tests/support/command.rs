//! Commands that ask a running balancer, and what they print.

use std::process::{Command, Output, Stdio};

use super::daemon::program;

/// A command that asks this balancer.
pub(crate) fn command(admin: impl ToString, line: &str) -> Command {
    let mut command = program();
    command.env_remove("EVENKEEL_TOKEN_FILE").env("EVENKEEL_ADMIN", admin.to_string());
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How it ends, and what it prints: to the output, and besides.
pub(crate) fn ended(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

pub(crate) fn say(admin: impl ToString, line: &str) -> (Option<i32>, String, String) {
    ended(command(admin, line).output().unwrap())
}
