//! The echo backend: every line comes back with a label in front.
//!
//! It streams. The label is sent with the first byte of a line and the rest is passed through as it
//! comes, so a line may be of any length and need not be text; the only state is whether a line has
//! begun. A line ends with LF; a CR before it is part of the line.

use super::{Answer, Backlog, Next, OUTPUT_MARK};

/// Answers `hello` with `[label] hello`.
///
/// The longest answer to be added to [`OUTPUT_MARK`] is the label with three more bytes and one
/// `input`.
#[derive(Debug, Clone)]
pub struct LineAnswer {
    /// With brackets and the blank.
    prefix: String,
    at: Position,
    backlog: Backlog,
}

impl LineAnswer {
    /// `label` is what stands between the brackets, as `backend:5001`.
    pub fn new(label: &str) -> Self {
        Self { prefix: format!("[{label}] "), at: Position::LineStart, backlog: Backlog::default() }
    }

    /// Copies line by line until there is enough output, and returns how much of `input` that took.
    fn copy(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let enough = output.len() + OUTPUT_MARK;
        let mut taken = 0;
        for part in input.split_inclusive(|&byte| byte == b'\n') {
            if output.len() >= enough {
                break;
            }
            if self.at == Position::LineStart {
                output.extend_from_slice(self.prefix.as_bytes());
            }
            output.extend_from_slice(part);
            self.at = Position::after(part);
            taken += part.len();
        }
        taken
    }
}

impl Answer for LineAnswer {
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Next {
        let waiting = self.backlog.join(input);
        let taken = self.copy(&waiting, output);
        self.backlog.keep(&waiting[taken..])
    }

    /// A line that was begun gets the line end it lacks.
    fn end(&mut self, output: &mut Vec<u8>) -> Next {
        while self.receive(&[], output) == Next::Again {}
        if self.at == Position::WithinLine {
            output.push(b'\n');
            self.at = Position::LineStart;
        }
        Next::Close
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    LineStart,
    WithinLine,
}

impl Position {
    fn after(part: &[u8]) -> Self {
        if part.ends_with(b"\n") { Self::LineStart } else { Self::WithinLine }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{converse, cut_at};
    use super::*;
    use proptest::prelude::*;

    const PREFIX: &[u8] = b"[backend:5001] ";

    fn backend() -> LineAnswer {
        LineAnswer::new("backend:5001")
    }

    /// All that is sent for `pieces` and the end of the stream.
    fn echo(pieces: &[&[u8]]) -> Vec<u8> {
        let mut answer = backend();
        let longest = PREFIX.len() + pieces.iter().map(|piece| piece.len()).max().unwrap_or(0);
        let (mut sent, next) = converse(&mut answer, pieces, longest);
        assert_eq!(next, Next::Continue);
        assert_eq!(answer.end(&mut sent), Next::Close);
        sent
    }

    /// The same, said with whole lines.
    fn labelled(input: &[u8]) -> Vec<u8> {
        let complete = input.strip_suffix(b"\n").unwrap_or(input);
        if input.is_empty() {
            return Vec::new();
        }
        let lines = complete.split(|&byte| byte == b'\n');
        lines.flat_map(|line| [PREFIX, line, b"\n"].concat()).collect()
    }

    #[test]
    fn lines_are_labelled() {
        let sent = echo(&[b"hello\r\n\n\xff\0 x\nlast"]);
        let expected = b"[backend:5001] hello\r\n[backend:5001] \n[backend:5001] \xff\0 x\n\
                         [backend:5001] last\n";
        assert_eq!(sent, expected);
        assert_eq!(echo(&[]), b"");
        assert_eq!(echo(&[b"\n"]), b"[backend:5001] \n");
    }

    #[test]
    fn a_line_is_passed_on_before_it_ends() {
        let mut answer = backend();
        let (sent, _) = converse(&mut answer, &[b"hel"], 100);
        assert_eq!(sent, b"[backend:5001] hel");
        let (sent, _) = converse(&mut answer, &[b"lo"], 100);
        assert_eq!(sent, b"lo");
        assert!(answer.backlog.0.is_empty());
    }

    #[test]
    fn a_flood_of_empty_lines_is_answered_in_several_turns() {
        let flood = vec![b'\n'; 16 * 1024];
        let (mut answer, mut first) = (backend(), Vec::new());
        assert_eq!(answer.receive(&flood, &mut first), Next::Again);
        assert!(first.len() < OUTPUT_MARK + PREFIX.len() + 1);
        assert!(answer.backlog.0.len() < flood.len());
        let (rest, next) = converse(&mut answer, &[b""], PREFIX.len() + 1);
        assert_eq!(next, Next::Continue);
        assert_eq!([first, rest].concat(), labelled(&flood));
    }

    #[test]
    fn input_that_comes_too_early_waits_behind_what_came_before() {
        let flood = vec![b'\n'; 9000];
        let (mut answer, mut first) = (backend(), Vec::new());
        assert_eq!(answer.receive(&flood, &mut first), Next::Again);
        let (rest, next) = converse(&mut answer, &[b"last\n"], PREFIX.len() + 5);
        assert_eq!(next, Next::Continue);
        assert_eq!([first, rest].concat(), labelled(&[&flood[..], b"last\n"].concat()));
    }

    #[test]
    fn an_early_end_still_answers_what_was_received() {
        let flood = [&b"\n".repeat(9000)[..], b"last"].concat();
        let (mut answer, mut sent) = (backend(), Vec::new());
        assert_eq!(answer.receive(&flood, &mut sent), Next::Again);
        assert_eq!(answer.end(&mut sent), Next::Close);
        assert_eq!(sent, labelled(&flood));
    }

    #[test]
    fn a_conversation_is_the_same_wherever_it_is_cut() {
        let input = b"one\r\n\n\ntwo\nthree";
        for first in 0..=input.len() {
            for second in first..=input.len() {
                assert_eq!(echo(&cut_at(input, [first, second])), labelled(input));
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_labelled_line_by_line(
            input in prop::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..400),
            repeat in 1_usize..60,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let input = input.repeat(repeat);
            let cuts = cuts.iter().map(|cut| cut.index(input.len() + 1));
            prop_assert_eq!(echo(&cut_at(&input, cuts)), labelled(&input));
        }
    }
}
