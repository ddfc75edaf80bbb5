//! Which known word somebody meant: the edit distance behind every "did you mean".
//!
//! A suggestion is only made when it is likely right: a wrong one costs the reader more than
//! none. Distance counts insertions, deletions, substitutions and swaps of neighbours, each as
//! one. Deliberately not here: what to say when nothing is near; the caller lists its words.

/// The candidate nearest to `typed`, or `None` when no candidate is near enough to be meant.
///
/// Near enough is a third of the typed characters, or one word continuing the other. Only the
/// first 100 candidates are looked at and long input is never near anything, so a
/// hostile file cannot make this slow.
#[must_use]
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.to_lowercase().chars().collect();
    if typed.len() > LONGEST {
        return None;
    }
    let near = (typed.len() / 3).max(1);
    candidates
        .into_iter()
        .take(CANDIDATES)
        .filter_map(|word| {
            let letters: Vec<char> = word.to_lowercase().chars().collect();
            let distance = distance(&typed, &letters);
            let continued = typed.len().min(letters.len()) >= 3
                && (letters.starts_with(&typed) || typed.starts_with(&letters));
            (distance <= near || continued).then_some((distance, word))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, word)| word)
}

/// Optimal string alignment distance, keeping three rows of the table.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = above;
        above = row;
    }
    above[b.len()]
}

const LONGEST: usize = 64;
const CANDIDATES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    #[test]
    fn distance_counts_each_kind_of_slip_once() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("pool", "pool", 0),
            ("idle_timout", "idle_timeout", 1),
            ("backends", "backend", 1),
            ("bnid", "bind", 1),
            ("mode", "node", 1),
            ("interval", "internal", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(&letters(a), &letters(b)), expected, "{a} {b}");
            assert_eq!(distance(&letters(b), &letters(a)), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_likely_words_are_suggested() {
        let words = ["global", "listener", "pool"];
        assert_eq!(nearest("listen", words), Some("listener"));
        assert_eq!(nearest("Pools", words), Some("pool"));
        assert_eq!(nearest("golbal", words), Some("global"));
        assert_eq!(nearest("upstream", words), None);
        assert_eq!(nearest("icmp", ["tcp", "none"]), None);
        assert_eq!(nearest("", words), None);
        assert_eq!(nearest(&"pool".repeat(1000), words), None);
    }
}
