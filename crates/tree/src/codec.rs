//! Variable-length numbers and a bounded reader for the records of log, MetaLog and value pointers.
//!
//! A number is written in groups of 7 bits, lowest first; the high bit of a byte says that another follows (LEB128).

use crate::{TreeError, limits::NUMBER_MAX};

/// The most bytes that a number takes.
pub(crate) const NUMBER_BYTES_MAX: usize = 10;

/// Bytes of `number` as [`put_number`] writes it: 1 below 128, 2 below 16,384, ...
pub(crate) const fn number_bytes(number: u64) -> usize {
    let bits = u64::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends `number`.
#[expect(clippy::cast_possible_truncation, reason = "only the low 7 or 8 bits are wanted")]
pub(crate) fn put_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends the length of `bytes`, then `bytes`.
pub(crate) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put_number(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// Takes numbers and byte strings off the front of a slice. Never reads past its end, never allocates (I10).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`; `what` names them in errors.
    pub(crate) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    /// What was not read yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything was read.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The error for this input.
    pub(crate) fn damaged(&self, why: impl Into<String>) -> TreeError {
        TreeError::Damaged { what: self.what, why: why.into() }
    }

    /// The next number.
    ///
    /// # Errors
    /// `Damaged` when the bytes end within it or it has more than 64 bits.
    pub(crate) fn number(&mut self) -> Result<u64, TreeError> {
        let mut number = 0;
        for (index, &byte) in self.rest.iter().take(NUMBER_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == NUMBER_BYTES_MAX - 1 && byte > 1 {
                return Err(self.damaged("a number of more than 64 bits"));
            }
            number |= bits << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(number);
            }
        }
        Err(self.damaged("the bytes end within a number"))
    }

    /// The next number, which counts something.
    ///
    /// # Errors
    /// As [`number`](Self::number), and `Damaged` above [`NUMBER_MAX`].
    pub(crate) fn counter(&mut self) -> Result<u64, TreeError> {
        let number = self.number()?;
        if number <= NUMBER_MAX { Ok(number) } else { Err(self.damaged(format!("{number} is no number of a store"))) }
    }

    /// The next number, which must fit 32 bits.
    ///
    /// # Errors
    /// As [`number`](Self::number), and `Damaged` when it does not fit.
    pub(crate) fn number32(&mut self) -> Result<u32, TreeError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.damaged(format!("{number} needs more than 32 bits")))
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// `Damaged` when there are fewer.
    pub(crate) fn take(&mut self, len: u64) -> Result<&'a [u8], TreeError> {
        let taken = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let too_few = || self.damaged(format!("{len} bytes are announced and {} are left", self.rest.len()));
        let (taken, rest) = taken.ok_or_else(too_few)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A byte string as [`put_bytes`] writes it.
    ///
    /// # Errors
    /// `Damaged` when it is longer than `len_max` or than what is left.
    pub(crate) fn bytes(&mut self, len_max: usize) -> Result<&'a [u8], TreeError> {
        let len = self.number()?;
        if len > len_max as u64 {
            return Err(self.damaged(format!("a byte string of {len} bytes; the limit is {len_max}")));
        }
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_take_the_bytes_they_announce_at_every_length() {
        for bits in 0..64 {
            for number in [(1_u64 << bits) - 1, 1 << bits, u64::MAX >> bits] {
                let mut bytes = Vec::new();
                put_number(&mut bytes, number);
                assert_eq!(bytes.len(), number_bytes(number), "{number}");
                let mut reader = Reader::new("number", &bytes);
                assert_eq!(reader.number().expect("just written"), number);
                assert!(reader.is_empty());
                assert!(Reader::new("number", &bytes[..bytes.len() - 1]).number().is_err());
            }
        }
    }

    #[test]
    fn a_number_of_65_bits_is_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(Reader::new("number", &bytes).number().expect("64 bits"), u64::MAX);
        bytes[9] = 2;
        assert!(Reader::new("number", &bytes).number().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40), len_max in 0_usize..50) {
            let mut reader = Reader::new("anything", &bytes);
            while let Ok(taken) = reader.bytes(len_max) {
                prop_assert!(taken.len() <= len_max);
            }
            prop_assert!(reader.rest().len() <= bytes.len());
        }
    }
}
