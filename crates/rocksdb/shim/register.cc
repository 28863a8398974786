// Registers `zonda://` when the library is loaded. Nothing refers to this file: it is linked whole.

#include <cstdio>

#include "checks.h"
#include "file_system.h"
#include "rocksdb/utilities/object_registry.h"
#include "status.h"

namespace zonda {

namespace {

rocksdb::FileSystem* Open(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard, std::string* error) {
  zonda_system* system = nullptr;
  const IOStatus status = ToStatus(zonda_bridge_open(Text(uri), &system));
  if (!status.ok()) {
    *error = status.getState() != nullptr ? status.getState() : status.ToString();
    return nullptr;
  }
  guard->reset(new FileSystem(uri, system));
  return guard->get();
}

// Under a RocksDB that does not fit, the name stays known and every use of it says why: a name that nobody registered makes
// some of RocksDB's own tools crash.
rocksdb::FileSystem* Refuse(const std::string&, std::unique_ptr<rocksdb::FileSystem>*, std::string* error) {
  *error = WhyNotThisRocksDB();
  return nullptr;
}

bool Register() {
  const std::string why_not = WhyNotThisRocksDB();
  if (!why_not.empty()) {
    std::fprintf(stderr, "zonda: not loaded: %s\n", why_not.c_str());
  }
  // Whatever begins so, for the same reason: what is wrong with the rest of the name is then said.
  const auto pattern = rocksdb::ObjectLibrary::PatternEntry("zonda", false).AddSeparator(":", false);
  rocksdb::ObjectLibrary::Default()->AddFactory<rocksdb::FileSystem>(pattern, why_not.empty() ? Open : Refuse);
  return true;
}

[[maybe_unused]] const bool is_registered = Register();

}  // namespace

}  // namespace zonda
