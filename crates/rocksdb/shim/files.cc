#include "files.h"

#include <pthread.h>

#include <cstring>
#include <vector>

#include "keys.h"
#include "rocksdb/comparator.h"
#include "status.h"

namespace zonda {

namespace {

// Whether RocksDB named this thread as one of its low or bottom priority pools. Names do not change later.
bool IsCompactionThread() {
  thread_local const bool is_compaction = [] {
    char name[16] = {0};
    if (pthread_getname_np(pthread_self(), name, sizeof name) != 0) {
      return false;
    }
    return std::strncmp(name, "rocksdb:low", 11) == 0 || std::strncmp(name, "rocksdb:bottom", 14) == 0;
  }();
  return is_compaction;
}

// What this thread reads is for the keys of a table, through RocksDB's own reader.
thread_local bool reads_for_keys = false;

// Users read with IO_TOTAL. Compactions read with IO_LOW, or with IO_USER while writes stall.
uint8_t ReaderOf(const IOOptions& options) {
  if (reads_for_keys) {
    return ZONDA_READ_FOR_KEYS;
  }
  switch (options.rate_limiter_priority) {
    case rocksdb::Env::IO_LOW:
      return ZONDA_READ_BY_COMPACTION;
    case rocksdb::Env::IO_USER:
      return IsCompactionThread() ? ZONDA_READ_BY_COMPACTION : ZONDA_READ_BY_USER;
    default:
      return ZONDA_READ_BY_USER;
  }
}

// RocksDB gives no memory where it would look at a mapped file (allow_mmap_reads).
IOStatus WithoutMemory() { return IOStatus::NotSupported("zonda files cannot be mapped into memory: no allow_mmap_reads"); }

IOStatus ReadAt(const zonda_readable* file, uint64_t offset, size_t n, uint8_t who, Slice* result, char* scratch) {
  size_t read = 0;
  if (scratch == nullptr && n > 0) {
    *result = Slice();
    return WithoutMemory();
  }
  IOStatus status = ToStatus(zonda_bridge_read(file, offset, scratch, n, who, &read));
  *result = Slice(scratch, read);
  return status;
}

}  // namespace

WritableFile::WritableFile(zonda_writable* file, const FileOptions& options, const std::string& name,
                           rocksdb::FileSystem* file_system, bool is_direct)
    : FSWritableFile(options), file_(file), name_(name), file_system_(file_system), is_direct_(is_direct) {}

WritableFile::~WritableFile() { zonda_bridge_free_writable(file_); }

IOStatus WritableFile::Append(const Slice& data, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_append(file_, data.data(), data.size()));
}

IOStatus WritableFile::Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                              IODebugContext* debug) {
  return Append(data, options, debug);
}

IOStatus WritableFile::PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_write_at(file_, offset, data.data(), data.size()));
}

IOStatus WritableFile::PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                                        const rocksdb::DataVerificationInfo&, IODebugContext* debug) {
  return PositionedAppend(data, offset, options, debug);
}

IOStatus WritableFile::Truncate(uint64_t size, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_truncate_open(file_, size));
}

IOStatus WritableFile::Close(const IOOptions&, IODebugContext*) { return ToStatus(zonda_bridge_close_file(file_)); }

IOStatus WritableFile::Flush(const IOOptions&, IODebugContext*) { return ToStatus(zonda_bridge_flush(file_)); }

IOStatus WritableFile::Sync(const IOOptions&, IODebugContext*) {
  const uint8_t order = zonda_bridge_wants_keys(file_);
  if (order != 0) {
    DescribeKeys(order);
  }
  return ToStatus(zonda_bridge_sync(file_));
}

