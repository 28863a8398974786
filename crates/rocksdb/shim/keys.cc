#include "keys.h"

#include <memory>

#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/table_properties.h"

namespace zonda {

bool KeysOf(const std::string& name, rocksdb::FileSystem* file_system, const rocksdb::Comparator* order, Keys* keys) {
  // The caller holds the file system.
  const std::shared_ptr<rocksdb::FileSystem> borrowed(file_system, [](rocksdb::FileSystem*) {});
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(borrowed);
  rocksdb::Options options;
  options.env = env.get();
  options.comparator = order;
  rocksdb::SstFileReader reader(options);
  if (!reader.Open(name).ok()) {
    return false;
  }
  const auto properties = reader.GetTableProperties();
  if (properties == nullptr || properties->num_range_deletions > 0) {
    return false;
  }
  const std::unique_ptr<rocksdb::Iterator> at(reader.NewIterator(rocksdb::ReadOptions()));
  at->SeekToFirst();
  if (!at->Valid()) {
    return false;
  }
  keys->smallest = at->key().ToString();
  at->SeekToLast();
  if (!at->Valid()) {
    return false;
  }
  keys->largest = at->key().ToString();
  return true;
}

}  // namespace zonda
