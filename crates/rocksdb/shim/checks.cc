#include "checks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "rocksdb/file_system.h"
#include "rocksdb/options.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/version.h"

namespace zonda {

namespace {

constexpr unsigned char kPattern = 0xa5;
constexpr size_t kMore = 256;

// Lets the library construct a `T` in room for a larger one, and looks how far it wrote. What it made is destroyed only if it is a `T`.
template <typename T, typename Make>
std::string WhyNotOurs(const char* name, Make make) {
  alignas(std::max_align_t) unsigned char room[sizeof(T) + kMore];
  std::memset(room, kPattern, sizeof room);
  T* made = make(room);
  const auto is_written = [](unsigned char byte) { return byte != kPattern; };
  if (std::any_of(room + sizeof(T), room + sizeof room, is_written)) {
    return std::string(name) + " is larger";
  }
  // The last field is in the last word.
  if (std::none_of(room + sizeof(T) - alignof(T), room + sizeof(T), is_written)) {
    return std::string(name) + " is smaller";
  }
  made->~T();
  return "";
}

template <typename T>
std::string WhyNotOurs(const char* name) {
  return WhyNotOurs<T>(name, [](void* room) { return new (room) T(); });
}

// Types whose constructors are in the library, by what changes their sizes:
// - `DBOptions`: ROCKSDB_LITE, and the debugging containers of the standard library, which the others have too;
// - `IOStatus`: ROCKSDB_ASSERT_STATUS_CHECKED;
// - all: another version that says it is ours.
// What no size shows: without RTTI, and with the old strings of the standard library, the library lacks symbols that we need, so that the
// loader refuses us. NDEBUG and thread status change no type of the headers.
std::string WhyLayoutsDiffer() {
  const auto status = [](void* room) {
    const auto file_system = rocksdb::FileSystem::Default();
    return new (room) rocksdb::IOStatus(file_system->FileExists("", rocksdb::IOOptions(), nullptr));
  };
  for (const std::string& why_not :
       {WhyNotOurs<rocksdb::DBOptions>("DBOptions"), WhyNotOurs<rocksdb::ColumnFamilyOptions>("ColumnFamilyOptions"),
        WhyNotOurs<rocksdb::EnvOptions>("EnvOptions"), WhyNotOurs<rocksdb::IOStatus>("IOStatus", status)}) {
    if (!why_not.empty()) {
      return why_not;
    }
  }
  return "";
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
  const std::string why_not = WhyLayoutsDiffer();
  if (!why_not.empty()) {
    return "the RocksDB " + found + " of this process was built with other flags than its headers here say: its " + why_not;
  }
  return "";
}

}  // namespace zonda
