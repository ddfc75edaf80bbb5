//! Lines of a text protocol, gathered from pieces, each with a limit.

/// A line on its way.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    bytes: Vec<u8>,
}

impl LineReader {
    /// Takes bytes from the front of `input` up to the end of the line, which ends with LF; the
    /// line is returned without its end.
    ///
    /// # Errors
    /// When the line has more than `most` bytes, its end not counted.
    pub(super) fn read(&mut self, input: &mut &[u8], most: usize) -> Result<Option<Vec<u8>>, ()> {
        let end = input.iter().position(|&byte| byte == b'\n');
        let (part, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        *input = rest;
        // One more for a CR that may end the line.
        let room = (most + 2).saturating_sub(self.bytes.len()).min(part.len());
        self.bytes.extend_from_slice(&part[..room]);
        if end.is_some() && room == part.len() {
            let mut line = std::mem::take(&mut self.bytes);
            line.pop();
            if line.ends_with(b"\r") {
                line.pop();
            }
            return if line.len() > most { Err(()) } else { Ok(Some(line)) };
        }
        let content = self.bytes.strip_suffix(b"\r").unwrap_or(&self.bytes);
        if content.len() > most { Err(()) } else { Ok(None) }
    }

    /// What has come of a line that is not complete.
    pub(super) fn begun(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
        for end in ["\n", "\r\n"] {
            for cut in 0..6 {
                let (fits, long) = (format!("abcd{end}x"), format!("abcde{end}x"));
                let mut reader = LineReader::default();
                let (mut first, mut second) = fits.as_bytes().split_at(cut);
                let mut line = reader.read(&mut first, 4);
                if line == Ok(None) {
                    line = reader.read(&mut second, 4);
                }
                assert_eq!(line, Ok(Some(b"abcd".to_vec())), "{cut} {end:?}");
                let mut reader = LineReader::default();
                let (mut first, mut second) = long.as_bytes().split_at(cut);
                let line = reader.read(&mut first, 4).and_then(|_| reader.read(&mut second, 4));
                assert_eq!(line, Err(()), "{cut} {end:?}");
            }
        }
    }
}
