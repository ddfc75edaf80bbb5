//! An HTTP GET: the status must be an expected one, and the body hold an expected text.
//!
//! Interim responses are skipped. The body is read only where a text is expected, and then no
//! further than its first 16 KiB. The connection is left for the server to close, as it was asked
//! to: a server that is still sending would take our end for a client that gave up.

use std::ops::RangeInclusive;

use super::{Conversation, Found, Heard, MOST_SEARCHED, Next, contains};
use crate::http::body::BodyReader;
use crate::http::response::{BodyEnd, Response, ResponseReader};

/// What is asked, and which answers are good.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpQuestion {
    /// Path and query.
    pub path: String,
    /// The value of the `Host` field.
    pub host: String,
    /// The status codes that are good.
    pub expect: Vec<RangeInclusive<u16>>,
    /// What must be in the first 16 KiB of the body.
    pub body: Option<String>,
}

#[derive(Debug)]
pub(super) struct Http {
    question: HttpQuestion,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Head { reader: ResponseReader, interim: usize },
    Body { status: u16, reader: Option<BodyReader>, heard: Vec<u8> },
}

impl Http {
    pub(super) fn new(question: HttpQuestion) -> Self {
        let stage = Stage::Head { reader: ResponseReader::default(), interim: 0 };
        Self { question, stage }
    }

    fn judge(&mut self, response: Response) -> Heard {
        let Response { status, end } = response;
        let expect = &self.question.expect;
        if !expect.iter().any(|range| range.contains(&status)) {
            return Err(format!("status {status}, expected {}", ranges(expect)));
        }
        let Some(text) = &self.question.body else {
            return Ok(Next::passed(format!("status {status}")));
        };
        let reader = match end {
            BodyEnd::AtClose => None,
            BodyEnd::Framed(framing) => Some(BodyReader::new(framing)),
            BodyEnd::Unclear(refusal) => return Err(format!("the response is unclear: {refusal}")),
        };
        if reader.as_ref().is_some_and(BodyReader::is_complete) {
            return Err(lacks(text));
        }
        self.stage = Stage::Body { status, reader, heard: Vec::new() };
        Ok(Next::Listen)
    }
}

impl Conversation for Http {
    fn begin(&mut self) -> Heard {
        let HttpQuestion { path, host, .. } = &self.question;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: evenkeel\r\nAccept: */*\r\n\
             Connection: close\r\n\r\n"
        );
        Ok(Next::Say(request.into_bytes()))
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        match &mut self.stage {
            Stage::Head { reader, interim } => {
                let Some(response) = reader.read(input).map_err(|fault| fault.to_string())? else {
                    return Ok(Next::Listen);
                };
                if !response.is_interim() {
                    return self.judge(response);
                }
                *interim += 1;
                if *interim > MOST_INTERIM {
                    return Err("nothing but interim responses".into());
                }
                Ok(Next::Listen)
            }
            Stage::Body { status, reader, heard } => {
                let text = self.question.body.as_deref().unwrap_or_default();
                let known = heard.len();
                let data = match reader {
                    None => std::mem::take(input),
                    Some(reader) => {
                        let piece = reader.read(input).map_err(|refusal| refusal.to_string())?;
                        *input = &input[piece.taken..];
                        piece.data
                    }
                };
                heard.extend_from_slice(&data[..data.len().min(MOST_SEARCHED - known)]);
                if contains(heard, known, text.as_bytes()) {
                    return Ok(Next::passed(format!("status {status}, the expected text")));
                }
                if heard.len() == MOST_SEARCHED {
                    return Err(format!("no {text:?} in the first 16 KiB of the body"));
                }
                if reader.as_ref().is_some_and(BodyReader::is_complete) {
                    return Err(lacks(text));
                }
                Ok(Next::Listen)
            }
        }
    }

    fn end(&mut self) -> Result<Found, String> {
        let text = self.question.body.as_deref().unwrap_or_default();
        Err(match &self.stage {
            Stage::Head { reader, interim: 0 } if reader.is_empty() => {
                "closed without a response".into()
            }
            Stage::Head { .. } => "the response head was cut short".into(),
            Stage::Body { reader: None, .. } => lacks(text),
            Stage::Body { reader: Some(_), .. } => "the body was cut short".into(),
        })
    }

    fn awaited(&self) -> &'static str {
        match &self.stage {
            Stage::Head { reader, interim: 0 } if reader.is_empty() => "a response",
            Stage::Head { .. } => "the rest of the response head",
            Stage::Body { .. } => "the expected text in the body",
        }
    }

    fn waits_for_the_end(&self) -> bool {
        true
    }
}

fn lacks(text: &str) -> String {
    format!("no {text:?} in the body")
}

fn ranges(expect: &[RangeInclusive<u16>]) -> String {
    let words = expect.iter().map(|range| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Interim responses before the one that counts.
const MOST_INTERIM: usize = 8;
