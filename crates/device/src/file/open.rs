//! Creating and opening a zoned device file, and finding the write pointers after a crash.
use std::path::Path;

use zonda_rt::{RwLock, atomic::AtomicBool};

use super::{
    ahead::Ahead,
    beside::Beside,
    blanks::{BlankId, Blanks},
    device::Shared,
    host_file::{Access, HostFile},
    options::FileOptions,
    probe::holes_are_exact,
    readable::Readable,
    zones::{FileZones, Layout, OnFile},
};
use crate::{
    DeviceError, Geometry, Result, ZoneId, ZoneMachine, ZoneState,
    counters::Counting,
    format::{self, DeviceKind, Entry, Header, PAGE_BYTES, feature},
};

/// Makes a device file; removes it again if that fails.
pub(crate) fn create(path: &Path, geometry: Geometry, options: &FileOptions) -> Result<Shared> {
    let file = HostFile::open(path, Access::Create)?;
    build(file, geometry, options).map_err(|error| remove_after(path, error))
}

/// Removes a half-made file; the error that stopped its making is the one to tell.
pub(crate) fn remove_after(path: &Path, error: DeviceError) -> DeviceError {
    match std::fs::remove_file(path) {
        Ok(()) => error,
        // It stays, without a header: opening it says so.
        Err(_) => error,
    }
}

fn build(mut file: HostFile, geometry: Geometry, options: &FileOptions) -> Result<Shared> {
    let geometry = Geometry { ordered_queue: true, volatile_cache: true, ..geometry };
    let layout = Layout::new(&geometry);
    let full_bytes = layout.byte_of(ZoneId(geometry.zone_count), 0);
    file.set_len(if options.full_length { full_bytes } else { layout.data_offset() })?;
    let exact_holes = holes_are_exact(&file, layout.data_offset(), geometry.block_bytes)? && !options.record_pointers;
    file.choose_direct(options.direct, layout.data_offset(), geometry.block_bytes)?;
    let blank = BlankId::random();
    let zones = FileZones {
        on_file: vec![OnFile::Empty; geometry.zone_count as usize],
        machine: ZoneMachine::new(geometry.clone()),
        layout: layout.clone(),
        exact_holes,
        ahead: Ahead::new(geometry.zone_count),
        blanks: exact_holes.then(|| Blanks::new(blank, geometry.zone_count)),
        file_bytes: file.len_bytes()?,
        dirty: Default::default(),
    };
    zones.record_all(&file)?;
    file.write_table(format::MARK_OFFSET, &format::encode_mark(false))?;
    let features = if exact_holes { feature::EXACT_HOLES | feature::BLANKS } else { 0 };
    let header = Header { kind: DeviceKind::Zoned, features, blank: blank.0, geometry: geometry.clone() };
    write_header(&file, &header)?;
    Ok(share(file, zones, geometry, options))
}

/// Completes a creation: the header goes last, after everything it speaks of is durable.
pub(crate) fn write_header(file: &HostFile, header: &Header) -> Result<()> {
    file.sync()?;
    file.write_table(0, &header.encode())?;
    file.sync()?;
    file.sync_directory()
}

fn share(file: HostFile, zones: FileZones, geometry: Geometry, options: &FileOptions) -> Shared {
    Shared {
        layout: zones.layout.clone(),
        geometry,
        file,
        readable: Readable::of(&zones.machine),
        zones: RwLock::new(zones),
        queue_kind: options.queue,
        counting: Counting::default(),
        closed: AtomicBool::new(false),
        beside: None,
    }
}

/// Opens a device file. Reads and checks everything before the first write.
pub(crate) fn open(path: &Path, read_only: bool, options: &FileOptions) -> Result<Shared> {
    let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
    let mut file = HostFile::open(path, access)?;
    let header = read_header(&file, DeviceKind::Zoned)?;
    let (mut zones, leftovers) = look(&file, &header, Looking::Alone)?;
    choose_direct(&mut file, &header, options)?;
    if !read_only {
        file.write_table(format::MARK_OFFSET, &format::encode_mark(false))?;
        file.sync()?;
        erase_leftovers(&file, &zones, &leftovers)?;
        zones.give_back_full(&file);
    }
    Ok(share(file, zones, header.geometry, options))
}

/// Opens a device file that somebody else may be writing. Writes nothing.
pub(crate) fn open_beside(path: &Path, options: &FileOptions) -> Result<Shared> {
    let mut file = HostFile::open(path, Access::ReadBeside)?;
    let header = read_header(&file, DeviceKind::Zoned)?;
    choose_direct(&mut file, &header, options)?;
    let (geometry, beside) = (header.geometry.clone(), Beside::new(header));
    let zones = beside.look(&file)?;
    let mut shared = share(file, zones, geometry, options);
    shared.beside = Some(beside);
    Ok(shared)
}

fn choose_direct(file: &mut HostFile, header: &Header, options: &FileOptions) -> Result<()> {
    let first = format::data_offset(header.geometry.zone_count);
    file.choose_direct(options.direct, first, header.geometry.block_bytes)
}

