//! Words for the guest's shell.

/// The word as the shell reads it back unchanged.
pub(super) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_survives() {
        assert_eq!(quote("a b$c"), "'a b$c'");
        assert_eq!(quote("it's"), "'it'\\''s'");
    }
}
