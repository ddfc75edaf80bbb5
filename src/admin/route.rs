//! From a request to a response: which paths there are, and what they answer.
//!
//! What tells of every backend is not there at once: see [`Response::go_on`].

use serde::Serialize;
use serde_json::json;

use super::asked::{self, backend_of, pool_of};
use super::explain::Riddle;
use super::gate::{Denial, Gate};
use super::listing::Listing;
use super::rope::Rope;
use super::sessions::{Which, id_of, to_cut};
use super::{
    Addition, Balancer, Change, Changed, Health, Problems, Proposal, Refused, Removal, dashboard,
    explain, metrics, reload, sessions,
};
use crate::http::head::{Persistence, Request};
use crate::http::refusal::Refusal;
use crate::http::reply::{Reply, Status};

/// What is sent back.
#[derive(Debug)]
pub struct Response {
    /// The outcome.
    pub status: Status,
    /// The value of Content-Type.
    pub content_type: &'static str,
    /// Further fields, with their values.
    pub fields: Vec<(&'static str, &'static str)>,
    /// The content.
    pub(super) body: Rope,
    /// What the content is to come from, as long as it is not there.
    listing: Option<Box<Listing>>,
}

impl Response {
    /// The answer to a request.
    pub fn to(request: &Request, gate: &Gate, balancer: &mut impl Balancer, client: &str) -> Self {
        let path = Path::of(request);
        if let Err(denial) = admit(request, path, gate) {
            return denial.into();
        }
        let Some(path) = path else {
            return Self::error(Status::NOT_FOUND, "there is nothing at this path");
        };
        if !path.allowed().split(", ").any(|method| method == request.method) {
            let mut response = Self::error(Status::METHOD_NOT_ALLOWED, path.refusal());
            response.fields.push(("Allow", path.allowed()));
            return response;
        }
        match path {
            Path::Dashboard => Self::dashboard(),
            Path::Health => health(balancer.health()),
            Path::Targets => Self::listed(JSON, Listing::targets(balancer.overview())),
            Path::Metrics => {
                Self::listed(metrics::CONTENT_TYPE, Listing::metrics(balancer.overview()))
            }
            Path::Status => Self::listed(JSON, Listing::status(balancer.overview())),
            Path::Backend if request.method == "DELETE" => {
                let removed = Removal::read(request).and_then(|r| balancer.remove(&r, client));
                Self::outcome(Status::OK, removed)
            }
            Path::Backend if request.method != "PATCH" => {
                let named = asked::backend(request);
                Self::outcome(Status::OK, named.and_then(|(p, b)| balancer.look(&p, &b)))
            }
            Path::Backend => {
                let changed = Change::read(request).and_then(|c| balancer.change(&c, client));
                Self::outcome(Status::OK, changed)
            }
            Path::Backends => {
                let added = Addition::read(request).and_then(|a| balancer.add(&a, client));
                Self::outcome(Status::CREATED, added)
            }
            Path::AddServer => {
                let added = Addition::read_simple(request).and_then(|a| balancer.add(&a, client));
                simple(added, "Server added successfully")
            }
            Path::DeleteServer => {
                let removal = Removal::read_simple(request);
                let removed = removal.and_then(|r| balancer.remove(&r, client));
                simple(removed, "Server removed successfully")
            }
            Path::Reload => {
                let asked = reload::check_reload(request);
                Self::outcome(Status::OK, asked.and_then(|()| balancer.reload(client)))
            }
            Path::Plan => {
                let proposal = Proposal::read(request);
                Self::outcome(Status::OK, proposal.and_then(|p| balancer.plan(p.as_ref())))
            }
            Path::Explain => {
                let riddle = Riddle::read(request);
                Self::outcome(Status::OK, riddle.and_then(|riddle| balancer.explain(&riddle)))
            }
            Path::Sessions => {
                let which = Which::read(request);
                Self::outcome(Status::OK, which.and_then(|which| balancer.sessions(&which)))
            }
            Path::Session => {
                let cut = to_cut(request).and_then(|id| balancer.cut_session(id, client));
                Self::outcome(Status::OK, cut)
            }
        }
    }

