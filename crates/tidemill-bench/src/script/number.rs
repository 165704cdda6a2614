//! Numbers in texts, as the C library reads them for pgbench.

/// The whole text as a double, also in hexadecimal; spaces may come before it. None too for what is out of range, at either end.
pub(super) fn double(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let value = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        digits => match digits.strip_prefix("0x") {
            Some(digits) => in_range(hexadecimal(digits)?, digits.split('p').next()?)?,
            None => in_range(decimal(digits)?, digits.split('e').next()?)?,
        },
    };
    Some(sign * value)
}

fn decimal(text: &str) -> Option<f64> {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| text.parse().ok())?
}

/// `1f.8p-3`: the exponent is one of two, in decimal.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once('p') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digit = |value: f64, c: char| Some(value * 16.0 + f64::from(c.to_digit(16)?));
    let value = whole.chars().chain(fraction.chars()).try_fold(0.0, digit)?;
    Some(value * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32)))
}

/// Neither too large nor so small that digits are lost.
fn in_range(value: f64, mantissa: &str) -> Option<f64> {
    let is_zero = !mantissa.contains(|c: char| c.is_ascii_hexdigit() && c != '0');
    (is_zero || value.is_normal()).then_some(value)
}

/// The whole number that a text begins with, as C's atoi has it; none where there is no digit.
pub(super) fn leading_int(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    text[..sign + digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value) in [
            ("0x10", 16.0),
            ("-0X1p3", -8.0),
            ("0x.8", 0.5),
            (" 5", 5.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("0e9", 0.0),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(double(text), Some(value), "{text}");
        }
        assert!(double("nan").is_some_and(f64::is_nan));
        for text in
            ["", "5 ", "--5", "1_0", "0x", "1e", "e5", ".", "1e400", "1e-400", "1e-310", "0x1p5000", "0xg"]
        {
            assert_eq!(double(text), None, "{text}");
        }
        assert_eq!(["-5x", "+5", "x", "-"].map(leading_int), [Some(-5), Some(5), None, None]);
    }
}
