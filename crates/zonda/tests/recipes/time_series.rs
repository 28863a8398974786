use zonda::Tree;

fn key(sensor: u32, second: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&sensor.to_be_bytes());
    key[4..].copy_from_slice(&second.to_be_bytes());
    key
}

fn newest(readings: &Tree, sensor: u32, count: usize) -> zonda::Result<Vec<zonda::Pair>> {
    readings.prefix(sensor.to_be_bytes())?.rev().take(count).collect()
}

fn forget_before(readings: &Tree, sensor: u32, second: u64) -> zonda::Result<u64> {
    readings.delete_range(key(sensor, 0)..key(sensor, second)) // in batches; not one step
}
