// Preloaded before the plugin: a RocksDB that says it is another version than the plugin was built for.

#include <string>

namespace rocksdb {

std::string GetRocksVersionAsString(bool) { return "0.0.1"; }

}  // namespace rocksdb
