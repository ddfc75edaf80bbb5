//! Where a message body ends, and which of its bytes are payload (RFC 9112 sections 6 and 7).
//!
//! [`Framing`] is what a head declares; [`BodyReader`] follows it through the bytes as they come.
//! The reader holds no bytes: it says how many it took and which of those are payload, so that one
//! caller can drop a body, another collect it, and a third pass it on as it came.
//!
//! Two readers of one stream must never disagree on an end, so nothing is guessed: a declaration
//! with two readings is refused, and chunk lines end in CRLF, never in a bare CR or LF.

use super::refusal::Refusal;

/// How the head says the end of the body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// After this many bytes; 0 means that there is no body.
    Length(u64),
    /// By a chunk of size 0 and the trailer after it.
    Chunked,
}

impl Framing {
    /// Reads all values of Content-Length and of Transfer-Encoding of one request.
    ///
    /// # Errors
    ///
    /// Any declaration that two readers could understand differently, and any coding but `chunked`.
    pub fn declared<'a>(
        lengths: impl Iterator<Item = &'a [u8]>,
        codings: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Self, Refusal> {
        let length = agreed_length(lengths)?;
        let mut codings = codings.peekable();
        if codings.peek().is_none() {
            return Ok(Self::Length(length.unwrap_or(0)));
        }
        if length.is_some() {
            return Err(Refusal::LengthAndCoding);
        }
        only_chunked(codings)
    }
}

/// A body on its way.
#[derive(Debug, Clone)]
pub struct BodyReader {
    state: State,
    /// Bytes of chunk extensions and trailer that are still tolerated.
    spare: usize,
}

/// What one call of [`BodyReader::read`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// How many bytes of the input belong to the body, framing included.
    pub taken: usize,
    /// The payload among them, always at their end; often empty.
    pub data: &'a [u8],
}

impl BodyReader {
    /// At the first byte after the head.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(left) => State::counted(left),
            Framing::Chunked => State::Size { digits: 0, size: 0 },
        };
        Self { state, spare: MAX_CHUNK_EXTRAS }
    }

    /// Takes bytes from the front of `input`, up to the end of the next stretch of payload.
    ///
    /// Call again with the rest until the input is used up or the body [is
    /// complete](Self::is_complete). Progress is made whenever there is input and the body is not
    /// complete; after that nothing is taken.
    ///
    /// # Errors
    ///
    /// [`Refusal::Chunk`] and [`Refusal::ChunkExtras`]; the reader is of no use afterwards.
    pub fn read<'a>(&mut self, input: &'a [u8]) -> Result<Piece<'a>, Refusal> {
        let mut taken = 0;
        while let Some(&byte) = input.get(taken) {
            self.state = match self.state {
                State::Complete => break,
                State::Counted(left) => {
                    let (data, left) = payload(&input[taken..], left);
                    self.state = State::counted(left);
                    return Ok(Piece { taken: taken + data.len(), data });
                }
                State::Data(left) => {
                    let (data, left) = payload(&input[taken..], left);
                    self.state = if left == 0 { State::DataCr } else { State::Data(left) };
                    return Ok(Piece { taken: taken + data.len(), data });
                }
                State::Size { digits, size } => size_digit(byte, digits, size)?,
                State::Blank(size) => match byte {
                    b' ' | b'\t' => self.extra(State::Blank(size))?,
                    b';' => self.extra(State::Extension(size))?,
                    _ => return Err(Refusal::Chunk),
                },
                State::Extension(size) => match byte {
                    b'\r' => State::SizeLf(size),
                    byte if is_text(byte) => self.extra(State::Extension(size))?,
                    _ => return Err(Refusal::Chunk),
                },
                State::SizeLf(0) => expect(b'\n', byte, State::TrailerStart)?,
                State::SizeLf(size) => expect(b'\n', byte, State::Data(size))?,
                State::DataCr => expect(b'\r', byte, State::DataLf)?,
                State::DataLf => expect(b'\n', byte, State::Size { digits: 0, size: 0 })?,
                State::TrailerStart if byte == b'\r' => State::LastLf,
                State::TrailerStart | State::Trailer => match byte {
                    b'\r' => State::TrailerLf,
                    byte if is_text(byte) => self.extra(State::Trailer)?,
                    _ => return Err(Refusal::Chunk),
                },
                State::TrailerLf => expect(b'\n', byte, State::TrailerStart)?,
                State::LastLf => expect(b'\n', byte, State::Complete)?,
            };
            taken += 1;
        }
        Ok(Piece { taken, data: &[] })
    }

    /// Whether the last byte of the body has been taken.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Accounts for a byte that carries neither payload nor size.
    fn extra(&mut self, next: State) -> Result<State, Refusal> {
        self.spare = self.spare.checked_sub(1).ok_or(Refusal::ChunkExtras)?;
        Ok(next)
    }
}

