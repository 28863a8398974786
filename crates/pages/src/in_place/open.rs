//! Creating and opening a store in place.

use std::sync::Arc;

use zonda_device::{BlockDevice, Io};
use zonda_space::{SUPERBLOCK_BYTES_MAX, SpaceError, StoreId};

use super::InPlaceOptions;
use super::core::{Core, Opened};
use super::disk::Disk;
use super::format::{Identity, SegmentHeader, SegmentKind, SuperblockFault, no_superblock};
use super::layout::{Layout, SegmentIndex, superblocks};
use super::run::Run;
use super::table::Table;
use crate::areas::HOLE_BLOCKS_MAX;
use crate::frame::{Fault, Frame, Framing, generation_in};
use crate::log_device::{FEATURE_LOG_ELSEWHERE, LogPlace};
use crate::pool::BufferPool;
use crate::recognise::UNREADABLE_MAX;
use crate::reserve::{self, Demand, Reserve};
use crate::walk::{Blocks, Eyes, Walk};
use crate::{AreaKind, BLOCK_BYTES, PAGE_BLOCKS_MAX, PageError, number};

/// The client name in superblocks.
const CLIENT: [u8; 8] = *b"tree\0\0\0\0";
/// Segments that may hold no live page although they are not free: one that values fill, and what slots in limbo and holes that fit
/// nobody add up to.
const OPEN_SEGMENTS: u32 = 4;

/// Whether nothing was ever written to the places of the superblock.
pub(crate) fn is_blank(device: Arc<dyn BlockDevice>) -> Result<bool, PageError> {
    let disk = Disk::new(device)?;
    let copies = read_copies(&disk)?;
    Ok(copies.iter().all(|copy| *copy == Err(SuperblockFault::Blank)))
}

/// Makes a store.
pub(crate) fn create(device: Arc<dyn BlockDevice>, log: LogPlace, options: &InPlaceOptions) -> Result<Core, PageError> {
    let disk = Disk::new(device)?;
    let Planned { layout, reserve, is_blank } = plan_new(&disk, log, options)?;
    if !is_blank {
        make_empty(&disk, layout)?;
    }
    let common = &options.common;
    let identity = Identity {
        store: common.store_id,
        client: CLIENT,
        features: common.features | log.features(),
        segment_blocks: layout.segment_blocks(),
        capacity_blocks: layout.capacity_blocks(),
        superblock: common.superblock.clone(),
    };
    write_copies(&disk, &identity, [true, true])?;
    let table = Table::new(layout, reserve);
    Ok(Core::new(Opened { disk, identity, layout, reserve, table }, options))
}

/// Whether [`create`] would make a store; writes nothing.
pub(crate) fn check_create(
    device: Arc<dyn BlockDevice>,
    log: LogPlace,
    options: &InPlaceOptions,
) -> Result<(), PageError> {
    plan_new(&Disk::new(device)?, log, options).map(|_| ())
}

/// What a new store is to be.
struct Planned {
    layout: Layout,
    reserve: Reserve,
    /// Whether there is no earlier one.
    is_blank: bool,
}

fn plan_new(disk: &Disk, log: LogPlace, options: &InPlaceOptions) -> Result<Planned, PageError> {
    let layout = Layout::new(disk.capacity_blocks(), options.segment_blocks)?;
    check_segments(disk.capacity_blocks(), log, &|_| options.clone())?;
    let reserve = plan(layout, log, options)?;
    if options.common.superblock.len() > SUPERBLOCK_BYTES_MAX {
        let (value, rule) = (options.common.superblock.len() as u64, "at most 2,048 bytes fit");
        return Err(SpaceError::BadOption { option: "superblock", value, rule }.into());
    }
    let is_blank = read_copies(disk)?.iter().all(|copy| *copy == Err(SuperblockFault::Blank));
    if !is_blank && !options.common.overwrite {
        let (what, rule) = ("superblock", "the device is not empty; say that it may be overwritten");
        return Err(SpaceError::BadGeometry { what, value: 1, rule }.into());
    }
    Ok(Planned { layout, reserve, is_blank })
}

/// See [`InPlaceStore::check_segments`](crate::InPlaceStore::check_segments).
pub(crate) fn check_segments(
    capacity_blocks: u64,
    log: LogPlace,
    options_of: &dyn Fn(u64) -> InPlaceOptions,
) -> Result<(), PageError> {
    let segment_blocks = options_of(capacity_blocks * BLOCK_BYTES as u64).segment_blocks;
    let segments = Layout::new(capacity_blocks, segment_blocks)?.segments();
    reserve::check_zones(segments, |enough| {
        let blocks = if enough == segments { capacity_blocks } else { u64::from(enough) * segment_blocks };
        plan(Layout::new(blocks, segment_blocks)?, log, &options_of(blocks * BLOCK_BYTES as u64)).map(|_| ())
    })
}

