//! JSON lines: `{"key":...,"value":...}`.

use std::io::BufRead;

use serde_json::{Map, Value};

use super::lines::Lines;
use super::{BadRecord, Next, Record, Records};
use crate::bytes::from_hex;

/// Reads one object per line. `key` is a string, or `key_hex` its bytes; `value` a string, which is stored as its text, or any other JSON,
/// which is stored as JSON without spaces, or `value_hex` its bytes; `tree` names a tree. Other fields are refused, so that nothing is lost
/// unnoticed.
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

fn parse(line: &[u8]) -> Result<Record, String> {
    let mut object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| reason(&error))?;
    let record = Record {
        tree: tree(object.remove("tree"))?,
        key: bytes(&mut object, "key", |_| Err("`key` is not a string; give bytes as `key_hex`".to_owned()))?,
        value: bytes(&mut object, "value", |value| Ok(value.to_string().into_bytes()))?,
    };
    if let Some(name) = object.keys().next() {
        return Err(format!("unknown field `{name}`; known are tree, key, key_hex, value, value_hex"));
    }
    record.check()
}

/// serde's message, without its line number, which is always 1 here.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.split(" at line ").next().unwrap_or(&text);
    format!("{cause} at column {}", error.column())
}

fn tree(name: Option<Value>) -> Result<Option<String>, String> {
    match name {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(_) => Err("`tree` is not a string".to_owned()),
    }
}

fn bytes(
    object: &mut Map<String, Value>,
    name: &str,
    other: impl FnOnce(Value) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    let hex_name = format!("{name}_hex");
    match (object.remove(name), object.remove(&hex_name)) {
        (Some(Value::String(text)), None) => Ok(text.into_bytes()),
        (Some(value), None) => other(value),
        (None, Some(Value::String(hex))) => from_hex(hex.as_bytes()).map_err(|why| format!("`{hex_name}`: {why}")),
        (None, Some(_)) => Err(format!("`{hex_name}` is not a string")),
        (None, None) => Err(format!("no `{name}`")),
        (Some(_), Some(_)) => Err(format!("both `{name}` and `{hex_name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: &str) -> String {
        String::from_utf8(parse(line.as_bytes()).unwrap().value).unwrap()
    }

    #[test]
    fn values_of_all_kinds() {
        assert_eq!(value(r#"{"key":"k","value":"text"}"#), "text");
        assert_eq!(value(r#"{"key":"k","value":{"a": [1, null]}}"#), r#"{"a":[1,null]}"#);
        assert_eq!(value(r#"{"key":"k","value":7}"#), "7");
        assert_eq!(value(r#"{"key_hex":"00ff","value_hex":"41"}"#), "A");
        assert_eq!(parse(br#"{"tree":"t","key":"k","value":""}"#).unwrap().tree.as_deref(), Some("t"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let why = |line: &str| parse(line.as_bytes()).unwrap_err();
        assert!(why(r#"{"value":1}"#).contains("no `key`"));
        assert!(why(r#"{"key":"k"}"#).contains("no `value`"));
        assert!(why(r#"{"key":1,"value":1}"#).contains("key_hex"));
        assert!(why(r#"{"key":"k","key_hex":"00","value":1}"#).contains("both"));
        assert!(why(r#"{"key":"k","value":1,"valu":2}"#).contains("`valu`"));
        assert!(why(r#"{"key":"k","value_hex":"0"}"#).contains("value_hex"));
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
