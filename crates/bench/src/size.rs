//! Byte sizes and large numbers as people write them.

/// The units, largest first; a bare number counts bytes.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
];

/// Parses `8MiB`, `1.5GiB`, `4096` or `64K` (binary units) into bytes.
///
/// # Errors
/// A sentence that says what is accepted, for text that is no size, is negative or exceeds 2^63 bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1));
    let refused = || format!("`{text}` is not a size; write bytes or a number with KiB, MiB, GiB or TiB");
    let number: f64 = digits.trim().parse().map_err(|_| refused())?;
    whole_bytes(number * unit as f64).ok_or_else(refused)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
fn whole_bytes(bytes: f64) -> Option<u64> {
    (bytes >= 0.0 && bytes < (1u64 << 63) as f64).then_some(bytes as u64)
}

/// Parses a count such as `4000000`, `4_000_000`, `100k` or `20M` (decimal units).
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let plain = text.trim().replace('_', "");
    let (digits, unit) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 1_000),
        Some((at, 'm' | 'M')) => (&plain[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&plain[..at], 1_000_000_000),
        _ => (plain.as_str(), 1u64),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a count such as 100000, 100k or 4M"))?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` exceeds 2^64"))
}

/// `bytes` with a unit and one decimal: `8.0 MiB`.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    let unit = UNITS[..4].iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} B"), |(name, unit)| format!("{:.1} {name}", bytes as f64 / *unit as f64))
}

/// A count with thousands separated: `4,000,000`.
#[must_use]
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_and_without_units() {
        let expected = [("8MiB", 8 << 20), ("4096", 4096), ("64K", 65_536), ("1.5GiB", 3 << 29), ("7 B", 7), ("0", 0)];
        for (text, bytes) in expected {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "8MB", "nan", "inf", "9000000TiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_parse() {
        assert_eq!(parse_count("4_000_000"), Ok(4_000_000));
        assert_eq!((parse_count("100k"), parse_count("20M")), (Ok(100_000), Ok(20_000_000)));
        assert!(parse_count("1.5").is_err() && parse_count("99999999999g").is_err() && parse_count("").is_err());
    }

    #[test]
    fn numbers_are_shown_readably() {
        assert_eq!((show_bytes(8 << 20), show_bytes(17)), ("8.0 MiB".into(), "17 B".into()));
        assert_eq!(
            (show_count(4_000_000), show_count(999), show_count(1_000)),
            ("4,000,000".into(), "999".into(), "1,000".into())
        );
    }
}
