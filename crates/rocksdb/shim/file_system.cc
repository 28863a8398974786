#include "file_system.h"

#include <algorithm>
#include <mutex>

#include "jobs.h"
#include "files.h"
#include "rocksdb/options.h"
#include "status.h"

namespace zonda {

namespace {

// What RocksDB itself takes for direct reads.
constexpr size_t kCompactionReadaheadBytes = 2 << 20;

class Lock final : public rocksdb::FileLock {
 public:
  explicit Lock(std::string name) : name(std::move(name)) {}
  const std::string name;
};

IOStatus InfoOf(const zonda_system* system, const std::string& name, zonda_info* info) {
  return ToStatus(zonda_bridge_info(system, Text(name), info));
}

// A file to read, as RocksDB's `Base`.
template <typename File, typename Base>
IOStatus WrapReadable(const zonda_system* system, const std::string& name, const rocksdb::FileOptions& options,
                      std::unique_ptr<Base>* result) {
  zonda_readable* file = nullptr;
  result->reset();
  IOStatus status = ToStatus(zonda_bridge_read_file(system, Text(name), &file));
  if (status.ok()) {
    result->reset(new File(file, options.use_direct_reads));
  }
  return status;
}

}  // namespace

template <typename Open>
IOStatus FileSystem::WrapWritable(const std::string& name, const rocksdb::FileOptions& options,
                                  std::unique_ptr<rocksdb::FSWritableFile>* result, Open open) {
  zonda_writable* file = nullptr;
  result->reset();
  IOStatus status = ToStatus(open(&file));
  if (status.ok()) {
    const bool is_direct = options.use_direct_writes && !zonda_bridge_places_by_keys(system_);
    result->reset(new WritableFile(file, options, name, this, is_direct));
  }
  return status;
}

FileSystem::FileSystem(std::string uri, zonda_system* system)
    : uri_(std::move(uri)), system_(system), listener_(std::make_shared<JobListener>(system)) {}

FileSystem::~FileSystem() { zonda_bridge_close(system_); }

// The one public place where a FileSystem meets the options of a database is their validation. They are const so that this changes no
// meaning; a listener that only watches changes none.
void FileSystem::ListenIn(std::vector<std::shared_ptr<rocksdb::EventListener>>& listeners) const {
  // Several databases may be opened at once with the same options.
  static std::mutex opening;
  const std::lock_guard<std::mutex> held(opening);
  if (std::find(listeners.begin(), listeners.end(), listener_) != listeners.end()) {
    return;
  }
  // Options that were used before, on another file system of ours.
  const auto is_ours = [](const auto& listener) { return dynamic_cast<JobListener*>(listener.get()) != nullptr; };
  listeners.erase(std::remove_if(listeners.begin(), listeners.end(), is_ours), listeners.end());
  listeners.push_back(listener_);
}

rocksdb::Status FileSystem::ValidateOptions(const rocksdb::DBOptions& db_options,
                                            const rocksdb::ColumnFamilyOptions& cf_options) const {
  ListenIn(const_cast<rocksdb::DBOptions&>(db_options).listeners);
  const bool levels_move = cf_options.compaction_style == rocksdb::kCompactionStyleLevel &&
                           cf_options.level_compaction_dynamic_level_bytes;
  const IOStatus refused = ToStatus(zonda_bridge_check_levels(system_, levels_move));
  if (!refused.ok()) {
    return refused;
  }
  return rocksdb::FileSystem::ValidateOptions(db_options, cf_options);
}

rocksdb::FileOptions FileSystem::OptimizeForCompactionTableRead(const rocksdb::FileOptions& options,
                                                                const rocksdb::ImmutableDBOptions& db_options) const {
  rocksdb::FileOptions ours = rocksdb::FileSystem::OptimizeForCompactionTableRead(options, db_options);
  if (ours.compaction_readahead_size == 0) {
    ours.compaction_readahead_size = kCompactionReadaheadBytes;
  }
  return ours;
}

IOStatus FileSystem::NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) {
  return WrapReadable<SequentialFile>(system_, name, options, result);
}

IOStatus FileSystem::NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                         std::unique_ptr<rocksdb::FSRandomAccessFile>* result, IODebugContext*) {
  return WrapReadable<RandomAccessFile>(system_, name, options, result);
}

IOStatus FileSystem::NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                     std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) {
  const auto open = [&](zonda_writable** file) { return zonda_bridge_create(system_, Text(name), file); };
  return WrapWritable(name, options, result, open);
}

IOStatus FileSystem::ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) {
  const auto open = [&](zonda_writable** file) { return zonda_bridge_append_to(system_, Text(name), file); };
  return WrapWritable(name, options, result, open);
}

IOStatus FileSystem::ReuseWritableFile(const std::string& name, const std::string& old_name,
                                       const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) {
  const auto open = [&](zonda_writable** file) {
    return zonda_bridge_reuse(system_, Text(name), Text(old_name), file);
  };
  return WrapWritable(name, options, result, open);
}

IOStatus FileSystem::NewRandomRWFile(const std::string& name, const rocksdb::FileOptions&,
                                     std::unique_ptr<rocksdb::FSRandomRWFile>* result, IODebugContext*) {
  result->reset();
  return IOStatus::NotSupported("files on zones are written at their end only", name);
}

