//! Questions to the admin address.

use std::net::SocketAddr;

use serde_json::Value;

use super::client::ask;

/// Status and body of the answer to a request with a body of JSON.
pub(crate) fn request(admin: SocketAddr, line: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let whole = ask(
        admin,
        &format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ),
    );
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// The whole status.
pub(crate) fn status(admin: SocketAddr) -> Value {
    request(admin, "GET /api/v1/status", "").1
}
