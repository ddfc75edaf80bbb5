//! What probes send and look for, as operators write it: bytes, text, a path and a host.

use super::problem::{Complaint, quote};

/// Text as it is, or bytes in hexadecimal after `hex:`.
pub(super) fn parse_bytes(text: &str) -> Result<Vec<u8>, Complaint> {
    let bytes = match text.strip_prefix("hex:") {
        Some(digits) => parse_hex(digits)?,
        None => text.as_bytes().to_vec(),
    };
    check_length(bytes.len())?;
    Ok(bytes)
}

/// Text that a body is searched for.
pub(super) fn parse_body(text: &str) -> Result<String, Complaint> {
    check_length(text.len())?;
    Ok(text.to_owned())
}

/// The path and query of a request.
pub(super) fn parse_path(text: &str) -> Result<String, Complaint> {
    if !text.starts_with('/') {
        let message = format!("the path {} does not begin with a slash", quote(text));
        return Err(Complaint::new(message, "write one like \"/health\""));
    }
    if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
        let message = format!("the path contains {}", quote(&c.to_string()));
        let mut encoded = String::new();
        for byte in c.to_string().bytes() {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        return Err(Complaint::new(message, format!("write it as {encoded}, or leave it out")));
    }
    check_length(text.len())?;
    Ok(text.to_owned())
}

/// The value of a `Host` header.
pub(super) fn parse_host(text: &str) -> Result<String, Complaint> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~:[]".contains(c);
    if text.is_empty() || text.len() > 255 || !text.chars().all(fits) {
        let message = format!("{} is no host of a request", quote(text));
        let cure = "write a name with or without a port, such as \"www.example:8080\"";
        return Err(Complaint::new(message, cure));
    }
    Ok(text.to_owned())
}

/// A user of a database.
pub(super) fn parse_user(text: &str) -> Result<String, Complaint> {
    if text.is_empty() || text.len() > MOST_OF_USER || text.chars().any(char::is_control) {
        let message = format!("{} is no user of a database", quote(text));
        let cure = "write a name of 1 to 80 bytes, without control characters";
        return Err(Complaint::new(message, cure));
    }
    Ok(text.to_owned())
}

/// Two digits a byte; spaces may stand between bytes.
fn parse_hex(text: &str) -> Result<Vec<u8>, Complaint> {
    let cure = "write two digits for each byte, as in \"hex:50 49 4e 47\"";
    let wrong = text.chars().find(|c| !c.is_ascii_hexdigit() && *c != ' ');
    if let Some(c) = wrong {
        let message = format!("{} is no hexadecimal digit", quote(&c.to_string()));
        return Err(Complaint::new(message, cure));
    }
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        if word.len() % 2 != 0 {
            let message = format!("{} has a digit too few or too many", quote(word));
            return Err(Complaint::new(message, cure));
        }
        let pairs = (0..word.len()).step_by(2).filter_map(|at| word.get(at..at + 2));
        bytes.extend(pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()));
    }
    Ok(bytes)
}

fn check_length(length: usize) -> Result<(), Complaint> {
    match length {
        1..=LONGEST => Ok(()),
        0 => Err(Complaint::new("it is empty", "write at least one byte, or remove the key")),
        _ => {
            let message = format!("it is {length} bytes long");
            Err(Complaint::new(message, format!("write at most {LONGEST} bytes")))
        }
    }
}

/// More than any probe needs, and less than what is read of an answer.
const LONGEST: usize = 4096;

/// The longest name of a user that MySQL knows; PostgreSQL knows shorter ones.
const MOST_OF_USER: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_bytes_are_read() {
        for (text, expected) in [
            ("PING\r\n", &b"PING\r\n"[..]),
            ("hex", b"hex"),
            ("Hex:00", b"Hex:00"),
            ("ö", &[0xc3, 0xb6]),
            ("hex:00", &[0]),
            ("hex:50494e47", b"PING"),
            ("hex: 50 49  4E47 ", b"PING"),
        ] {
            assert_eq!(parse_bytes(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(parse_bytes(&"x".repeat(4096)).map(|bytes| bytes.len()), Ok(4096));
    }

    #[test]
    fn wrong_bytes_are_refused_with_a_cure() {
        let long = "x".repeat(4097);
        for (text, message) in [
            ("", "it is empty"),
            ("hex:", "it is empty"),
            ("hex: ", "it is empty"),
            ("hex:5", "`5` has a digit too few"),
            ("hex:50 4", "`4` has a digit too few"),
            ("hex:0x50", "`x` is no hexadecimal digit"),
            ("hex:5ö", "`ö` is no hexadecimal digit"),
            ("hex:+5", "`+` is no hexadecimal digit"),
            ("hex:50\t49", "is no hexadecimal digit"),
            (&long, "4097 bytes long"),
        ] {
            let complaint = parse_bytes(text).expect_err(text);
            assert!(complaint.message.contains(message), "{text}: {complaint}");
        }
    }

    #[test]
    fn a_path_is_one_word_of_a_request_line() {
        assert!(parse_path("/health?full=1&x=%20").is_ok());
        for (text, message, cure) in [
            ("health", "begin with a slash", "/health"),
            ("http://a/", "begin with a slash", "/health"),
            ("/a b", "contains ` `", "%20"),
            ("/ö", "contains `ö`", "%C3%B6"),
            ("/a\r\nX: y", "contains", "%0D"),
            ("/a#b", "contains `#`", "%23"),
            (&format!("/{}", "a".repeat(4096)), "4097 bytes", "at most 4096"),
        ] {
            let complaint = parse_path(text).expect_err(text);
            assert!(complaint.message.contains(message), "{text}: {complaint}");
            assert!(complaint.cure.contains(cure), "{text}: {complaint}");
        }
    }

    #[test]
    fn a_host_cannot_end_its_header() {
        for text in ["www.example", "www.example:8080", "[::1]:80", "10.0.0.1"] {
            assert_eq!(parse_host(text).as_deref(), Ok(text));
        }
        for text in ["", "a b", "a\r\nX: y", "http://a/", "ö", &"a".repeat(256)] {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back_from_their_digits(bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(parse_bytes(&format!("hex:{}", digits.concat())), Ok(bytes.clone()));
            prop_assert_eq!(parse_bytes(&format!("hex:{}", digits.join(" "))), Ok(bytes));
        }
    }
}
