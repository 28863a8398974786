// The file system that RocksDB calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bridge.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"

namespace zonda {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class FileSystem final : public rocksdb::FileSystem {
 public:
  // Takes `system`.
  FileSystem(std::string uri, zonda_system* system);
  ~FileSystem() override;

  static const char* kClassName() { return "zonda"; }
  const char* Name() const override { return kClassName(); }
  // What OPTIONS files and messages call it: it can be opened by this again.
  std::string GetId() const override { return uri_; }

  // Called by DB::Open with the options that it is about to use: our listener is added to them.
  rocksdb::Status ValidateOptions(const rocksdb::DBOptions&, const rocksdb::ColumnFamilyOptions&) const override;

  // No page cache reads ahead for us: compactions do so themselves, even where the options leave it to the cache.
  rocksdb::FileOptions OptimizeForCompactionTableRead(const rocksdb::FileOptions&,
                                                      const rocksdb::ImmutableDBOptions&) const override;

  IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>*, IODebugContext*) override;
  IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>*, IODebugContext*) override;
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override;
  IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override;
  IOStatus ReuseWritableFile(const std::string& name, const std::string& old_name, const rocksdb::FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override;
  // Zones are written at their end. Ingestion with write_global_seqno tolerates exactly NotSupported.
  IOStatus NewRandomRWFile(const std::string& name, const rocksdb::FileOptions&,
                           std::unique_ptr<rocksdb::FSRandomRWFile>*, IODebugContext*) override;
  IOStatus NewDirectory(const std::string& name, const IOOptions&, std::unique_ptr<rocksdb::FSDirectory>*,
                        IODebugContext*) override;

  IOStatus FileExists(const std::string& name, const IOOptions&, IODebugContext*) override;
  IOStatus GetChildren(const std::string& directory, const IOOptions&, std::vector<std::string>* names,
                       IODebugContext*) override;
  IOStatus GetChildrenFileAttributes(const std::string& directory, const IOOptions&,
                                     std::vector<rocksdb::FileAttributes>*, IODebugContext*) override;
  IOStatus DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) override;
  IOStatus Truncate(const std::string& name, size_t size, const IOOptions&, IODebugContext*) override;
  IOStatus CreateDir(const std::string& name, const IOOptions&, IODebugContext*) override;
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions&, IODebugContext*) override;
  IOStatus DeleteDir(const std::string& name, const IOOptions&, IODebugContext*) override;
  IOStatus GetFileSize(const std::string& name, const IOOptions&, uint64_t* size, IODebugContext*) override;
  IOStatus GetFileModificationTime(const std::string& name, const IOOptions&, uint64_t* seconds,
                                   IODebugContext*) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) override;
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) override;
  IOStatus NumFileLinks(const std::string& name, const IOOptions&, uint64_t* count, IODebugContext*) override;
  IOStatus AreFilesSame(const std::string& first, const std::string& second, const IOOptions&, bool* same,
                        IODebugContext*) override;
  IOStatus LockFile(const std::string& name, const IOOptions&, rocksdb::FileLock**, IODebugContext*) override;
  IOStatus UnlockFile(rocksdb::FileLock*, const IOOptions&, IODebugContext*) override;
  IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override;
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute, IODebugContext*) override;
  IOStatus GetFreeSpace(const std::string& path, const IOOptions&, uint64_t* bytes, IODebugContext*) override;
  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* is_directory, IODebugContext*) override;

 private:
  // Adds our listener to those of a database, in place of any other of ours.
  void ListenIn(std::vector<std::shared_ptr<rocksdb::EventListener>>& listeners) const;

  // A file to write, which `open` opens.
  template <typename Open>
  IOStatus WrapWritable(const std::string& name, const rocksdb::FileOptions&, std::unique_ptr<rocksdb::FSWritableFile>*,
                        Open open);

  const std::string uri_;
  zonda_system* const system_;
  const std::shared_ptr<rocksdb::EventListener> listener_;
};

}  // namespace zonda