/// The headers of an earlier store go.
fn make_empty(disk: &Disk, layout: Layout) -> Result<(), PageError> {
    // The block behind it, too: what an earlier store with the same id had there must not be taken for this one's.
    let zeros = BufferPool::new().take(2);
    for segment in layout.all() {
        disk.write(layout.header(segment), &zeros[..2 * BLOCK_BYTES])?;
    }
    Ok(disk.flush()?)
}

fn write_copies(disk: &Disk, identity: &Identity, which: [bool; 2]) -> Result<(), PageError> {
    let mut block = BufferPool::new().take(1);
    block[..BLOCK_BYTES].copy_from_slice(&identity.encode());
    // The copy goes first, and is durable before the other is touched.
    for (place, wanted) in superblocks(disk.capacity_blocks()).into_iter().zip(which).rev() {
        if wanted {
            disk.write(place, &block[..BLOCK_BYTES])?;
            disk.flush()?;
        }
    }
    Ok(())
}

fn read_copies(disk: &Disk) -> Result<[Result<Identity, SuperblockFault>; 2], PageError> {
    let mut block = BufferPool::new().take(1);
    let mut lost = None;
    let mut read = |place: u64| match disk.read(place, &mut block[..BLOCK_BYTES]) {
        Err(error) if error.is_unreadable() => {
            lost = Some(error);
            Ok(Err(SuperblockFault::Other))
        }
        outcome => outcome.map(|()| Identity::decode(&block[..BLOCK_BYTES])),
    };
    let [first, second] = superblocks(disk.capacity_blocks());
    let copies = [read(first)?, read(second)?];
    match lost {
        // A device that may read it another time is not one without a store.
        Some(error) if !error.is_lost() && copies.iter().all(Result::is_err) => Err(error),
        _ => Ok(copies),
    }
}

/// The store on a device whose log is where the caller has it. Nothing is written.
pub(crate) fn identify(
    device: Arc<dyn BlockDevice>,
    log: LogPlace,
    options: &InPlaceOptions,
) -> Result<StoreId, PageError> {
    let disk = Disk::new(device)?;
    let (identity, _) = read_identity(&disk)?;
    check_identity(&identity, &disk, log, options)?;
    Ok(identity.store)
}

/// Opens a store; returns it with the client's superblock bytes. A damaged copy of the superblock is made good.
pub(crate) fn open(
    device: Arc<dyn BlockDevice>,
    log: LogPlace,
    options: &InPlaceOptions,
) -> Result<(Core, Vec<u8>), PageError> {
    let disk = Disk::new(device)?;
    let (identity, intact) = read_identity(&disk)?;
    check_identity(&identity, &disk, log, options)?;
    let layout = Layout::new(identity.capacity_blocks, identity.segment_blocks)?;
    let reserve = plan(layout, log, options)?;
    let table = recover(&disk, &identity, layout, reserve)?;
    write_copies(&disk, &identity, intact.map(|intact| !intact))?;
    let superblock = identity.superblock.clone();
    Ok((Core::new(Opened { disk, identity, layout, reserve, table }, options), superblock))
}

/// What the superblock says, and which of its copies are intact.
fn read_identity(disk: &Disk) -> Result<(Identity, [bool; 2]), PageError> {
    match read_copies(disk)? {
        [Ok(first), second] => Ok((first.clone(), [true, second == Ok(first)])),
        [Err(_), Ok(second)] => Ok((second, [false, true])),
        [Err(first), Err(second)] => Err(no_superblock([first, second]).into()),
    }
}

fn check_identity(identity: &Identity, disk: &Disk, log: LogPlace, options: &InPlaceOptions) -> Result<(), PageError> {
    let unknown = identity.features & !(options.common.features | FEATURE_LOG_ELSEWHERE);
    if identity.client != CLIENT {
        let name = |client: &[u8; 8]| String::from_utf8_lossy(client).trim_end_matches('\0').to_owned();
        return Err(SpaceError::OtherClient { found: name(&identity.client), expected: name(&CLIENT) }.into());
    }
    if unknown != 0 {
        return Err(SpaceError::UnknownFeatures { unknown }.into());
    }
    log.check(identity.features)?;
    let (stored, actual) = (identity.capacity_blocks, disk.capacity_blocks());
    if stored != actual {
        let what = "a capacity in blocks of 4,096 bytes";
        return Err(SpaceError::GeometryChanged { what, stored, actual }.into());
    }
    Ok(())
}

