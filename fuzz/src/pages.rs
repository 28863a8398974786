//! Decoders of `zonda-pages`.

use zonda_pages::{PageAddress, fuzzing};

/// The packed page address of address records and images: what decodes encodes to the same bits.
pub fn page_address(input: &[u8]) {
    let Some(bytes) = input.first_chunk() else { return };
    let raw = u64::from_le_bytes(*bytes);
    let Some(address) = PageAddress::from_raw(raw) else { return };
    assert_eq!(address.raw(), raw);
    assert_eq!(PageAddress::new(address.block(), address.blocks()), address);
}

pub(crate) fn page_address_valid() -> Vec<Vec<u8>> {
    [PageAddress::new(1, 1), PageAddress::new(1 << 39, 64)].map(|address| address.raw().to_le_bytes().to_vec()).into()
}

/// A page or chunk frame: what decodes lies within the input.
pub fn page_frame(input: &[u8]) {
    let Some((body_bytes, blocks)) = fuzzing::frame(input) else { return };
    assert!(body_bytes < input.len(), "a body of {body_bytes} bytes in {}", input.len());
    assert!(blocks >= 1, "a frame of no blocks");
}

pub(crate) fn page_frame_valid() -> Vec<Vec<u8>> {
    fuzzing::valid().into()
}