void WritableFile::DescribeKeys(uint8_t order) {
  const auto* comparator = order == 2 ? rocksdb::ReverseBytewiseComparator() : rocksdb::BytewiseComparator();
  Keys keys;
  reads_for_keys = true;
  const bool has_keys = KeysOf(name_, file_system_, comparator, &keys);
  reads_for_keys = false;
  if (has_keys) {
    // Without them the table is placed by the keys of what it was made of.
    ToStatus(zonda_bridge_describe_keys(file_, Text(keys.smallest), Text(keys.largest))).PermitUncheckedError();
  }
}

void WritableFile::SetWriteLifeTimeHint(rocksdb::Env::WriteLifeTimeHint hint) {
  write_hint_ = hint;
  // The call cannot fail; a store that stopped says so at the next write.
  ToStatus(zonda_bridge_set_lifetime(file_, static_cast<uint8_t>(hint))).PermitUncheckedError();
}

uint64_t WritableFile::GetFileSize(const IOOptions&, IODebugContext*) { return zonda_bridge_written(file_); }

RandomAccessFile::~RandomAccessFile() { zonda_bridge_free_readable(file_); }

IOStatus RandomAccessFile::Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                                IODebugContext*) const {
  return ReadAt(file_, offset, n, ReaderOf(options), result, scratch);
}

IOStatus RandomAccessFile::MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                                     IODebugContext*) {
  std::vector<zonda_many_read> reads(count);
  bool has_memory = true;
  for (size_t i = 0; i < count; i++) {
    reads[i] = {requests[i].offset, requests[i].scratch, requests[i].len, 0};
    has_memory = has_memory && (requests[i].scratch != nullptr || requests[i].len == 0);
  }
  const uint8_t who = ReaderOf(options);
  const IOStatus together =
      has_memory ? ToStatus(zonda_bridge_read_many(file_, reads.data(), count, who)) : WithoutMemory();
  for (size_t i = 0; i < count; i++) {
    rocksdb::FSReadRequest& request = requests[i];
    if (together.ok()) {
      request.result = Slice(request.scratch, reads[i].read);
      request.status = together;
    } else {
      // Which of them fails? The others are not to fail with it.
      request.status = ReadAt(file_, request.offset, request.len, who, &request.result, request.scratch);
    }
  }
  return IOStatus::OK();
}

size_t RandomAccessFile::GetUniqueId(char* id, size_t max_size) const {
  // Numbers of files are never used twice. Each byte has seven bits and the last one bit 8 set: no id begins another,
  // and two bytes in front keep it from being one varint.
  constexpr size_t kBytes = 12;
  if (max_size < kBytes) {
    return 0;
  }
  uint64_t number = zonda_bridge_readable_id(file_);
  id[0] = 'z';
  id[1] = 'n';
  for (size_t i = 2; i < kBytes; i++) {
    id[i] = static_cast<char>((number & 0x7f) | (i + 1 == kBytes ? 0x80 : 0));
    number >>= 7;
  }
  return kBytes;
}

SequentialFile::~SequentialFile() { zonda_bridge_free_readable(file_); }

IOStatus SequentialFile::Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext*) {
  IOStatus status = ReadAt(file_, at_, n, ReaderOf(options), result, scratch);
  at_ += result->size();
  return status;
}

IOStatus SequentialFile::Skip(uint64_t n) {
  const uint64_t size = zonda_bridge_readable_size(file_);
  at_ = n > size || at_ > size - n ? size : at_ + n;
  return IOStatus::OK();
}

IOStatus SequentialFile::PositionedRead(uint64_t offset, size_t n, const IOOptions& options, Slice* result,
                                        char* scratch, IODebugContext*) {
  return ReadAt(file_, offset, n, ReaderOf(options), result, scratch);
}

IOStatus Directory::Fsync(const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_sync_directory(system_, false));
}

IOStatus Directory::FsyncWithDirOptions(const IOOptions&, IODebugContext*, const DirFsyncOptions& why) {
  return ToStatus(zonda_bridge_sync_directory(system_, why.reason == DirFsyncOptions::kNewFileSynced));
}

}  // namespace zonda
