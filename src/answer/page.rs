//! The words of the HTTP backend.
//!
//! What the peer sent comes back to it here, so everything is escaped for the place it stands in.

use crate::http::head::Request;

/// The page that answers any request: who answered, and what was asked.
pub(super) fn greeting(name: &str, port: Option<u16>, request: &Request) -> String {
    let name = escape(name);
    let (heading, port) = match port {
        Some(port) => (port.to_string(), port.to_string()),
        None => (name.clone(), "none".to_owned()),
    };
    let (path, method) = (escape(&request.target), escape(&request.method));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <title>Backend Server {heading}</title></head>\n<body>\n\
         <h1>Backend Server {heading}</h1>\n<p>Name: {name}</p>\n<p>Port: {port}</p>\n\
         <p>Path: {path}</p>\n<p>Method: {method}</p>\n</body>\n</html>\n"
    )
}

/// The answer to a health check.
pub(super) fn health(name: &str) -> String {
    let name = serde_json::Value::from(name);
    format!("{{\"status\":\"ok\",\"backend\":{name}}}\n")
}

/// Makes text harmless between tags and in quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
