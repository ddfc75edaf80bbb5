//! Logarithms and powers of two in whole numbers, so that every machine gets the same.
//!
//! The floating-point logarithm may differ in its last bit from one libm to the next, and with it
//! the backend of a client. Here a table of 256 logarithms, made at compile time, is refined by the
//! series of ln(1 + r), r < 2^-8, whose seventh term is below what is kept.

/// The binary logarithm of a number from 1 on, in units of 2^-56.
pub(super) fn log2(value: u64) -> u64 {
    assert!(value > 0, "nothing has no logarithm");
    let shift = value.leading_zeros();
    let mantissa = value << shift;
    let step = (mantissa >> 55) & 0xff;
    let beyond = ((mantissa & ((1 << 55) - 1)) << 9) / (256 + step);
    let refined = (u128::from(ln_1p(beyond)) * u128::from(LOG2_E)) >> 70;
    (u64::from(63 - shift) << 56) + LOGS[step as usize] + refined as u64
}

/// What is left of `value` after so many halvings, in units of 2^-32; right to 1 part in 50 000.
#[expect(clippy::cast_possible_truncation, reason = "a product with a fraction is no larger")]
pub(super) fn halved(value: u64, times: u64) -> u64 {
    let (whole, rest) = (times >> 32, times & 0xffff_ffff);
    let (step, between) = ((rest >> 26) as usize, rest & 0x3ff_ffff);
    let (high, low) = (ROOTS[step], ROOTS[step + 1]);
    let fraction = high - (((high - low) >> 26) * between);
    let kept = ((u128::from(value) * u128::from(fraction)) >> 63) as u64;
    if whole < 64 { kept >> whole } else { 0 }
}

/// ln(1 + r) for r below 2^-8; both in units of 2^-64.
fn ln_1p(r: u64) -> u64 {
    let mut factor = u64::MAX / 6;
    for divisor in (2..6).rev() {
        factor = u64::MAX / divisor - part(r, factor);
    }
    r - part(r, part(r, factor))
}

/// The product of two numbers below 1, in units of 2^-64.
const fn part(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// log2(1 + i / 256) in units of 2^-56, bit by bit: the square of a number above the square root
/// of 2 is above 2.
const LOGS: [u64; 256] = {
    let mut logs = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut x = (256 + i as u128) << 54;
        let mut bit = 0;
        while bit < 56 {
            x = (x * x) >> 62;
            logs[i] <<= 1;
            if x >= 1 << 63 {
                x >>= 1;
                logs[i] |= 1;
            }
            bit += 1;
        }
        i += 1;
    }
    logs
};

/// 2^(-i / 64) in units of 2^-63.
const ROOTS: [u64; 65] = {
    let mut roots = [1 << 63; 65];
    let mut i = 1;
    while i < 65 {
        roots[i] = part(roots[i - 1], 2 * ROOT);
        i += 1;
    }
    roots
};

/// 2^(-1 / 64) in units of 2^-63.
const ROOT: u64 = 9_124_017_994_966_720_698;
/// 1 / ln(2) in units of 2^-62.
const LOG2_E: u64 = 6_653_256_548_922_161_245;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_values_are_the_same_everywhere() {
        for power in 0..64 {
            assert_eq!(log2(1 << power), power << 56);
        }
        // The true values, to 2^-56.
        for (value, exact) in [
            (3, 114_208_584_442_304_135),
            (1_000_003, 1_436_221_188_378_418_372),
            (u64::MAX, 4_611_686_018_427_387_903),
        ] {
            assert!(log2(value).abs_diff(exact) <= 2, "{} for {exact}", log2(value));
        }
    }

    proptest! {
        #[test]
        fn it_is_the_logarithm(value in 1u64.., shift in 0u32..64) {
            let value = (value >> shift).max(1);
            let exact = (value as f64).log2();
            let ours = log2(value) as f64 / (1u64 << 56) as f64;
            prop_assert!((ours - exact).abs() < 1e-13, "{ours} for {exact}");
        }

        #[test]
        fn more_has_no_smaller_logarithm(value in 1u64..u64::MAX, shift in 0u32..64) {
            let value = (value >> shift).max(1);
            prop_assert!(log2(value + 1) + 2 >= log2(value));
        }

        #[test]
        fn it_is_halved(value in 1u64 << 40.., times in 0u64..20 << 32) {
            let exact = value as f64 * (-(times as f64) / 4_294_967_296.0).exp2();
            let ours = halved(value, times) as f64;
            prop_assert!((ours / exact - 1.0).abs() < 2e-5, "{ours} for {exact}");
        }
    }

    #[test]
    fn everything_is_gone_in_the_end() {
        assert_eq!(halved(1000, 0), 1000);
        assert_eq!(halved(1000, 3 << 32), 125);
        assert_eq!(halved(u64::MAX, 64 << 32), 0);
        assert_eq!(halved(u64::MAX, u64::MAX), 0);
    }
}
