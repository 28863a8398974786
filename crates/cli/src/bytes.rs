//! Bytes as text: escapes for tab-separated values, and hex.

use std::borrow::Cow;
use std::fmt::Write;

/// Why bytes could not be read from text.
pub(crate) type Fault = String;

/// How keys and values are written on the command line and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text as it is on the command line; printed with escapes.
    Text,
    /// Hexadecimal digits both ways.
    Hex,
}

impl Form {
    /// Bytes from a command line argument.
    pub(crate) fn parse(self, argument: &std::ffi::OsStr) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Text => Ok(argument.as_encoded_bytes().to_vec()),
            Self::Hex => from_hex(argument.as_encoded_bytes()),
        }
    }

    /// Bytes as one word without tabs or line ends.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        match self {
            Self::Text => escape(bytes),
            Self::Hex => to_hex(bytes),
        }
    }
}

/// Text in which tab, line feed, carriage return, backslash, other control characters and bytes that are not UTF-8 are escaped, so that
/// [`unescape`] gives the same bytes back.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| escape_character(&mut text, character));
        chunk.invalid().iter().for_each(|&byte| escape_byte(&mut text, byte));
    }
    text
}

fn escape_character(text: &mut String, character: char) {
    match character {
        '\t' => text.push_str("\\t"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\\' => text.push_str("\\\\"),
        control if control.is_control() => {
            control.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape_byte(text, byte));
        }
        other => text.push(other),
    }
}

fn escape_byte(text: &mut String, byte: u8) {
    write!(text, "\\x{byte:02x}").expect("writing to a string cannot fail");
}

/// Bytes from text with the escapes `\t`, `\n`, `\r`, `\\`, `\0` and `\xHH`.
pub(crate) fn unescape(text: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    if !text.contains(&b'\\') {
        return Ok(Cow::Borrowed(text));
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, len) = escaped(&rest[at + 1..])?;
        bytes.push(byte);
        rest = &rest[at + 1 + len..];
    }
    bytes.extend_from_slice(rest);
    Ok(Cow::Owned(bytes))
}

/// The byte that the escape after a backslash means, and the escape's length.
fn escaped(rest: &[u8]) -> Result<(u8, usize), Fault> {
    match rest {
        [b't', ..] => Ok((b'\t', 1)),
        [b'n', ..] => Ok((b'\n', 1)),
        [b'r', ..] => Ok((b'\r', 1)),
        [b'0', ..] => Ok((0, 1)),
        [b'\\', ..] => Ok((b'\\', 1)),
        [b'x', high, low, ..] => Ok((from_hex(&[*high, *low])?[0], 3)),
        [] => Err("a backslash at the end; write \\\\ for one".to_owned()),
        [other, ..] => Err(format!("unknown escape \\{}; known are \\t \\n \\r \\0 \\\\ \\xHH", other.escape_ascii())),
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Bytes from hexadecimal digits of either case.
pub(crate) fn from_hex(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let (pairs, odd) = text.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(format!("{} hexadecimal digits; two make a byte", text.len()));
    }
    pairs.iter().map(|&[high, low]| Ok(digit(high)? << 4 | digit(low)?)).collect()
}

fn digit(character: u8) -> Result<u8, Fault> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        other => Err(format!("'{}' is not a hexadecimal digit", other.escape_ascii())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_the_documented_ones() {
        assert_eq!(escape(b"a\tb\nc\r\\\0\xff\x1b"), "a\\tb\\nc\\r\\\\\\x00\\xff\\x1b");
        assert_eq!(escape("bär".as_bytes()), "bär");
        assert_eq!(&*unescape(b"\\0\\x41\\t").unwrap(), b"\0A\t");
    }

    #[test]
    fn bad_escapes_say_why() {
        assert!(unescape(b"a\\").unwrap_err().contains("end"));
        assert!(unescape(b"\\q").unwrap_err().contains("\\q"));
        assert!(unescape(b"\\xg0").unwrap_err().contains("'g'"));
        assert!(unescape(b"\\x4").is_err());
        assert!(from_hex(b"abc").unwrap_err().contains('3'));
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(bytes: Vec<u8>) {
            let text = escape(&bytes);
            prop_assert!(!text.contains(['\t', '\n', '\r']));
            prop_assert_eq!(&*unescape(text.as_bytes()).unwrap(), bytes.as_slice());
            prop_assert_eq!(from_hex(to_hex(&bytes).as_bytes()).unwrap(), bytes);
        }

        #[test]
        fn any_text_is_read_without_panic(text: Vec<u8>) {
            let _ = unescape(&text);
            let _ = from_hex(&text);
        }
    }
}
