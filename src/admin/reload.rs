//! Reloading the configuration: what is asked for, and what is answered.

use serde::{Deserialize, Serialize};

use super::{Refused, asked};
use crate::config::{Action, Item, LARGEST_FILE};
use crate::http::head::Request;
use crate::http::reply::Status;

/// A configuration that somebody would like to know about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// What problems call it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What a reload does, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Each change; none when everything is so already.
    pub changes: Vec<PlanItem>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanItem {
    /// What is changed, as in `backend web/127.0.0.1:5001`.
    pub subject: String,
    /// `add`, `remove` or `change`; `restart` for what is not done before the next start.
    pub action: String,
    /// From what, to what, for people.
    pub text: String,
    /// Live connections that the change is about.
    pub connections: u64,
}

impl Proposal {
    /// What a request for a plan brings; `None`: the file that the program runs with is meant.
    ///
    /// # Errors
    /// When it is of another content type, not JSON, or no configuration by its size or its name.
    pub fn read(request: &Request) -> Result<Option<Self>, Refused> {
        asked::check_content_type(request)?;
        if request.body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let proposal: Self = asked::read(&request.body, "proposal", EXAMPLE)?;
        let cannot = |message: &str| Err(Refused::new(Status::UNPROCESSABLE_CONTENT, message));
        if proposal.text.len() as u64 > LARGEST_FILE {
            return cannot("the text is larger than 1 MiB, which no configuration needs");
        }
        if proposal.name.len() > LONGEST_NAME || proposal.name.contains(char::is_control) {
            return cannot("the name is no name of a file; send a short one in one line");
        }
        Ok(Some(proposal))
    }
}

/// Whether a request for a reload is one.
///
/// # Errors
/// When it is of another content type, or has something to say besides.
pub(super) fn check_reload(request: &Request) -> Result<(), Refused> {
    asked::check_content_type(request)?;
    if request.body.trim_ascii().is_empty() {
        return Ok(());
    }
    asked::read::<Nothing>(&request.body, "reload", "nothing, or {}").map(drop)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl PlanItem {
    /// A change that is about so many live connections.
    #[must_use]
    pub fn new(item: &Item, connections: u64) -> Self {
        Self {
            subject: item.subject.to_string(),
            action: item.action.word().to_owned(),
            text: item.text.clone(),
            connections,
        }
    }

    /// Whether it waits for the next start of the program.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        self.action == Action::Restart.word()
    }
}

/// Where the file is read again.
pub const RELOAD: &str = "/api/v1/reload";
/// Where it is asked what that would do.
pub const PLAN: &str = "/api/v1/plan";
/// The most that a proposal takes: a text of 1 MiB with much to escape in it.
pub const MOST_OF_PROPOSAL: u64 = 2 * LARGEST_FILE;
const EXAMPLE: &str = r#"nothing, or {"name":"evenkeel.toml","text":"..."}"#;
const LONGEST_NAME: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::asked::tests::{json, request};
    use super::*;

    #[test]
    fn a_proposal_is_a_text_with_a_name_or_nothing() {
        let read = |body: &str| Proposal::read(&json("POST /api/v1/plan", body));
        assert_eq!(read(" "), Ok(None));
        let (name, text) = ("a.toml".to_owned(), "[global]\n".to_owned());
        let body = r#"{"name":"a.toml","text":"[global]\n"}"#;
        assert_eq!(read(body), Ok(Some(Proposal { name, text })));
        for (body, code) in [
            ("{", 400),
            ("{}", 422),
            ("[]", 422),
            (r#"{"name":"a\nb","text":""}"#, 422),
            (r#"{"name":"a","text":"","more":1}"#, 422),
        ] {
            assert_eq!(read(body).unwrap_err().status.code, code, "{body}");
        }
        let long = Proposal { name: "x".repeat(LONGEST_NAME + 1), text: String::new() };
        let refused = read(&serde_json::to_string(&long).unwrap()).unwrap_err();
        assert_eq!(refused.status, Status::UNPROCESSABLE_CONTENT);
        let form = request("POST /api/v1/plan", "", "");
        assert_eq!(Proposal::read(&form).unwrap_err().status, Status::UNSUPPORTED_MEDIA_TYPE);
    }

    #[test]
    fn a_reload_says_nothing_more() {
        let check = |body: &str| check_reload(&json("POST /api/v1/reload", body));
        assert_eq!((check(""), check("{}")), (Ok(()), Ok(())));
        assert_eq!(check(r#"{"file":"/etc/passwd"}"#).unwrap_err().status.code, 422);
        let form = request("POST /api/v1/reload", "", "");
        assert_eq!(check_reload(&form).unwrap_err().status, Status::UNSUPPORTED_MEDIA_TYPE);
    }
}
