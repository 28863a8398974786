// Environments for RocksDB's C interface.

#include <cstdlib>
#include <cstring>
#include <memory>

#include "bridge.h"
#include "rocksdb/c.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "status.h"

namespace zonda {

namespace {

// What a rocksdb_env_t is, which c.h keeps to itself: the same in every version so far, and checked before it is used.
struct CEnvironment {
  rocksdb::Env* rep;
  bool is_default;
};

bool LayoutHolds() {
  rocksdb_env_t* probe = rocksdb_create_default_env();
  const auto* seen = reinterpret_cast<const CEnvironment*>(probe);
  const bool holds = seen->rep == rocksdb::Env::Default() && seen->is_default;
  rocksdb_env_destroy(probe);
  return holds;
}

char* Copy(const std::string& text) { return strdup(text.c_str()); }

}  // namespace

}  // namespace zonda

extern "C" void* zonda_shim_new_env(zonda_text uri, char** error) {
  if (!zonda::LayoutHolds()) {
    *error = zonda::Copy("this RocksDB has another rocksdb_env_t");
    return nullptr;
  }
  std::shared_ptr<rocksdb::FileSystem> file_system;
  const std::string name(uri.data, uri.length);
  const rocksdb::Status status = rocksdb::FileSystem::CreateFromString(rocksdb::ConfigOptions(), name, &file_system);
  if (!status.ok()) {
    *error = zonda::Copy(status.ToString());
    return nullptr;
  }
  // Destroyed by rocksdb_env_destroy, which deletes both.
  return new zonda::CEnvironment{rocksdb::NewCompositeEnv(file_system).release(), false};
}
