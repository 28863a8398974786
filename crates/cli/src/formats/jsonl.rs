//! JSON lines: `{"key":...,"value":...}`.

use std::io::BufRead;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::lines::Lines;
use super::{BadRecord, Entry, Next, Record, Records, check_tree};
use crate::bytes::from_hex;

/// Reads one object per line. `key` is a string, or `key_hex` its bytes; `value` a string, which is stored as its text, or any other JSON,
/// which is stored as it is written but for spaces, or `value_hex` its bytes; `tree` names a tree, alone a tree that may have no pairs.
/// Other fields, and the same twice, are refused, so that nothing is lost unnoticed.
pub(crate) struct Jsonl {
    lines: Lines,
}

impl Jsonl {
    /// The records of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Self { lines: Lines::new(input) }
    }
}

impl Records for Jsonl {
    fn next_record(&mut self) -> Next {
        Ok(self.lines.next_line()?.map(|line| {
            let (line, text) = line?;
            parse(text).map_err(|why| BadRecord { line, why })
        }))
    }

    fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }
}

/// A line; what is not there is `None`, `null` is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    tree: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    key: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    key_hex: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    value: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    value_hex: Option<&'a RawValue>,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(field: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
}

fn parse(line: &[u8]) -> Result<Entry, String> {
    // Fields could come in an array, too, as far as serde goes.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err("no object at column 1".to_owned());
    }
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| reason(&error))?;
    let tree = tree(line.tree)?;
    if let (Some(name), Line { key: None, key_hex: None, value: None, value_hex: None, .. }) = (&tree, &line) {
        check_tree(name)?;
        return Ok(Entry::Tree(name.clone()));
    }
    let record = Record {
        tree,
        key: bytes("key", (line.key, line.key_hex), |_| {
            Err("`key` is not a string; give bytes as `key_hex`".to_owned())
        })?,
        value: bytes("value", (line.value, line.value_hex), |json| Ok(without_spaces(json)))?,
    };
    record.check().map(Entry::Pair)
}

/// serde's message, without its line number, which is always 1 here.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.split(" at line ").next().unwrap_or(&text);
    format!("{cause} at column {}", error.column())
}

/// The text of a JSON string; `None` if it is something else.
fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}

fn is_string(json: &RawValue) -> bool {
    json.get().starts_with('"')
}

/// Why JSON has no text.
fn why_no_text(json: &RawValue) -> &'static str {
    if is_string(json) { "has half of a surrogate pair, which is no character" } else { "is not a string" }
}

fn tree(name: Option<&RawValue>) -> Result<Option<String>, String> {
    name.map(|name| text(name).ok_or_else(|| format!("`tree` {}", why_no_text(name)))).transpose()
}

fn bytes(
    name: &str,
    (plain, hex): (Option<&RawValue>, Option<&RawValue>),
    other: impl FnOnce(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    match (plain, hex) {
        (Some(json), None) => match text(json) {
            Some(text) => Ok(text.into_bytes()),
            None if is_string(json) => Err(format!("`{name}` {}; give bytes as `{name}_hex`", why_no_text(json))),
            None => other(json.get()),
        },
        (None, Some(json)) => {
            let hex = text(json).ok_or_else(|| format!("`{name}_hex` is not a string"))?;
            from_hex(hex.as_bytes()).map_err(|why| format!("`{name}_hex`: {why}"))
        }
        (None, None) => Err(format!("no `{name}`")),
        (Some(_), Some(_)) => Err(format!("both `{name}` and `{name}_hex`")),
    }
}

/// JSON without the spaces outside of its strings: numbers, and what is in which order, stay as they were written.
fn without_spaces(json: &str) -> Vec<u8> {
    let (mut in_string, mut escaped) = (false, false);
    let is_kept = |&byte: &u8| {
        let keeps = in_string || !byte.is_ascii_whitespace();
        in_string ^= byte == b'"' && !escaped;
        escaped = in_string && byte == b'\\' && !escaped;
        keeps
    };
    json.bytes().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: &str) -> String {
        String::from_utf8(parse(line.as_bytes()).unwrap().pair().value).unwrap()
    }

    #[test]
    fn half_of_a_surrogate_pair_is_called_that() {
        for (name, line) in [
            ("key", r#"{"key":"\ud800","value":1}"#),
            ("value", r#"{"key":"k","value":"\udc00"}"#),
            ("tree", r#"{"tree":"\ud800","key":"k","value":1}"#),
        ] {
            let why = parse(line.as_bytes()).unwrap_err();
            assert!(why.starts_with(&format!("`{name}` has half of a surrogate pair")), "{why}");
        }
        assert_eq!(value(r#"{"key":"k","value":"\ud83d\ude00"}"#), "\u{1f600}");
    }

    #[test]
    fn values_of_all_kinds() {
        assert_eq!(value(r#"{"key":"k","value":"text"}"#), "text");
        assert_eq!(value(r#"{"key":"k","value":{"a": [1, null]}}"#), r#"{"a":[1,null]}"#);
        assert_eq!(value(r#"{"key":"k","value":7}"#), "7");
        for kept in ["12345678901234567890123", "1.10", "-0", r#"{"b":1,"a":2,"b":3}"#, "null", r#"[" \" ,\\\\"," x"]"#]
        {
            assert_eq!(value(&format!(r#"{{"key":"k","value":{kept}}}"#)), kept);
        }
        assert_eq!(value(r#"{"key_hex":"00ff","value_hex":"41"}"#), "A");
        let pair = parse(br#"{"tree":"t","key":"k","value":""}"#).unwrap().pair();
        assert_eq!(pair.tree.as_deref(), Some("t"));
        assert_eq!(parse(br#"{"tree":"t"}"#), Ok(Entry::Tree("t".to_owned())));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let why = |line: &str| parse(line.as_bytes()).unwrap_err();
        assert!(why(r#"{"value":1}"#).contains("no `key`"));
        assert!(why(r#"{"key":"k"}"#).contains("no `value`") && why("{}").contains("no `key`"));
        assert!(why(r#"{"tree":"t","value":1}"#).contains("no `key`") && why(r#"{"tree":""}"#).contains("1 to 255"));
        assert!(why(r#"{"key":1,"value":1}"#).contains("key_hex"));
        assert!(why(r#"{"key":"k","key_hex":"00","value":1}"#).contains("both"));
        assert!(why(r#"{"key":"k","value":1,"valu":2}"#).contains("`valu`"));
        assert!(why(r#"{"key":"a","key":"b","value":1}"#).contains("duplicate field `key`"));
        assert!(why(r#"{"key":null,"value":1}"#).contains("key_hex"));
        assert!(why(r#"{"key":"k","value_hex":"0"}"#).contains("value_hex"));
        assert!(why(r#"{"tree":"","key":"k","value":1}"#).contains("1 to 255"));
        let named = |bytes: usize| format!(r#"{{"tree":"{}","key":"k","value":1}}"#, "t".repeat(bytes));
        assert!(parse(named(255).as_bytes()).is_ok() && why(&named(256)).contains("256"));
        assert!(why(r#"{"key":"k","#).contains("column"));
        assert!(why("[1]").contains("column"));
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_read_without_panic(line: Vec<u8>) {
            let _ = parse(&line);
        }
    }
}
