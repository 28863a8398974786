#include "checks.h"

#include <cstring>
#include <new>

#include "rocksdb/file_system.h"
#include "rocksdb/options.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/version.h"

namespace zonda {

namespace {

constexpr unsigned char kPattern = 0xa5;

// Lets the library write a `T` into room for a larger one; whether it wrote exactly as many bytes as we think a `T` has.
// Build flags that change the layout of RocksDB's types (assertions of checked statuses, another standard library) show here.
template <typename T, typename Make>
bool HasOurSize(Make make) {
  alignas(std::max_align_t) unsigned char room[sizeof(T) + 256];
  std::memset(room, kPattern, sizeof room);
  T* made = make(room);
  bool is_untouched = true;
  for (size_t at = sizeof(T); at < sizeof room; at++) {
    is_untouched = is_untouched && room[at] == kPattern;
  }
  made->~T();
  return is_untouched;
}

// What the library's own constructor leaves in the last field that we know: its place says that all before it fit.
bool DBOptionsAgree() {
  return HasOurSize<rocksdb::DBOptions>([](void* room) {
    auto* options = new (room) rocksdb::DBOptions();
    return options;
  });
}

bool StatusesAgree() {
  return HasOurSize<rocksdb::IOStatus>([](void* room) {
    auto file_system = rocksdb::FileSystem::Default();
    // Returned in place by the library.
    return new (room) rocksdb::IOStatus(file_system->FileExists("", rocksdb::IOOptions(), nullptr));
  });
}

std::string VersionBuiltFor() {
  return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." + std::to_string(ROCKSDB_PATCH);
}

}  // namespace

std::string WhyNotThisRocksDB() {
  const std::string found = rocksdb::GetRocksVersionAsString(true);
  const std::string built = VersionBuiltFor();
  if (found != built) {
    return "built for RocksDB " + built + ", but this process has " + found;
  }
  if (!DBOptionsAgree() || !StatusesAgree()) {
    return "the RocksDB " + found + " of this process was built with other flags than its headers here say";
  }
  return "";
}

}  // namespace zonda