/// The reserve; everything is checked before anything is written.
fn plan(layout: Layout, log: LogPlace, options: &InPlaceOptions) -> Result<Reserve, PageError> {
    let common = &options.common;
    check("group_pages", common.group_pages, PAGE_BLOCKS_MAX, "1 to 64 blocks can be written together")?;
    check("sequencer_groups_max", common.sequencer_groups_max, 65_536, "1 to 65,536 groups can wait")?;
    Reserve::plan(&Demand {
        zones: layout.segments(),
        zone_bytes: layout.data_blocks_min() * BLOCK_BYTES as u64,
        open_data_zones: OPEN_SEGMENTS,
        log_limit_bytes: common.log_limit_bytes,
        log_is_here: log == LogPlace::Here,
        extra_zones: common.extra_reserve_zones,
    })
}

fn check(option: &'static str, value: u32, max: u64, rule: &'static str) -> Result<(), PageError> {
    if (1..=max).contains(&u64::from(value)) {
        return Ok(());
    }
    Err(SpaceError::BadOption { option, value: value.into(), rule }.into())
}

const META: SegmentKind = SegmentKind::Area(AreaKind::Meta);

/// The table of an earlier life, as the headers tell it. The newest segment of the MetaLog goes on if it is not sealed (decision 0053).
fn recover(disk: &Disk, identity: &Identity, layout: Layout, reserve: Reserve) -> Result<Table, PageError> {
    let mut table = Table::new(layout, reserve);
    let mut highest = 0;
    let (framing, pool) = (Framing::new(identity.store.0), BufferPool::new());
    let eyes = Eyes { blocks: disk, framing, pool: &pool };
    let (mut found, mut headless, mut blank) = (Vec::new(), Vec::new(), Vec::new());
    let headers = layout.all().map(|segment| (segment, layout.header(segment)));
    for_blocks(disk, headers, &mut |segment, bytes| match bytes
        .and_then(|bytes| SegmentHeader::decode(bytes, identity.store, segment))
    {
        Some(header) => found.push((segment, header)),
        None if bytes.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0)) => blank.push(segment),
        None => headless.push(segment),
    })?;
    // Nothing was ever written there, or the header is lost, and what lies behind it is not.
    let firsts = blank.into_iter().map(|segment| (segment, layout.first(segment)));
    let mut begun = Vec::new();
    for_blocks(disk, firsts, &mut |segment, bytes| begun.extend(bytes.and_then(generation_in).map(|_| segment)))?;
    for segment in begun {
        match frame_at(eyes, layout.first(segment), layout.end(segment)) {
            Err(error) if error.is_unreadable() => {}
            header => found.extend(header?.map(|header| (segment, header))),
        }
    }
    for segment in headless {
        found.extend(by_frames(eyes, layout, segment)?.map(|header| (segment, header)));
    }
    let is_open = |header: &SegmentHeader| header.kind == META && header.written_blocks == 0;
    let newest_of_meta =
        found.iter().filter(|(_, header)| header.kind == META).max_by_key(|(_, header)| header.generation);
    let goes_on = newest_of_meta.filter(|(_, header)| is_open(header)).map(|(segment, _)| *segment);
    for (segment, header) in found {
        highest = highest.max(header.generation);
        match header.kind {
            SegmentKind::Free => {}
            SegmentKind::Pages => table.restore(segment, header.generation, None),
            SegmentKind::Area(kind) => {
                let run = recover_run(eyes, layout, segment, header, kind)?;
                table.restore(segment, header.generation, Some(run));
            }
        }
    }
    if let Some(segment) = goes_on {
        table.go_on(segment, AreaKind::Meta);
    }
    table.restore_generation(highest);
    Ok(table)
}

/// What a segment is whose header is damaged or cannot be read, by the first whole frame in it: if it is one of this store, it is in use,
/// or was. Else nothing is there, but for pages that somebody refers to. Cost: reads as far as that frame, at most [`HOLE_BLOCKS_MAX`],
/// behind which nobody looks for chunks either.
fn by_frames(eyes: Eyes<'_>, layout: Layout, segment: SegmentIndex) -> Result<Option<SegmentHeader>, PageError> {
    let (first, end) = (layout.first(segment), layout.end(segment));
    let (mut unreadable, mut lost) = (0, None);
    for block in first..end.min(first + HOLE_BLOCKS_MAX) {
        match frame_at(eyes, block, end) {
            Ok(None) => {}
            Err(error) if error.is_unreadable() => {
                unreadable += 1;
                lost.get_or_insert(error);
            }
            found => return found,
        }
        if unreadable == UNREADABLE_MAX {
            break;
        }
    }
    let Some(error) = lost else { return Ok(None) };
    let why = format!(
        "nor can {unreadable} blocks behind it be read, and nothing tells whether the end of the log was there: {error}"
    );
    Err(PageError::Damaged { what: "segment header", block: layout.header(segment), why })
}