    /// The answer to what is no acceptable request.
    #[must_use]
    pub fn to_refused(refusal: Refusal) -> Self {
        Self::error(refusal.status(), &refusal.to_string())
    }

    /// Writes some of the content; true when it is all there.
    pub fn go_on(&mut self, balancer: &impl Balancer) -> bool {
        if let Some(listing) = &mut self.listing {
            let Some(body) = listing.go_on(balancer) else { return false };
            self.body = body;
            self.listing = None;
        }
        true
    }

    /// Appends all that goes before the content.
    pub(super) fn head(&self, persistence: Persistence, output: &mut Vec<u8>) {
        let Self { status, content_type, fields, body, .. } = self;
        let reply = Reply { status: *status, content_type, fields, body: &[] };
        reply.announce(body.len(), persistence, output);
    }

    fn new(status: Status, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status, content_type, fields: FIELDS.to_vec(), body: body.into(), listing: None }
    }

    fn listed(content_type: &'static str, listing: Listing) -> Self {
        Self { listing: Some(Box::new(listing)), ..Self::new(Status::OK, content_type, Vec::new()) }
    }

    fn dashboard() -> Self {
        let mut page = Self::new(Status::OK, dashboard::CONTENT_TYPE, dashboard::PAGE.into());
        page.fields.extend(dashboard::FIELDS);
        page
    }

    /// A value as JSON, its fields in the order in which they are declared.
    fn of(status: Status, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(json) => Self::json(status, json),
            Err(error) => Self::error(Status::SERVICE_UNAVAILABLE, &error.to_string()),
        }
    }

    fn outcome(status: Status, outcome: Result<impl Serialize, Refused>) -> Self {
        match outcome {
            Ok(value) => Self::of(status, &value),
            Err(Refused { status, message, problems: None }) => Self::error(status, &message),
            Err(Refused { status, message, problems: Some(problems) }) => {
                let Problems { lines, rendered } = problems;
                let body = json!({ "error": message, "problems": lines, "rendered": rendered });
                Self::json(status, body.to_string().into())
            }
        }
    }

    fn json(status: Status, mut body: Vec<u8>) -> Self {
        body.push(b'\n');
        Self::new(status, JSON, body)
    }

    fn error(status: Status, message: &str) -> Self {
        Self::json(status, json!({ "error": message }).to_string().into())
    }
}

/// Whether a request may be answered at all.
fn admit(request: &Request, path: Option<Path>, gate: &Gate) -> Result<(), Denial> {
    gate.check_place(request)?;
    match path {
        // Whoever balances over several of us probes the one, and counts are no secret; the other
        // is the same page for everybody.
        Some(Path::Health | Path::Dashboard) => Ok(()),
        _ => gate.check_token(request),
    }
}

impl From<Denial> for Response {
    fn from(denial: Denial) -> Self {
        let status = match denial {
            Denial::Target => Status::BAD_REQUEST,
            Denial::Host => Status::FORBIDDEN,
            Denial::Token => Status::UNAUTHORIZED,
        };
        let mut response = Self::error(status, &denial.to_string());
        if denial == Denial::Token {
            response.fields.push(("WWW-Authenticate", "Bearer"));
        }
        response
    }
}

/// The paths there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Dashboard,
    Health,
    Targets,
    Metrics,
    Status,
    /// One backend, which can be changed or removed.
    Backend,
    /// The backends of one pool, to which one can be added.
    Backends,
    /// The same in the words of small balancers.
    AddServer,
    DeleteServer,
    Reload,
    Plan,
    Explain,
    Sessions,
    /// One connection, which can be cut.
    Session,
}

