//! Standard output: lines for people, JSON for scripts.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};

use serde_json::{Map, Value, json};

use crate::bytes::to_hex;

/// Standard output, buffered. A broken pipe comes back as an error, which [`Exit`](crate::exit::Exit) takes for a quiet end.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Locks standard output.
    pub(crate) fn new() -> Self {
        Self { out: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
    }

    /// One line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.bytes(text.as_ref().as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// One JSON value on a line.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }

    /// Hands everything on. Must be called last: dropping does not tell of errors.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints a line on standard error. That nobody reads it ends no command.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// A pair as the JSON object that `load --format jsonl` reads: text where it is UTF-8, else hex.
pub(crate) fn pair_json(tree: &str, key: &[u8], value: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    if !tree.is_empty() {
        object.insert("tree".to_owned(), json!(tree));
    }
    insert(&mut object, "key", key);
    if let Some(value) = value {
        insert(&mut object, "value", value);
    }
    Value::Object(object)
}

/// Keys of a tree from one on, up to another.
pub(crate) fn span_json(tree: &str, from: &[u8], to: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    object.insert("tree".to_owned(), json!(tree));
    insert(&mut object, "from", from);
    if let Some(to) = to {
        insert(&mut object, "to", to);
    }
    Value::Object(object)
}

fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), json!(text)),
        Err(_) => object.insert(format!("{name}_hex"), json!(to_hex(bytes))),
    };
}
