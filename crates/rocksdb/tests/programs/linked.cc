// A program that is linked with the plugin and uses one DBOptions for everything: several databases at once, another file system of ours,
// and RocksDB's own after ours is gone. Prints one line for each scene, or why it failed.

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"

namespace {

using rocksdb::DB;
using rocksdb::Status;

// An environment and what holds its file system.
struct Mounted {
  std::shared_ptr<rocksdb::Env> guard;
  rocksdb::Env* env = nullptr;
};

Mounted Mount(const std::string& uri) {
  Mounted mounted;
  const Status status = rocksdb::Env::CreateFromUri(rocksdb::ConfigOptions(), "", uri, &mounted.env, &mounted.guard);
  if (!status.ok()) {
    std::printf("%s: %s\n", uri.c_str(), status.ToString().c_str());
    std::exit(1);
  }
  return mounted;
}

// Writes, flushes, compacts and reads a database.
Status Use(const rocksdb::DBOptions& options, const std::string& name, const rocksdb::ColumnFamilyOptions& family = {}) {
  DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  Status status = DB::Open(options, name, {{rocksdb::kDefaultColumnFamilyName, family}}, &families, &db);
  if (!status.ok()) {
    return status;
  }
  const std::unique_ptr<DB> owned(db);
  for (int round = 0; round < 2 && status.ok(); round++) {
    status = db->Put({}, "key", "value " + std::to_string(round));
    if (status.ok()) {
      status = db->Flush({});
    }
  }
  if (status.ok()) {
    status = db->CompactRange({}, nullptr, nullptr);
  }
  std::string value;
  if (status.ok()) {
    status = db->Get({}, "key", &value);
  }
  db->DestroyColumnFamilyHandle(families[0]);
  return status;
}

void Tell(const char* scene, const Status& status, const rocksdb::DBOptions& options) {
  std::printf("%s: %s, %zu listeners\n", scene, status.ToString().c_str(), options.listeners.size());
}

}  // namespace

int main(int, char** arguments) {
  const std::string directory = arguments[1];
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  {
    const Mounted first = Mount("zonda://mem:?create=256MiB&active_zones=14");
    options.env = first.env;
    std::vector<std::thread> threads;
    std::vector<Status> found(4);
    for (size_t i = 0; i < found.size(); i++) {
      threads.emplace_back([&, i] { found[i] = Use(options, "/db" + std::to_string(i)); });
    }
    Status all;
    for (size_t i = 0; i < found.size(); i++) {
      threads[i].join();
      all = all.ok() ? found[i] : all;
    }
    Tell("at once", all, options);
    rocksdb::DBOptions mapped = options;
    mapped.allow_mmap_reads = true;
    Tell("mapped", Use(mapped, "/mapped"), mapped);
    rocksdb::ColumnFamilyOptions plain;
    plain.table_factory.reset(rocksdb::NewPlainTableFactory());
    plain.prefix_extractor.reset(rocksdb::NewNoopTransform());
    Tell("mapped plain tables", Use(mapped, "/plain", plain), mapped);
  }
  options.env = rocksdb::Env::Default();
  Tell("after it", Use(options, directory + "/plain"), options);
  const Mounted second = Mount("zonda://file:" + directory + "/zones?create=64MiB");
  options.env = second.env;
  Tell("another", Use(options, "/db"), options);
  return 0;
}