impl Path {
    fn of(request: &Request) -> Option<Self> {
        match request.path() {
            "/" => Some(Self::Dashboard),
            "/health" => Some(Self::Health),
            "/targets" => Some(Self::Targets),
            "/metrics" => Some(Self::Metrics),
            "/api/v1/status" => Some(Self::Status),
            "/addServer" => Some(Self::AddServer),
            "/delete" => Some(Self::DeleteServer),
            reload::RELOAD => Some(Self::Reload),
            reload::PLAN => Some(Self::Plan),
            explain::PATH => Some(Self::Explain),
            sessions::PATH => Some(Self::Sessions),
            path if id_of(path).is_some() => Some(Self::Session),
            path if pool_of(path).is_some() => Some(Self::Backends),
            path => backend_of(path).map(|_| Self::Backend),
        }
    }

    /// The methods it answers, as a field has them.
    fn allowed(self) -> &'static str {
        match self {
            Self::Dashboard | Self::Health | Self::Targets | Self::Metrics => "GET, HEAD",
            Self::Status | Self::Explain | Self::Sessions => "GET, HEAD",
            Self::Backend => "GET, HEAD, PATCH, DELETE",
            Self::Backends | Self::AddServer | Self::Reload | Self::Plan => "POST",
            Self::DeleteServer | Self::Session => "DELETE",
        }
    }

    fn refusal(self) -> &'static str {
        match self {
            Self::Dashboard | Self::Health | Self::Targets | Self::Metrics => {
                "this path answers GET"
            }
            Self::Status | Self::Explain | Self::Sessions => "this path answers GET",
            Self::Session => "this path answers DELETE; the list of sessions tells of all",
            Self::Backend => "this path answers GET, PATCH and DELETE",
            Self::Backends => "this path answers POST; the status tells of every backend",
            Self::AddServer | Self::Reload | Self::Plan => "this path answers POST",
            Self::DeleteServer => "this path answers DELETE",
        }
    }
}

/// What small balancers answer to a change. Whatever was wrong with it is a bad request there.
fn simple(outcome: Result<Changed, Refused>, done: &str) -> Response {
    let (status, answer) = match &outcome {
        Ok(_) => (Status::OK, Simple { success: true, message: done, error: None }),
        Err(Refused { status, message, .. }) => {
            let status = match *status {
                Status::NOT_FOUND | Status::CONFLICT | Status::UNPROCESSABLE_CONTENT => {
                    Status::BAD_REQUEST
                }
                status => status,
            };
            (status, Simple { success: false, message, error: Some(message) })
        }
    };
    Response::of(status, &answer)
}

/// Whether this process takes clients, for those who balance over several.
fn health(health: Health) -> Response {
    let Health { is_draining, targets, healthy } = health;
    let (code, status) = if is_draining {
        (Status::SERVICE_UNAVAILABLE, "draining")
    } else {
        (Status::OK, "healthy")
    };
    let service = env!("CARGO_PKG_NAME");
    Response::of(code, &HealthWords { status, service, targets, healthy })
}

#[derive(Debug, Serialize)]
struct HealthWords {
    status: &'static str,
    service: &'static str,
    targets: usize,
    healthy: usize,
}

#[derive(Debug, Serialize)]
struct Simple<'a> {
    success: bool,
    message: &'a str,
    /// The same again, where every error has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// What is said is true at one moment only, and nothing else than what it says it is.