/// What the next byte is. A chunk's size travels along until its data begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Payload of a body with a length; never 0.
    Counted(u64),
    /// A digit of a chunk size, or what ends it.
    Size { digits: u32, size: u64 },
    /// A blank before an extension. RFC 9112 section 7.1.1 has it only there.
    Blank(u64),
    /// Inside an extension.
    Extension(u64),
    /// The LF of a size line.
    SizeLf(u64),
    /// Payload of a chunk; never 0.
    Data(u64),
    /// The CR after a chunk.
    DataCr,
    /// The LF after a chunk.
    DataLf,
    /// The first byte of a trailer line.
    TrailerStart,
    /// Inside a trailer line.
    Trailer,
    /// The LF of a trailer line.
    TrailerLf,
    /// The LF that ends it all.
    LastLf,
    /// No byte any more.
    Complete,
}

impl State {
    fn counted(left: u64) -> Self {
        if left == 0 { Self::Complete } else { Self::Counted(left) }
    }
}

/// Splits off the payload at the front of `input`, of which `left` bytes are outstanding.
fn payload(input: &[u8], left: u64) -> (&[u8], u64) {
    let here = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
    (&input[..here], left - here as u64)
}

fn size_digit(byte: u8, digits: u32, size: u64) -> Result<State, Refusal> {
    match char::from(byte).to_digit(16) {
        Some(_) if digits == MAX_SIZE_DIGITS => Err(Refusal::Chunk),
        Some(digit) => Ok(State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) }),
        None if digits == 0 => Err(Refusal::Chunk),
        None => match byte {
            b'\r' => Ok(State::SizeLf(size)),
            b' ' | b'\t' => Ok(State::Blank(size)),
            b';' => Ok(State::Extension(size)),
            _ => Err(Refusal::Chunk),
        },
    }
}

fn expect(wanted: u8, byte: u8, next: State) -> Result<State, Refusal> {
    if byte == wanted { Ok(next) } else { Err(Refusal::Chunk) }
}

/// What may stand in an extension or a trailer: no control characters but the tab.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// The one length that all fields and list members state, if any does.
fn agreed_length<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Option<u64>, Refusal> {
    let mut agreed = None;
    for member in values.flat_map(members) {
        let length = decimal(member).ok_or(Refusal::Length)?;
        if agreed.is_some_and(|earlier| earlier != length) {
            return Err(Refusal::Length);
        }
        agreed = Some(length);
    }
    Ok(agreed)
}

/// Digits only: `u64::from_str` alone would take a sign.
fn decimal(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn only_chunked<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Framing, Refusal> {
    let mut found = Err(Refusal::CodingOrder);
    for coding in values.flat_map(members).filter(|coding| !coding.is_empty()) {
        if found.is_ok() {
            return Err(Refusal::CodingOrder);
        }
        if !coding.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal::UnknownCoding);
        }
        found = Ok(Framing::Chunked);
    }
    found
}

/// The members of a comma-separated field value, without the blanks around them.
pub(super) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Most bytes of chunk extensions and trailer in one body. They are read and dropped, but a peer
/// that sends little else is up to no good.
pub const MAX_CHUNK_EXTRAS: usize = 16 * 1024;

