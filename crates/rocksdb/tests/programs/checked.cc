// Preloaded before the plugin: a RocksDB that was built with ROCKSDB_ASSERT_STATUS_CHECKED, as far as one call shows it.

#include <memory>

// Of a header that only RocksDB's own sources have.
namespace rocksdb::port {
inline void PrintStack() {}
}  // namespace rocksdb::port

#include "rocksdb/file_system.h"

namespace rocksdb {

namespace {

struct Checked : FileSystemWrapper {
  Checked() : FileSystemWrapper(nullptr) {}
  const char* Name() const override { return "Checked"; }
  IOStatus FileExists(const std::string&, const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
};

}  // namespace

std::shared_ptr<FileSystem> FileSystem::Default() { return std::make_shared<Checked>(); }

}  // namespace rocksdb
