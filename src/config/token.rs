//! The secret that those who ask the admin address must know.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

use super::problem::Complaint;

/// 1 to 1024 visible ASCII characters. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Whether `offer` is this token. How long that takes depends on the length of the offer and
    /// on nothing else, so that nobody can find the token out piece by piece.
    #[must_use]
    pub fn matches(&self, offer: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut differs = u8::from(offer.len() != secret.len());
        for (offered, own) in offer.iter().zip(secret.iter().cycle()) {
            differs = black_box(differs | (offered ^ own));
        }
        differs == 0
    }

    /// For those who send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Blanks and line ends around it do not count, as an editor adds one.
impl FromStr for Token {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let token = text.trim_ascii();
        if token.is_empty() {
            return Err(Complaint::new("it has no token in it", MAKE));
        }
        if token.len() > LONGEST_TOKEN {
            let message = format!("its token is longer than {LONGEST_TOKEN} characters");
            return Err(Complaint::new(message, MAKE));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "its token has a blank, a line break or a letter beyond ASCII in it";
            return Err(Complaint::new(message, MAKE));
        }
        Ok(Self(token.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

pub(super) const LONGEST_TOKEN: usize = 1024;

const MAKE: &str = "write one line of random letters into it, as `openssl rand -hex 32` makes it";

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_token_itself_matches() {
        let secret = token("s3cret\r\n");
        assert!(secret.matches(b"s3cret"));
        for offer in ["", "s", "s3cre", "s3cret ", "s3cres", "t3cret", "s3crets3cret"] {
            assert!(!secret.matches(offer.as_bytes()), "{offer:?}");
        }
    }

    #[test]
    fn what_no_header_can_carry_is_no_token() {
        let longest = "x".repeat(LONGEST_TOKEN);
        assert_eq!(token(&longest).reveal(), longest);
        for text in ["", " \n", "a b", "a\nb", "é", &format!("{longest}x")] {
            assert!(text.parse::<Token>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn it_does_not_show_in_what_is_printed_for_programmers() {
        assert!(!format!("{:?}", token("s3cret")).contains("s3cret"));
    }
}