/// As many hexadecimal digits as a `u64` has.
const MAX_SIZE_DIGITS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn declared(lengths: &[&str], codings: &[&str]) -> Result<Framing, Refusal> {
        let bytes = |value: &&'static str| value.as_bytes();
        let own = |values: &[&str]| -> Vec<&'static str> {
            values.iter().map(|value| &*String::from(*value).leak()).collect()
        };
        Framing::declared(own(lengths).iter().map(bytes), own(codings).iter().map(bytes))
    }

    /// Payload, bytes taken, and whether the end was found, with `input` cut at `cuts`.
    fn decode(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), Refusal> {
        let mut reader = BodyReader::new(framing);
        let (mut data, mut taken) = (Vec::new(), 0);
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() && !reader.is_complete() {
                let found = reader.read(rest)?;
                assert!(found.taken > 0, "no progress");
                assert!(rest[..found.taken].ends_with(found.data));
                data.extend_from_slice(found.data);
                taken += found.taken;
                rest = &rest[found.taken..];
            }
        }
        Ok((data, taken, reader.is_complete()))
    }

    #[test]
    fn lengths_must_be_plain_numbers_that_agree() {
        assert_eq!(declared(&[], &[]), Ok(Framing::Length(0)));
        assert_eq!(declared(&["7"], &[]), Ok(Framing::Length(7)));
        assert_eq!(declared(&["7", "7"], &[]), Ok(Framing::Length(7)));
        assert_eq!(declared(&["7, 7"], &[]), Ok(Framing::Length(7)));
        let largest = u64::MAX.to_string();
        assert_eq!(declared(&[&largest], &[]), Ok(Framing::Length(u64::MAX)));
        for bad in ["", "+7", "-1", "7 7", "0x7", "7,", ",7", "7;", "18446744073709551616", "7, 8"]
        {
            assert_eq!(declared(&[bad], &[]), Err(Refusal::Length), "{bad:?}");
        }
        assert_eq!(declared(&["7", "8"], &[]), Err(Refusal::Length));
        assert_eq!(declared(&["7", ""], &[]), Err(Refusal::Length));
    }

    #[test]
    fn chunked_stands_alone_and_once() {
        assert_eq!(declared(&[], &["chunked"]), Ok(Framing::Chunked));
        assert_eq!(declared(&[], &[" Chunked ,"]), Ok(Framing::Chunked));
        assert_eq!(declared(&["0"], &["chunked"]), Err(Refusal::LengthAndCoding));
        assert_eq!(declared(&["5"], &["gzip"]), Err(Refusal::LengthAndCoding));
        for unknown in ["gzip", "gzip, chunked", "identity", "chunked;x=1", "xchunked"] {
            assert_eq!(declared(&[], &[unknown]), Err(Refusal::UnknownCoding), "{unknown}");
        }
        for bad in ["", ",", "chunked, chunked", "chunked, gzip"] {
            assert_eq!(declared(&[], &[bad]), Err(Refusal::CodingOrder), "{bad}");
        }
        assert_eq!(declared(&[], &["chunked", "chunked"]), Err(Refusal::CodingOrder));
    }

    #[test]
    fn a_counted_body_ends_after_its_last_byte() {
        let found = decode(Framing::Length(5), &[b"hel", b"loGET /"]);
        assert_eq!(found, Ok((b"hello".to_vec(), 5, true)));
        assert_eq!(decode(Framing::Length(0), &[b"GET"]), Ok((vec![], 0, true)));
        assert_eq!(decode(Framing::Length(9), &[b"four"]), Ok((b"four".to_vec(), 4, false)));
    }

    #[test]
    fn a_chunked_body_ends_after_its_trailer_wherever_it_is_cut() {
        let body = b"5;a=\"b\"\r\nhello\r\n0B \t;x\r\n, my world\n\r\n00\r\nSum: 1\r\nX:\r\n\r\n";
        let input = [&body[..], b"GET / HTTP/1.1"].concat();
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                let found = decode(Framing::Chunked, &pieces);
                assert_eq!(found, Ok((b"hello, my world\n".to_vec(), body.len(), true)));
            }
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for bad in [
            "\r\n",
            "g\r\n",
            ";x\r\n",
            "-1\r\n",
            "0x5\r\nhello\r\n",
            "5\nhello\r\n",
            "5\rhello\r\n",
            "5\r\nhello\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\rX0\r\n\r\n",
            "5 \r\nhello\r\n",
            "5 5\r\n",
            "5;a\nhello",
            "5;a\rb\r\n",
            "5;\0\r\n",
            "00000000000000005\r\n",
            "10000000000000000\r\n",
            "0\r\n\n",
            "0\r\nX: 1\n\r\n",
            "0\r\nX: 1\rX\r\n\r\n",
            "0\r\nX: \x01\r\n\r\n",
            "0\r\n\rX",
        ] {
            let found = decode(Framing::Chunked, &[bad.as_bytes()]);
            assert_eq!(found, Err(Refusal::Chunk), "{bad:?}");
        }
    }

    #[test]
    fn the_largest_size_does_not_overflow() {
        let found = decode(Framing::Chunked, &[b"FFFFFFFFFFFFFFFF\r\nabc"]);
        assert_eq!(found, Ok((b"abc".to_vec(), 21, false)));
    }

    #[test]
    fn extensions_and_trailer_have_one_common_limit() {
        let with = |extension: usize, trailer: usize| {
            let (extension, trailer) = ("e".repeat(extension), "t".repeat(trailer));
            let body = format!("1;{extension}\r\nx\r\n0\r\n{trailer}\r\n\r\n");
            decode(Framing::Chunked, &[body.as_bytes()]).map(|(_, _, complete)| complete)
        };
        assert_eq!(with(MAX_CHUNK_EXTRAS - 9, 9), Ok(true));
        assert_eq!(with(MAX_CHUNK_EXTRAS - 9, 10), Err(Refusal::ChunkExtras));
        assert_eq!(with(MAX_CHUNK_EXTRAS + 1, 0), Err(Refusal::ChunkExtras));
        // The same by many small chunks.
        let many = "1;1234567\r\nx\r\n".repeat(MAX_CHUNK_EXTRAS / 7 + 1);
        assert_eq!(decode(Framing::Chunked, &[many.as_bytes()]), Err(Refusal::ChunkExtras));
    }

    proptest! {
        #[test]
        fn what_was_chunked_comes_back(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                input.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                input.extend_from_slice(chunk);
                input.extend_from_slice(b"\r\n");
            }
            input.extend_from_slice(b"0\r\n\r\n");
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len())).collect();
            cuts.extend([0, input.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect();
            let found = decode(Framing::Chunked, &pieces);
            prop_assert_eq!(found, Ok((chunks.concat(), input.len(), true)));
        }

        #[test]
        fn any_bytes_give_the_same_verdict_however_they_are_cut(
            input in "[0-2aF;: \t\r\nx\u{0}]{0,60}",
            cut in any::<prop::sample::Index>(),
        ) {
            let input = input.as_bytes();
            let cut = cut.index(input.len() + 1);
            let whole = decode(Framing::Chunked, &[input]);
            let halves = decode(Framing::Chunked, &[&input[..cut], &input[cut..]]);
            prop_assert_eq!(whole, halves);
        }
    }
}
