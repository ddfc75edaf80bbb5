//! CRC32c (RFC 9260, appendix A), a byte at a time from a table made at compile time. It is asked
//! for once a connection at most, over 4 KiB at most.

/// The checksum of these pieces, one behind the other.
pub(super) fn crc32c(pieces: &[&[u8]]) -> u32 {
    let bytes = pieces.iter().flat_map(|piece| piece.iter());
    !bytes.fold(u32::MAX, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        crc >> 8 ^ TABLE[usize::from(low ^ byte)]
    })
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index: u32 = 0;
    while index < 256 {
        let mut entry = index;
        let mut bit = 0;
        while bit < 8 {
            entry = if entry & 1 == 1 { entry >> 1 ^ POLYNOMIAL } else { entry >> 1 };
            bit += 1;
        }
        table[index as usize] = entry;
        index += 1;
    }
    table
}

/// Castagnoli's, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue of CRCs, and two vectors of RFC 3720, appendix B.4.
    #[test]
    fn known_sums() {
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        assert_eq!(crc32c(&[&[0; 16], &[0; 16]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
    }
}