/// What a segment holds by the frame at a block of it, if one begins there, of whatever generation it says.
fn frame_at(eyes: Eyes<'_>, block: u64, end: u64) -> Result<Option<SegmentHeader>, PageError> {
    let mut start = eyes.pool.take(1);
    eyes.blocks.read(block, &mut start[..BLOCK_BYTES])?;
    let Some(generation) = generation_in(&start) else { return Ok(None) };
    let kind = match Walk::new(generation, block, end).look(eyes, |_| {})?.map(|step| step.frame) {
        Some(Ok(Frame::Page(_))) => SegmentKind::Pages,
        Some(Ok(Frame::Chunk(chunk))) => SegmentKind::Area(chunk.kind),
        Some(Err(_)) | None => return Ok(None),
    };
    Ok(Some(SegmentHeader { kind, generation, written_blocks: 0 }))
}

/// Reads a block of each of some segments, many in flight together; `visit` gets none where the device cannot read it.
fn for_blocks(
    disk: &Disk,
    mut blocks: impl Iterator<Item = (SegmentIndex, u64)>,
    visit: &mut dyn FnMut(SegmentIndex, Option<&[u8]>),
) -> Result<(), PageError> {
    let pool = BufferPool::new();
    let mut queue = disk.queue()?;
    let mut done = Vec::new();
    loop {
        while queue.in_flight() < queue.depth() {
            let Some((segment, block)) = blocks.next() else { break };
            let io = Io::Read { at: disk.lba(block), into: pool.take_exact(1) };
            queue.submit(segment.0.into(), io).map_err(|rejected| rejected.error)?;
        }
        if queue.in_flight() == 0 {
            return Ok(());
        }
        queue.complete(1, &mut done)?;
        for completion in done.drain(..) {
            let segment = SegmentIndex(u32::try_from(completion.token).expect("a segment's number was given"));
            match completion.result.map_err(PageError::from) {
                Err(error) if error.is_unreadable() => visit(segment, None),
                result => {
                    result?;
                    visit(segment, completion.buffer.as_deref());
                }
            }
            pool.put(completion.buffer.expect("a read brings its buffer back"));
        }
    }
}

/// A segment of an area ends where its header says, or else behind its last whole chunk: one that is damaged, or torn by a power cut, is
/// not its end, as whole ones may follow. The end of a log of which something is not read is not known.
fn recover_run(
    eyes: Eyes<'_>,
    layout: Layout,
    segment: SegmentIndex,
    header: SegmentHeader,
    kind: AreaKind,
) -> Result<Run, PageError> {
    let (first, end) = (layout.first(segment), layout.end(segment));
    let stated = first + u64::from(header.written_blocks);
    let next = match header.written_blocks {
        0 => end_of_chunks(eyes, header.generation, (first, end), kind)?,
        _ => stated.min(end),
    };
    Ok(Run::recovered(kind, first, next))
}

fn end_of_chunks(
    eyes: Eyes<'_>,
    generation: u64,
    (first, segment_end): (u64, u64),
    wanted: AreaKind,
) -> Result<u64, PageError> {
    let mut walk = Walk::new(generation, first, segment_end);
    let (mut expected, mut end, mut hole_blocks) = (0, first, 0);
    while let Some(step) = walk.look(eyes, |_| {})? {
        let blocks = match step.frame {
            Ok(Frame::Chunk(chunk)) if chunk.kind == wanted && chunk.index >= expected => {
                (expected, hole_blocks) = (chunk.index.saturating_add(1), 0);
                end = step.block + chunk.blocks();
                chunk.blocks()
            }
            // The end of what was synced may be there. Whoever reads the log says so, or bears it.
            Err(Fault::Unreadable) if wanted == AreaKind::Log => return Ok(segment_end),
            Err(fault @ Fault::Unreadable) if wanted == AreaKind::Meta => return Err(fault.at("chunk", step.block)),
            // Where whoever reads it gives up (`areas.rs::read_segment`).
            _ if hole_blocks + 1 == HOLE_BLOCKS_MAX => break,
            _ => {
                hole_blocks += 1;
                1
            }
        };
        walk.advance(blocks);
    }
    Ok(end)
}

/// Body bytes that fit a page of `blocks` blocks.
pub(crate) fn page_body_bytes(blocks: u64) -> usize {
    number::bytes(blocks) - crate::format::PAGE_HEADER_BYTES
}
