use zonda::Tree;

fn put(cache: &Tree, hour: u32, name: &str, value: &[u8]) -> zonda::Result<()> {
    cache.put([&hour.to_be_bytes(), name.as_bytes()].concat(), value)
}

fn expire(cache: &Tree, now: u32) -> zonda::Result<u64> {
    cache.delete_range([0; 4]..now.saturating_sub(24).to_be_bytes())
}
