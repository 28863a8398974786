// A program that is linked with the plugin and uses one DBOptions for everything: several databases at once, another file system of ours,
// and RocksDB's own after ours is gone; and reads of a file together. Prints one line for each scene, or why it failed.

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
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

// Three reads of a file at once, the second without memory for what it reads.
void ReadTogether(rocksdb::Env* env) {
  Status status = rocksdb::WriteStringToFile(env, "0123456789", "/ten", true);
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  if (status.ok()) {
    status = env->GetFileSystem()->NewRandomAccessFile("/ten", rocksdb::FileOptions(), &file, nullptr);
  }
  if (!status.ok()) {
    std::printf("together: %s\n", status.ToString().c_str());
    return;
  }
  char first[4];
  char last[4];
  std::vector<rocksdb::FSReadRequest> requests(3);
  const std::vector<char*> into = {first, nullptr, last};
  for (size_t i = 0; i < requests.size(); i++) {
    requests[i].offset = 3 * i;
    requests[i].len = 4;
    requests[i].scratch = into[i];
  }
  status = file->MultiRead(requests.data(), requests.size(), rocksdb::IOOptions(), nullptr);
  std::printf("together: %s", status.ToString().c_str());
  for (const rocksdb::FSReadRequest& request : requests) {
    std::printf("; %s %s", request.status.ToString().c_str(), request.result.ToString().c_str());
  }
  std::printf("\n");
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
    ReadTogether(first.env);
  }
  options.env = rocksdb::Env::Default();
  Tell("after it", Use(options, directory + "/plain"), options);
  const Mounted second = Mount("zonda://file:" + directory + "/zones?create=64MiB");
  options.env = second.env;
  Tell("another", Use(options, "/db"), options);
  return 0;
}
