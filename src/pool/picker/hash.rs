//! The hash that finds a client's backend: the same on every machine, in every process and version.
//!
//! FNV-1a (Fowler, Noll, Vo; 64 bits) over the bytes, then the finalizer of SplitMix64 (Steele, Lea
//! and Flood, "Fast splittable pseudorandom number generators", 2014, with Stafford's constants),
//! because FNV alone leaves the high bits of short keys alike. Changing it would send every client
//! elsewhere; a test holds its values.

/// The hash of some bytes.
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// Spreads every bit of a number over the whole of it; no two numbers give the same.
pub(in crate::pool) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_stay_where_they_are_in_every_version() {
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf, "SplitMix64 of seed 0");
        assert_eq!(bytes(b""), mix(0xcbf2_9ce4_8422_2325), "FNV-1a of nothing");
        assert_eq!(bytes(b"foobar"), mix(0x8594_4171_f739_67e8), "FNV-1a's published value");
    }
}