/// Who looks at the zones of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looking {
    /// Nobody else has it: an entry that is damaged now stays so.
    Alone,
    /// Nobody can begin to write meanwhile.
    Still,
    /// Somebody may write: the mark of a clean end could speak of another table than the one that was read.
    Beside,
}

/// The zones as the file has them, and those of which the file is to say what they are. A damaged entry costs its zone, not the file: see
/// [`of_damaged`].
pub(super) fn look(file: &HostFile, header: &Header, looking: Looking) -> Result<(FileZones, Vec<ZoneId>)> {
    let geometry = &header.geometry;
    let layout = Layout::new(geometry);
    let mut entries = read_entries(file, geometry)?;
    if looking != Looking::Alone {
        entries = entries.into_iter().map(|entry| entry.map(Ok)).collect::<Result<_>>()?;
    }
    check_length(file, &layout, &entries)?;
    let clean = looking != Looking::Beside && is_clean(file)?;
    let blank = BlankId(header.blank);
    let mut zones = FileZones {
        on_file: Vec::with_capacity(entries.len()),
        machine: ZoneMachine::new(geometry.clone()),
        layout,
        exact_holes: header.features & feature::EXACT_HOLES != 0,
        ahead: Ahead::new(geometry.zone_count),
        blanks: (header.features & feature::BLANKS != 0).then(|| Blanks::new(blank, geometry.zone_count)),
        file_bytes: file.len_bytes()?,
        dirty: Default::default(),
    };
    let leftovers = restore(file, &mut zones, &entries, clean)?;
    Ok((zones, leftovers))
}

/// Which kind of device a file holds.
///
/// # Errors
/// `NotADevice`, `Damaged`, `NewerVersion`, `UnknownFeature`, `Locked`, `Io`.
pub(crate) fn kind_of(path: &Path) -> Result<DeviceKind> {
    Ok(read_any_header(&HostFile::open(path, Access::ReadOnly)?)?.kind)
}

/// Reads and checks the header of a device of the wanted kind.
pub(crate) fn read_header(file: &HostFile, wanted: DeviceKind) -> Result<Header> {
    let header = read_any_header(file)?;
    match (header.kind, wanted) {
        (DeviceKind::Block, DeviceKind::Zoned) => Err(file.not_a_device("it holds a block device, not zones")),
        (DeviceKind::Zoned, DeviceKind::Block) => Err(file.not_a_device("it holds zones, not a block device")),
        _ => Ok(header),
    }
}

fn read_any_header(file: &HostFile) -> Result<Header> {
    let mut page = [0; PAGE_BYTES];
    let bytes = file.len_bytes()?;
    let there = usize::try_from(bytes).unwrap_or(PAGE_BYTES).min(8);
    file.read_table(0, &mut page[..there])?;
    if bytes == 0 {
        return Err(file.not_a_device("it is empty"));
    }
    if !format::has_magic(&page[..there]) {
        let unfinished = page[..there].iter().all(|&b| b == 0);
        return Err(file.not_a_device(if unfinished {
            "its creation was not completed"
        } else {
            "it starts differently"
        }));
    }
    file.read_table(0, &mut page)?;
    Header::decode(&page)
}

fn is_clean(file: &HostFile) -> Result<bool> {
    let mut mark = [0; 64];
    file.read_table(format::MARK_OFFSET, &mut mark)?;
    Ok(format::mark_is_clean(&mark))
}

/// The entry of each zone, or what is wrong with it.
fn read_entries(file: &HostFile, geometry: &Geometry) -> Result<Vec<Result<Entry>>> {
    let needed = format::data_offset(geometry.zone_count);
    if file.len_bytes()? < needed {
        return Err(file.truncated(needed));
    }
    let mut table = vec![0; geometry.zone_count as usize * format::ENTRY_BYTES];
    file.read_table(format::TABLE_OFFSET, &mut table)?;
    let entries = table.chunks_exact(format::ENTRY_BYTES).zip((0..).map(ZoneId));
    Ok(entries.map(|(bytes, zone)| Entry::decode(bytes, zone, geometry.zone_capacity_blocks)).collect())
}

/// The file must reach the end of all that is recorded as written.
fn check_length(file: &HostFile, layout: &Layout, entries: &[Result<Entry>]) -> Result<()> {
    let whole = entries.iter().zip((0..).map(ZoneId)).filter_map(|(entry, zone)| Some((entry.as_ref().ok()?, zone)));
    let ends = whole.filter(|(entry, _)| entry.written_blocks > 0);
    let needed = ends.map(|(entry, zone)| layout.byte_of(zone, entry.written_blocks)).max();
    match needed {
        Some(needed) if file.len_bytes()? < needed => Err(file.truncated(needed)),
        _ => Ok(()),
    }
}