IOStatus FileSystem::NewDirectory(const std::string& name, const IOOptions&,
                                  std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) {
  result->reset();
  zonda_info info;
  IOStatus status = InfoOf(system_, name, &info);
  if (!status.ok()) {
    return status;
  }
  if (!info.is_directory) {
    return IOStatus::IOError("is a file, not a directory", name);
  }
  result->reset(new Directory(system_));
  return status;
}

IOStatus FileSystem::FileExists(const std::string& name, const IOOptions&, IODebugContext*) {
  zonda_info info;
  return ToExistence(zonda_bridge_info(system_, Text(name), &info));
}

IOStatus FileSystem::GetChildren(const std::string& directory, const IOOptions&, std::vector<std::string>* names,
                                 IODebugContext*) {
  names->clear();
  const zonda_each each = [](void* context, zonda_text name, const zonda_info*) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(name.data, name.length);
  };
  return ToExistence(zonda_bridge_list(system_, Text(directory), each, names));
}

IOStatus FileSystem::GetChildrenFileAttributes(const std::string& directory, const IOOptions&,
                                               std::vector<rocksdb::FileAttributes>* children, IODebugContext*) {
  children->clear();
  const zonda_each each = [](void* context, zonda_text name, const zonda_info* info) {
    rocksdb::FileAttributes child;
    child.name.assign(name.data, name.length);
    child.size_bytes = info->size_bytes;
    static_cast<std::vector<rocksdb::FileAttributes>*>(context)->push_back(std::move(child));
  };
  return ToExistence(zonda_bridge_list(system_, Text(directory), each, children));
}

IOStatus FileSystem::DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_remove(system_, Text(name)));
}

IOStatus FileSystem::Truncate(const std::string& name, size_t size, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_truncate(system_, Text(name), size));
}

IOStatus FileSystem::CreateDir(const std::string& name, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_make_directory(system_, Text(name)));
}

IOStatus FileSystem::CreateDirIfMissing(const std::string& name, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_make_directories(system_, Text(name)));
}

IOStatus FileSystem::DeleteDir(const std::string& name, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_remove_directory(system_, Text(name)));
}

IOStatus FileSystem::GetFileSize(const std::string& name, const IOOptions&, uint64_t* size, IODebugContext*) {
  zonda_info info;
  IOStatus status = InfoOf(system_, name, &info);
  *size = status.ok() ? info.size_bytes : 0;
  return status;
}

IOStatus FileSystem::GetFileModificationTime(const std::string& name, const IOOptions&, uint64_t* seconds,
                                             IODebugContext*) {
  zonda_info info;
  IOStatus status = InfoOf(system_, name, &info);
  *seconds = status.ok() ? info.modified_seconds : 0;
  return status;
}

IOStatus FileSystem::RenameFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_rename(system_, Text(from), Text(to)));
}

IOStatus FileSystem::LinkFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) {
  return ToStatus(zonda_bridge_link(system_, Text(from), Text(to)));
}

IOStatus FileSystem::NumFileLinks(const std::string& name, const IOOptions&, uint64_t* count, IODebugContext*) {
  zonda_info info;
  IOStatus status = InfoOf(system_, name, &info);
  *count = status.ok() ? info.links : 0;
  return status;
}

IOStatus FileSystem::AreFilesSame(const std::string& first, const std::string& second, const IOOptions&, bool* same,
                                  IODebugContext*) {
  zonda_info one, other;
  IOStatus status = InfoOf(system_, first, &one);
  if (status.ok()) {
    status = InfoOf(system_, second, &other);
  }
  *same = status.ok() && !one.is_directory && !other.is_directory && one.file == other.file;
  return status;
}

IOStatus FileSystem::LockFile(const std::string& name, const IOOptions&, rocksdb::FileLock** lock, IODebugContext*) {
  *lock = nullptr;
  IOStatus status = ToStatus(zonda_bridge_lock(system_, Text(name)));
  if (status.ok()) {
    *lock = new Lock(name);
  }
  return status;
}

IOStatus FileSystem::UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) {
  const std::unique_ptr<Lock> ours(static_cast<Lock*>(lock));
  return ToStatus(zonda_bridge_unlock(system_, Text(ours->name)));
}

IOStatus FileSystem::GetTestDirectory(const IOOptions& options, std::string* path, IODebugContext* debug) {
  *path = "/test";
  return CreateDirIfMissing(*path, options, debug);
}

IOStatus FileSystem::GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                                     IODebugContext*) {
  *absolute = !path.empty() && path[0] == '/' ? path : "/" + path;
  return IOStatus::OK();
}

IOStatus FileSystem::GetFreeSpace(const std::string&, const IOOptions&, uint64_t* bytes, IODebugContext*) {
  *bytes = zonda_bridge_free_bytes(system_);
  return IOStatus::OK();
}

IOStatus FileSystem::IsDirectory(const std::string& path, const IOOptions&, bool* is_directory, IODebugContext*) {
  zonda_info info;
  IOStatus status = InfoOf(system_, path, &info);
  *is_directory = status.ok() && info.is_directory;
  return status;
}

}  // namespace zonda
