//! The greeting of a mail server, an EHLO, and a QUIT, which it takes for an orderly visit.
//!
//! A server that knows no EHLO is asked with HELO, as RFC 5321 section 3.2 has it. Answers of
//! several lines count by their last one.

use super::line::LineReader;
use super::{Conversation, Heard, Next, quote};

#[derive(Debug, Default)]
pub(super) struct Smtp {
    line: LineReader,
    stage: Stage,
    lines: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Greeting,
    Ehlo,
    Helo,
}

impl Smtp {
    fn answered(&mut self, code: &[u8], line: &[u8]) -> Heard {
        match (self.stage, code) {
            (Stage::Greeting, b"220") => {
                self.stage = Stage::Ehlo;
                Ok(Next::Say(b"EHLO localhost\r\n".to_vec()))
            }
            (Stage::Ehlo | Stage::Helo, b"250") => {
                Ok(Next::Passed { found: "ready".into(), farewell: b"QUIT\r\n".to_vec() })
            }
            (Stage::Ehlo, b"500" | b"502" | b"504") => {
                self.stage = Stage::Helo;
                Ok(Next::Say(b"HELO localhost\r\n".to_vec()))
            }
            (Stage::Greeting, _) => Err(format!("the server greets with {}", quote(line))),
            (Stage::Ehlo | Stage::Helo, _) => {
                Err(format!("the server answers EHLO with {}", quote(line)))
            }
        }
    }
}

impl Conversation for Smtp {
    fn begin(&mut self) -> Heard {
        Ok(Next::Listen)
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        let line = match self.line.read(input, MOST_OF_LINE) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(Next::Listen),
            Err(()) => return Err(format!("{} is no SMTP answer", quote(self.line.begun()))),
        };
        let code = line.get(..3).filter(|code| code.iter().all(u8::is_ascii_digit));
        match (code, line.get(3)) {
            (Some(code), None | Some(b' ')) => self.answered(code, &line),
            (Some(_), Some(b'-')) => {
                self.lines += 1;
                if self.lines > MOST_LINES {
                    return Err("the server's answer has no end".into());
                }
                Ok(Next::Listen)
            }
            (None, _) | (_, Some(_)) => Err(format!("{} is no SMTP answer", quote(&line))),
        }
    }

    fn awaited(&self) -> &'static str {
        match self.stage {
            Stage::Greeting => "the greeting",
            Stage::Ehlo => "the answer to EHLO",
            Stage::Helo => "the answer to HELO",
        }
    }
}

const MOST_OF_LINE: usize = 1024;
/// Lines that go on, in all answers together.
const MOST_LINES: usize = 100;
