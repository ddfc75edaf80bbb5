//! `GET /`: the dashboard, one page that needs nothing else.
//!
//! It is written by hand in `dashboard/` and put together here when the program is built. It holds
//! no secrets, so it is given to whoever may ask at this place at all; what it shows it asks for
//! like everybody else, with the token where there is one. The browser is told to load nothing and
//! to run nothing but what is known by its hash: whatever a name or a reason holds, it stays text.

/// The whole page.
pub const PAGE: &str = concat!(
    include_str!("dashboard/head.html"),
    "<style>",
    include_str!("dashboard/style.css"),
    "</style>\n",
    include_str!("dashboard/body.html"),
    "<script type=\"module\">",
    include_str!("dashboard/model.js"),
    include_str!("dashboard/view.js"),
    include_str!("dashboard/page.js"),
    "</script>\n</body>\n</html>\n"
);

/// The value of Content-Type.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// What goes with the page besides.
pub const FIELDS: [(&str, &str); 5] = [
    ("Content-Security-Policy", POLICY),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// The hashes are of what stands within `<style>` and `<script>`; a test says what they should be.
const POLICY: &str = concat!(
    "default-src 'none'; ",
    "style-src 'sha256-USFspGwFT9SG16m9i8cNmhbESAiaRCYaf6Hztg/msT0='; ",
    "script-src 'sha256-h/trxMc+GRtF8RnK0oxL7xEOg7VsCadrmBZuIeXpoZc='; ",
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; ",
    "frame-ancestors 'none'"
);

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands between the only two such tags.
    fn within<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        assert_eq!((text.matches(from).count(), text.matches(to).count()), (1, 1), "{from}");
        text.split_once(from).unwrap().1.split_once(to).unwrap().0
    }

    #[test]
    fn it_is_small() {
        assert!(PAGE.len() < 60_000, "{} bytes", PAGE.len());
    }

    #[test]
    fn the_policy_knows_style_and_script_by_their_hashes() {
        for (directive, from, to) in [
            ("style-src", "<style>", "</style>"),
            ("script-src", "<script type=\"module\">", "</script>"),
        ] {
            let expected = format!("{directive} '{}'; ", hash(within(PAGE, from, to)));
            assert!(POLICY.contains(&expected), "write this into POLICY: {expected}");
        }
    }

    #[test]
    fn nothing_is_asked_for_elsewhere() {
        // The name of a language of pictures is no place to go.
        let page = PAGE.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "//cdn", "@import", "url(", "src=", "<link rel"] {
            assert!(!page.contains(word), "{word}");
        }
        assert_eq!(page.matches("href=").count(), 2, "the icon and the way to what is wrong");
    }

    #[test]
    fn nothing_from_outside_can_become_markup_or_code() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "createContextualFragment",
            "srcdoc",
            "eval(",
            "Function(",
            "javascript:",
            " style=",
        ] {
            assert!(!PAGE.contains(word), "{word}");
        }
        let tags = PAGE.split('<').filter(|tag| tag.starts_with(|c: char| c.is_ascii_lowercase()));
        let handlers: Vec<&str> = tags.filter(|tag| tag.contains(" on")).collect();
        let inline = |tag: &&&str| {
            let tag = tag.split('>').next().unwrap_or_default();
            tag.split(" on").skip(1).any(|rest| rest.split('=').next().is_some_and(is_a_name))
        };
        assert_eq!(handlers.iter().filter(inline).count(), 0);
    }

    fn is_a_name(text: &str) -> bool {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase())
    }

    /// As a policy writes it (Content Security Policy Level 3, section 2.3.1).
    fn hash(text: &str) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = sha256(text.as_bytes());
        let mut written = "sha256-".to_owned();
        for three in digest.chunks(3) {
            let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            for place in 0..=three.len() {
                written.push(char::from(LETTERS[bits >> (18 - 6 * place) & 63]));
            }
        }
        written + "="
    }

    /// FIPS 180-4, section 6.2.
    fn sha256(text: &[u8]) -> [u8; 32] {
        let primes: Vec<u32> = (2..312).filter(|n| (2..*n).all(|d| n % d > 0)).collect();
        let mut state: Vec<u32> = primes[..8].iter().map(|&p| root_behind_point(p, 2)).collect();
        let keys: Vec<u32> = primes.iter().map(|&p| root_behind_point(p, 3)).collect();
        let mut padded = [text, &[0x80]].concat();
        padded.resize(padded.len().next_multiple_of(64), 0);
        if padded.len() - text.len() < 9 {
            padded.resize(padded.len() + 64, 0);
        }
        let end = padded.len() - 8;
        padded[end..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
        for block in padded.chunks(64) {
            let word = |four: &[u8]| u32::from_be_bytes(four.try_into().unwrap());
            let mut words: Vec<u32> = block.chunks(4).map(word).collect();
            for at in 16..64 {
                let (a, b) = (words[at - 15], words[at - 2]);
                let first = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
                let second = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
                let sum = words[at - 16].wrapping_add(words[at - 7]);
                words.push(sum.wrapping_add(first).wrapping_add(second));
            }
            let mut s = state.clone();
            for (key, word) in keys.iter().zip(words) {
                let (a, e) = (s[0], s[4]);
                let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
                let chosen = e & s[5] ^ !e & s[6];
                let one = [mixed, chosen, *key, word].into_iter().fold(s[7], u32::wrapping_add);
                let most = a & s[1] ^ a & s[2] ^ s[1] & s[2];
                let two = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22))
                    .wrapping_add(most);
                s.rotate_right(1);
                s[0] = one.wrapping_add(two);
                s[4] = s[4].wrapping_add(one);
            }
            state.iter_mut().zip(s).for_each(|(state, add)| *state = state.wrapping_add(add));
        }
        let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.try_into().unwrap()
    }

    /// The first 32 bits behind the point of the square root, the cube root.
    fn root_behind_point(prime: u32, power: u32) -> u32 {
        let (target, mut root) = (u128::from(prime) << (32 * power), 0_u128);
        for bit in (0..37).rev() {
            let next = root | 1 << bit;
            root = if next.pow(power) <= target { next } else { root };
        }
        u32::try_from(root % (1 << 32)).unwrap()
    }

    #[test]
    fn the_hash_is_the_usual_one() {
        // Those of nothing and of `abc` in FIPS 180-4's examples, and of more than one block.
        for (text, expected) in [
            (String::new(), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
            ("abc".to_owned(), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
            ("a".repeat(119), "MeulHDE6XAgiat8Y1KNZz9/Y0ugWsT9K+VL36mWE3Ps="),
        ] {
            assert_eq!(hash(&text), format!("sha256-{expected}"), "{text}");
        }
    }
}
