//! Plain numbers at the start of bytes, eight digits at a time; the unusual is left to the full parsers.

const ONES: u64 = 0x0101_0101_0101_0101;
const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// Powers of ten that an f64 holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// `[-]digits` of at most 15 digits at `at`: the value and where it ends. `None` is "ask the full parser",
/// not an error.
#[inline]
pub fn integer(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = *bytes.get(at)? == b'-';
    let (magnitude, count, end) = digits(bytes, at + usize::from(negative))?;
    if count == 0 {
        return None;
    }
    let value = magnitude as i64;
    Some((if negative { -value } else { value }, end))
}

/// `[-]digits[.digits]` at `at` where the nearest double is certain: the mantissa has at most 15 digits, so
/// that it and the power of ten are exact and one division rounds once (Clinger 1990). Everything else goes
/// to `fast_float2`.
#[inline]
pub fn float(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let negative = *bytes.get(at)? == b'-';
    let start = at + usize::from(negative);
    let (whole, whole_count, end) = digits(bytes, start)?;
    let (mut mantissa, mut fraction_count, mut end) = (whole, 0, end);
    if bytes.get(end) == Some(&b'.') {
        let (fraction, count, fraction_end) = digits(bytes, end + 1)?;
        if whole_count + count > 15 {
            return general(bytes, at);
        }
        mantissa = whole * power(count) + fraction;
        (fraction_count, end) = (count, fraction_end);
    }
    if whole_count + fraction_count == 0 || matches!(bytes.get(end), Some(b'e' | b'E')) {
        return general(bytes, at);
    }
    let value = mantissa as f64 / EXACT[fraction_count];
    Some((if negative { -value } else { value }, end))
}

/// Zero and infinity are left out: they may be an underflow or overflow, which PostgreSQL refuses.
#[cold]
fn general(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let starts_as_number = matches!(bytes.get(at)?, b'0'..=b'9' | b'-' | b'.');
    let (value, length) = fast_float2::parse_partial::<f64, _>(&bytes[at..]).ok()?;
    (starts_as_number && value.is_normal()).then_some((value, at + length))
}

fn power(count: usize) -> u64 {
    if count <= 8 { POWERS[count] } else { POWERS[8] * POWERS[count - 8] }
}

/// Up to 15 digits at `at`: value, how many, where they end. `None` when there are more.
#[inline]
fn digits(bytes: &[u8], at: usize) -> Option<(u64, usize, usize)> {
    let (high, count) = eight(bytes, at);
    if count < 8 {
        return Some((high, count, at + count));
    }
    let (low, more) = eight(bytes, at + 8);
    if more == 8 {
        return None;
    }
    Some((high * POWERS[more] + low, 8 + more, at + 8 + more))
}

/// Up to eight digits at `at`, and how many there are.
#[inline]
fn eight(bytes: &[u8], at: usize) -> (u64, usize) {
    let Some(word) = bytes.get(at..).and_then(|b| b.first_chunk::<8>()) else {
        return eight_at_end(bytes.get(at..).unwrap_or_default());
    };
    // A digit becomes 0 to 9; a byte that is not a digit gets its high bit set by the addition or had it.
    let word = u64::from_le_bytes(*word) ^ (ONES * 0x30);
    let others = (((word & (ONES * 0x7f)) + ONES * 0x76) | word) & (ONES * 0x80);
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    // The digits move to the high bytes, zeros are in front of them.
    let word = word << (64 - 8 * count);
    let word = word.wrapping_mul(2_561) >> 8;
    let word = (word & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    let word = (word & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32;
    (word, count)
}

#[cold]
fn eight_at_end(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    let mut count = 0;
    for digit in bytes.iter().take(8).take_while(|b| b.is_ascii_digit()) {
        value = value * 10 + u64::from(digit - b'0');
        count += 1;
    }
    (value, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, value) in [
            ("0\t", 0),
            ("7\n", 7),
            ("-7,12345678", -7),
            ("12345678\t........", 12_345_678),
            ("-123456789012345\t", -123_456_789_012_345),
            ("000000000000001 ", 1),
        ] {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap();
            assert_eq!(integer(text.as_bytes(), 0), Some((value, end)), "{text:?}");
            assert_eq!(integer(&text.as_bytes()[..end], 0), Some((value, end)), "{text:?}");
        }
        for text in ["", "-", "a", "+1", " 1", "1234567890123456", "\u{b2}"] {
            assert_eq!(integer(text.as_bytes(), 0), None, "{text:?}");
        }
    }

    #[test]
    fn floats_are_those_of_the_standard_library() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let text = match seed % 4 {
                0 => format!("{}.{}", seed % 10_000, (seed >> 20) % 100_000),
                1 => format!("-{}", (seed >> 8) as f64 / 1e9),
                2 => format!("{:e}", f64::from_bits(seed)),
                _ => format!("{:.1$}", (seed % 1_000_000) as f64 / 7.0, (seed >> 40) as usize % 12),
            };
            if let Some((value, end)) = float(format!("{text}\t12345678").as_bytes(), 0) {
                assert_eq!(end, text.len(), "{text}");
                assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
            }
        }
        assert_eq!(float(b"-0\t", 0).map(|(v, e)| (v.to_bits(), e)), Some(((-0.0_f64).to_bits(), 2)));
        assert_eq!(float(b".5", 0), Some((0.5, 2)));
        assert_eq!(float(b"5.\n", 0), Some((5.0, 2)));
        for text in ["", "-", ".", "NaN", "inf", "1e400", "1e-400", "e5", " 1", "-inf"] {
            assert_eq!(float(text.as_bytes(), 0), None, "{text:?}");
        }
    }
}