const FIELDS: [(&str, &str); 2] =
    [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")];
const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::{Fixed, sample};
    use super::super::snapshot::{DRAINING, Snapshot};
    use super::*;
    use crate::http::head::HeadReader;
    use serde_json::Value;

    fn response(head: &str, token: Option<&str>, snapshot: Snapshot) -> Response {
        let (_, request) = HeadReader::default().read(head.as_bytes()).unwrap();
        let gate = Gate::new(Vec::new(), token.map(|text| text.parse().unwrap()));
        let mut balancer = Fixed { snapshot, ..Fixed::default() };
        let mut response = Response::to(&request.unwrap(), &gate, &mut balancer, "me");
        while !response.go_on(&balancer) {}
        response
    }

    fn ask(method: &str, path: &str) -> Response {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        response(&head, None, sample())
    }

    fn json(response: &Response) -> Value {
        assert_eq!(response.content_type, JSON);
        let text = response.body.text();
        assert!(text.ends_with('\n'));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn health_counts_and_turns_when_draining() {
        let healthy = ask("GET", "/health");
        let expected = json!({
            "status": "healthy", "service": "evenkeel", "targets": 2, "healthy": 1,
        });
        assert_eq!((healthy.status, json(&healthy)), (Status::OK, expected));
        let draining = Snapshot { state: DRAINING.to_owned(), ..sample() };
        let answer = response("GET /health?x HTTP/1.0\r\n\r\n", None, draining);
        assert_eq!(answer.status, Status::SERVICE_UNAVAILABLE);
        assert_eq!(json(&answer)["status"], "draining");
    }

    #[test]
    fn targets_are_a_flat_list() {
        let mut snapshot = sample();
        snapshot.pools[0].backends[1].address = "unix:/run/a.sock".to_owned();
        let answer = response("GET /targets HTTP/1.0\r\n\r\n", None, snapshot);
        assert_eq!(
            json(&answer),
            json!([
                { "url": "tcp://127.0.0.1:5001", "address": "127.0.0.1:5001", "healthy": true,
                  "pool": "web", "state": "up", "weight": 2, "active": 1, "total": 7 },
                { "url": "unix:/run/a.sock", "address": "unix:/run/a.sock", "healthy": false,
                  "pool": "web", "state": "down", "weight": 2, "active": 1, "total": 7 },
            ])
        );
    }

    #[test]
    fn the_status_is_the_whole_snapshot() {
        let answer = ask("GET", "/api/v1/status");
        let read: Snapshot = serde_json::from_str(&answer.body.text()).unwrap();
        assert_eq!(read, sample());
    }

    #[test]
    fn metrics_say_what_they_are() {
        let answer = ask("GET", "/metrics");
        assert_eq!(answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
        assert!(answer.body.text().starts_with("# HELP evenkeel_"));
    }

    #[test]
    fn every_error_is_json_with_a_fitting_status() {
        for (method, path, status) in [
            ("GET", "/nothing", Status::NOT_FOUND),
            ("GET", "/health/", Status::NOT_FOUND),
            ("GET", "//health", Status::NOT_FOUND),
            ("POST", "/health", Status::METHOD_NOT_ALLOWED),
            ("DELETE", "/api/v1/status", Status::METHOD_NOT_ALLOWED),
            ("OPTIONS", "/targets", Status::METHOD_NOT_ALLOWED),
            ("get", "/health", Status::METHOD_NOT_ALLOWED),
            ("GET", "http://localhost/health", Status::BAD_REQUEST),
        ] {
            let answer = ask(method, path);
            assert_eq!(answer.status, status, "{method} {path}");
            assert!(json(&answer)["error"].is_string(), "{method} {path}");
            let allows = answer.fields.contains(&("Allow", "GET, HEAD"));
            assert_eq!(allows, status == Status::METHOD_NOT_ALLOWED, "{method} {path}");
        }
        let refused = Response::to_refused(Refusal::HeadTooLarge);
        assert_eq!(refused.status.code, 431);
        assert!(json(&refused)["error"].is_string());
    }

    #[test]
    fn a_change_is_asked_of_the_balancer_only_when_it_is_understood() {
        let path = "/api/v1/pools/web/backends/127.0.0.1:5001";
        let ask = |method: &str, fields: &str, body: &str| {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
            let (_, request) = HeadReader::default().read(head.as_bytes()).unwrap();
            let mut request = request.unwrap();
            request.body = body.into();
            let gate = Gate::new(Vec::new(), Some("s3cret".parse().unwrap()));
            let mut balancer = Fixed::default();
            let response = Response::to(&request, &gate, &mut balancer, "me");
            (response, balancer.asked)
        };
        let (token, json_type) =
            ("Authorization: Bearer s3cret\r\n", "Content-Type: application/json\r\n");
        let both = [token, json_type].concat();
        let body = r#"{"weight":3}"#;
        for (method, fields, body, code) in [
            ("PATCH", json_type, body, 401),
            ("PATCH", token, body, 415),
            ("PATCH", &both, "{", 400),
            ("PATCH", &both, "{}", 422),
            ("PUT", &both, body, 405),
            ("POST", &both, body, 405),
        ] {
            let (refused, asked) = ask(method, fields, body);
            assert_eq!(
                (refused.status.code, asked),
                (code, Vec::new()),
                "{method} {fields} {body}"
            );
            assert_eq!(
                refused.fields.contains(&("Allow", "GET, HEAD, PATCH, DELETE")),
                code == 405
            );
        }
        let (answer, asked) = ask("PATCH", &both, body);
        assert_eq!((asked.len(), asked[0].1.as_str()), (1, "me"));
        assert_eq!(asked[0].0.wishes.weight, Some(3));
        let said = json(&answer);
        assert_eq!((&said["pool"], &said["pool_available"]), (&"web".into(), &true.into()));
        assert_eq!(said["address"], "127.0.0.1:5001");
    }

    /// A request with this body of JSON, from somebody who knows the token.
    fn send(line: &str, body: &str, balancer: &mut Fixed) -> Response {
        let request = asked::tests::json(line, body);
        Response::to(&request, &Gate::default(), balancer, "me")
    }

    #[test]
    fn backends_come_and_go() {
        let mut balancer = Fixed::default();
        let body = r#"{"address":"127.0.0.1:5009","weight":3}"#;
        let added = send("POST /api/v1/pools/web/backends", body, &mut balancer);
        assert_eq!((added.status.code, &json(&added)["address"]), (201, &"127.0.0.1:5009".into()));
        let removed = send("DELETE /api/v1/pools/web/backends/127.0.0.1:5009", "", &mut balancer);
        assert_eq!(removed.status, Status::OK);
        assert_eq!(balancer.members, ["web + 127.0.0.1:5009 me", "web - 127.0.0.1:5009 me"]);
        let seen = send("GET /api/v1/pools/web/backends/%5B0::1%5D:1", "", &mut balancer);
        assert_eq!((seen.status.code, &json(&seen)["address"]), (200, &"[::1]:1".into()));
        balancer.refusal = Some(Refused::no_backend("web", "a:1", []));
        let gone = send("GET /api/v1/pools/web/backends/a:1", "", &mut balancer);
        assert_eq!(gone.status, Status::NOT_FOUND);
    }

    #[test]
    fn small_balancers_answer_in_words() {
        let mut balancer = Fixed::default();
        let body = r#"{"address":"127.0.0.1:5009"}"#;
        let added = send("POST /addServer", body, &mut balancer);
        let text = "{\"success\":true,\"message\":\"Server added successfully\"}\n";
        assert_eq!((added.status.code, added.body.text()), (200, text.to_owned()));
        let removed = send("DELETE /delete", body, &mut balancer);
        let expected = json!({ "success": true, "message": "Server removed successfully" });
        assert_eq!((removed.status.code, json(&removed)), (200, expected));
        assert_eq!(balancer.members, ["- + 127.0.0.1:5009 me", "- - 127.0.0.1:5009 me"]);
        for refusal in [Status::CONFLICT, Status::NOT_FOUND, Status::UNPROCESSABLE_CONTENT] {
            balancer.refusal = Some(Refused::new(refusal, "no such thing"));
            let refused = send("POST /addServer", body, &mut balancer);
            let expected =
                json!({ "success": false, "message": "no such thing", "error": "no such thing" });
            assert_eq!((refused.status.code, json(&refused)), (400, expected));
        }
        let refused = send("DELETE /delete", "{}", &mut balancer);
        assert_eq!((refused.status.code, &json(&refused)["success"]), (400, &false.into()));
    }

    #[test]
    fn what_is_wrong_with_a_configuration_is_told_line_by_line() {
        let error = crate::config::parse("a.toml", "[global]\nx = 1\ny = 2\n").unwrap_err();
        let (mut balancer, rendered) = (Fixed::default(), error.to_string());
        let expected = json!({ "changes": [] });
        for (path, body) in [("reload", "{}"), ("plan", ""), ("plan", r#"{"name":"a","text":""}"#)]
        {
            let line = format!("POST /api/v1/{path}");
            balancer.refusal = None;
            assert_eq!(json(&send(&line, body, &mut balancer)), expected, "{line} {body}");
            balancer.refusal = Some(error.clone().into());
            let refused = send(&line, body, &mut balancer);
            assert_eq!(refused.status, Status::UNPROCESSABLE_CONTENT);
            let told = json(&refused);
            assert_eq!(told["error"], "the configuration has 4 problems");
            assert_eq!(told["rendered"], rendered);
            let first = told["problems"][0].as_str().unwrap();
            assert!(first.starts_with("a.toml:2:1: unknown key `x` in [global]; "), "{first}");
        }
    }

    #[test]
    fn every_change_needs_its_type_a_known_host_and_the_token() {
        for line in [
            "PATCH /api/v1/pools/web/backends/a:1",
            "DELETE /api/v1/pools/web/backends/a:1",
            "POST /api/v1/pools/web/backends",
            "POST /addServer",
            "DELETE /delete",
            "POST /api/v1/reload",
            "POST /api/v1/plan",
        ] {
            let body = r#"{"address":"a:1"}"#;
            let gate = Gate::new(Vec::new(), Some("s3cret".parse().unwrap()));
            let token = "Authorization: Bearer s3cret\r\n";
            for (fields, host, code) in [
                (token.to_owned(), "localhost", 415),
                (format!("{token}Content-Type: text/plain\r\n"), "localhost", 415),
                (format!("{token}Content-Type: multipart/form-data\r\n"), "localhost", 415),
                ("Content-Type: application/json\r\n".to_owned(), "localhost", 401),
                (format!("{token}Content-Type: application/json\r\n"), "evil.example", 403),
            ] {
                let request = asked::tests::request_to(host, line, &fields, body);
                let mut balancer = Fixed::default();
                let answer = Response::to(&request, &gate, &mut balancer, "me");
                assert_eq!(answer.status.code, code, "{line} {fields}");
                assert!(json(&answer)["error"].is_string());
                assert!(balancer.asked.is_empty() && balancer.members.is_empty());
            }
        }
    }

    #[test]
    fn the_dashboard_is_for_everybody_and_runs_nothing_foreign() {
        for (head, token) in [
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Some("s3cret")),
            ("HEAD /?what HTTP/1.1\r\nHost: 127.0.0.1:9930\r\n\r\n", None),
        ] {
            let page = response(head, token, Snapshot::default());
            assert_eq!((page.status, page.content_type), (Status::OK, "text/html; charset=utf-8"));
            assert_eq!(page.body.text(), dashboard::PAGE);
            let policy = page.fields.iter().find(|field| field.0 == "Content-Security-Policy");
            assert!(policy.unwrap().1.starts_with("default-src 'none'; "), "{policy:?}");
            assert!(page.fields.contains(&("Cache-Control", "no-store")), "{:?}", page.fields);
        }
        assert_eq!(ask("POST", "/").status, Status::METHOD_NOT_ALLOWED);
        assert_eq!(ask("GET", "/index.html").status, Status::NOT_FOUND);
    }

    #[test]
    fn a_foreign_host_is_told_nothing() {
        for path in ["/", "/health", "/api/v1/status", "/nothing"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
            let answer = response(&head, None, sample());
            assert_eq!(answer.status, Status::FORBIDDEN, "{path}");
        }
    }

    #[test]
    fn with_a_token_only_health_is_open() {
        for (path, without, with) in
            [("/health", 200, 200), ("/targets", 401, 200), ("/nothing", 401, 404)]
        {
            let ask = |field: &str| {
                let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
                response(&head, Some("s3cret"), sample())
            };
            let (refused, known) = (ask(""), ask("Authorization: Bearer s3cret\r\n"));
            assert_eq!((refused.status.code, known.status.code), (without, with), "{path}");
            let challenges = refused.fields.contains(&("WWW-Authenticate", "Bearer"));
            assert_eq!(challenges, without == 401, "{path}");
        }
    }
}
