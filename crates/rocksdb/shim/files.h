// Open files and directories.
#pragma once

#include <string>

#include "bridge.h"
#include "rocksdb/file_system.h"

namespace zonda {

using rocksdb::DirFsyncOptions;
using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Blocks of the store: what direct I/O is aligned to.
constexpr size_t kBlockBytes = 4096;

// Appended to by one thread while another may sync it.
class WritableFile final : public FSWritableFile {
 public:
  // `file_system` outlives it, as RocksDB promises. Tables that wait for their keys are not written in whole blocks with a
  // padded end: their keys are found from their end.
  WritableFile(zonda_writable* file, const FileOptions& options, const std::string& name,
               rocksdb::FileSystem* file_system, bool is_direct);
  ~WritableFile() override;

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override;
  IOStatus Append(const Slice& data, const IOOptions&, const rocksdb::DataVerificationInfo&, IODebugContext*) override;
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&, IODebugContext*) override;
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&, const rocksdb::DataVerificationInfo&,
                            IODebugContext*) override;
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override;
  IOStatus Close(const IOOptions&, IODebugContext*) override;
  IOStatus Flush(const IOOptions&, IODebugContext*) override;
  IOStatus Sync(const IOOptions&, IODebugContext*) override;
  bool IsSyncThreadSafe() const override { return true; }
  bool use_direct_io() const override { return is_direct_; }
  size_t GetRequiredBufferAlignment() const override { return kBlockBytes; }
  void SetWriteLifeTimeHint(rocksdb::Env::WriteLifeTimeHint hint) override;
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override;
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  // Space is taken when bytes are placed, never before.
  void PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) override {}

 private:
  void DescribeKeys(uint8_t order);

  zonda_writable* const file_;
  const std::string name_;
  rocksdb::FileSystem* const file_system_;
  const bool is_direct_;
};

class RandomAccessFile final : public FSRandomAccessFile {
 public:
  RandomAccessFile(zonda_readable* file, bool is_direct) : file_(file), is_direct_(is_direct) {}
  ~RandomAccessFile() override;

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override;
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions&, IODebugContext*) override;
  size_t GetUniqueId(char* id, size_t max_size) const override;
  bool use_direct_io() const override { return is_direct_; }
  size_t GetRequiredBufferAlignment() const override { return kBlockBytes; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  zonda_readable* const file_;
  const bool is_direct_;
};

class SequentialFile final : public FSSequentialFile {
 public:
  SequentialFile(zonda_readable* file, bool is_direct) : file_(file), is_direct_(is_direct) {}
  ~SequentialFile() override;

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override;
  IOStatus Skip(uint64_t n) override;
  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                          IODebugContext*) override;
  bool use_direct_io() const override { return is_direct_; }
  size_t GetRequiredBufferAlignment() const override { return kBlockBytes; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  zonda_readable* const file_;
  const bool is_direct_;
  uint64_t at_ = 0;
};

// Keeps nothing open: changes of names are made durable all together. `system` outlives it, as RocksDB promises.
class Directory final : public FSDirectory {
 public:
  explicit Directory(const zonda_system* system) : system_(system) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override;
  IOStatus FsyncWithDirOptions(const IOOptions&, IODebugContext*, const DirFsyncOptions& why) override;
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  const zonda_system* const system_;
};

}  // namespace zonda