/// Restores the zones from their entries; after a crash from their data too. Returns the zones that are empty but may
/// hold data, and those whose entry is damaged.
fn restore(file: &HostFile, zones: &mut FileZones, entries: &[Result<Entry>], clean: bool) -> Result<Vec<ZoneId>> {
    let capacity = zones.machine.geometry().zone_capacity_blocks;
    let is_known = clean || !zones.exact_holes;
    let (mut fills, mut leftovers) = (Vec::with_capacity(entries.len()), Vec::new());
    for (entry, zone) in entries.iter().zip((0..).map(ZoneId)) {
        let fill = match entry {
            Ok(entry) if entry.state.is_active() && !is_known => {
                Entry { written_blocks: end_of_data(file, zones, zone, entry.written_blocks)?, ..*entry }
            }
            Ok(entry) => *entry,
            Err(_) => of_damaged(file, zones, zone)?,
        };
        let holds_something = || Ok(!is_known && blocks_in_file(file, zones, zone, capacity)? > 0);
        let is_leftover = entry.is_err() || fill.state == ZoneState::Empty && holds_something()?;
        leftovers.extend(is_leftover.then_some(zone));
        fills.push(fill);
    }
    finish_excess(&mut fills, zones.machine.geometry());
    for (fill, zone) in fills.iter().zip((0..).map(ZoneId)) {
        zones.machine.restore(zone, fill.state, fill.written_blocks)?;
        let is_empty = zones.machine.state(zone) == ZoneState::Empty;
        if !is_known && !is_empty && zones.machine.written_blocks(zone) < capacity {
            zones.ahead.may_be_taken(zone);
        }
        if is_empty && fill.state != ZoneState::Empty {
            leftovers.push(zone);
        }
        zones.on_file.push(if is_empty { OnFile::Empty } else { OnFile::InUse });
    }
    Ok(leftovers)
}

/// What a zone is whose entry is damaged: one that can be read and never written, as drives retire them, with all that may be data, or an
/// empty one if there is none. What is in it can be told from zeros by whoever wrote it.
fn of_damaged(file: &HostFile, zones: &FileZones, zone: ZoneId) -> Result<Entry> {
    let written_blocks = match zones.file_bytes > zones.layout.byte_of(zone, 0) {
        false => 0,
        true if zones.exact_holes => end_of_data(file, zones, zone, 0)?,
        true => zones.machine.geometry().zone_capacity_blocks,
    };
    let state = if written_blocks > 0 { ZoneState::ReadOnly } else { ZoneState::Empty };
    Ok(Entry { state, written_blocks })
}

/// A power cut may undo that zones were filled or finished and keep that others were opened after them. Drives finish
/// zones then, to stay within their limit (I2), and so do we: the fullest ones.
fn finish_excess(fills: &mut [Entry], geometry: &Geometry) {
    let Some(max) = geometry.max_active else { return };
    let capacity = geometry.zone_capacity_blocks;
    let holds = |fill: &&mut Entry| fill.state.is_active() && (1..capacity).contains(&fill.written_blocks);
    let mut active: Vec<&mut Entry> = fills.iter_mut().filter(holds).collect();
    active.sort_by_key(|fill| fill.written_blocks);
    for fill in active.into_iter().skip(max as usize) {
        fill.state = ZoneState::Full;
    }
}

/// The write pointer of an active zone after a crash, at least what is recorded.
fn end_of_data(file: &HostFile, zones: &FileZones, zone: ZoneId, known_blocks: u64) -> Result<u64> {
    let capacity = zones.machine.geometry().zone_capacity_blocks;
    let mut end = blocks_in_file(file, zones, zone, capacity)?.max(known_blocks);
    let Some(blanks) = &zones.blanks else { return Ok(end) };
    loop {
        let stripped = blanks.strip(&zones.layout, file, zone, known_blocks..end)?;
        if stripped == end {
            return Ok(end);
        }
        // Blanks that were not written whole have holes among them.
        end = blocks_in_file(file, zones, zone, stripped)?.max(known_blocks);
    }
}

/// Blocks from a zone's start to the end of the last one that is no hole, of the first `blocks`.
fn blocks_in_file(file: &HostFile, zones: &FileZones, zone: ZoneId, blocks: u64) -> Result<u64> {
    let (start, bytes) = zones.layout.bytes_of(zone, 0..blocks);
    let mut end = file.data_end(start, bytes)?;
    if end > 0 {
        // All of the zone: pages of the cache may be large.
        let (start, all) = zones.layout.extent(zone);
        file.forget_cached(start, all);
        end = file.data_end(start, bytes)?;
    }
    Ok(end.div_ceil(u64::from(zones.machine.geometry().block_bytes)))
}

/// A crash between recording a reset and punching its hole, or before anything was written, leaves zones that are
/// empty: make the file say and be so. A damaged entry becomes a whole one, as readers beside a writer need it.
fn erase_leftovers(file: &HostFile, zones: &FileZones, leftovers: &[ZoneId]) -> Result<()> {
    for &zone in leftovers {
        zones.record_now(file, zone)?;
    }
    if !leftovers.is_empty() {
        file.sync()?;
    }
    for &zone in leftovers.iter().filter(|zone| zones.machine.state(**zone) == ZoneState::Empty) {
        let (start, bytes) = zones.layout.extent(zone);
        file.punch(start, bytes)?;
    }
    Ok(())
}
