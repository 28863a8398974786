// Writes until it is killed, and checks what is left.
//
//   writer write URI SEED           syncs some batches, and prints the number of each that it synced
//   writer write-unsynced URI SEED  syncs none, and prints the number of each that was acknowledged
//   writer verify URI SEED          prints the number of the last batch that is there
//
// Batch n puts one key and its number into two column families, at once. What survives is a prefix in the order of the batches.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/write_batch.h"

using namespace rocksdb;

static constexpr int kKeys = 3000;

[[noreturn]] static void Fail(const std::string& what) {
  std::printf("wrong: %s\n", what.c_str());
  std::exit(1);
}

static void Must(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

static std::string Key(uint64_t n) {
  char key[24];
  std::snprintf(key, sizeof key, "k%06llu", static_cast<unsigned long long>(n * 2654435761u % kKeys));
  return key;
}

static std::string Value(uint64_t n) { return std::to_string(n) + ":" + std::string(100 + n % 300, 'x'); }

static uint64_t Last(DB* db, ColumnFamilyHandle* family) {
  std::string value;
  const Status status = db->Get(ReadOptions(), family, "last", &value);
  if (status.IsNotFound()) return 0;
  Must(status);
  return std::stoull(value);
}

// Every key holds the newest value of the first `last` batches, and nothing else is there.
static void Verify(DB* db, ColumnFamilyHandle* family, uint64_t last) {
  std::vector<uint64_t> newest(kKeys, 0);
  for (uint64_t n = 1; n <= last; n++) newest[n * 2654435761u % kKeys] = n;
  std::unique_ptr<Iterator> at(db->NewIterator(ReadOptions(), family));
  uint64_t found = 0, expected = 0;
  for (uint64_t n : newest) expected += n != 0;
  for (at->Seek("k"); at->Valid() && at->key().starts_with("k"); at->Next(), found++) {
    const uint64_t n = newest[std::stoull(at->key().ToString().substr(1))];
    if (n == 0 || at->value() != Slice(Value(n))) Fail(at->key().ToString() + " of batch " + std::to_string(n));
  }
  Must(at->status());
  if (found != expected) Fail(std::to_string(found) + " keys of " + std::to_string(expected));
}

int main(int count, char** arguments) {
  if (count != 4) Fail("usage");
  Env* env = nullptr;
  std::shared_ptr<Env> guard;
  Must(Env::CreateFromUri(ConfigOptions(), "", arguments[2], &env, &guard));
  Options options;
  options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.compression = kNoCompression;
  options.write_buffer_size = 128 << 10;
  options.target_file_size_base = 64 << 10;
  options.max_bytes_for_level_base = 256 << 10;
  options.max_manifest_file_size = 16 << 10;
  // Every life leaves a LOG.
  options.keep_log_file_num = 2;
  std::vector<ColumnFamilyDescriptor> families = {{kDefaultColumnFamilyName, options}, {"other", options}};
  std::vector<ColumnFamilyHandle*> handles;
  DB* db = nullptr;
  Must(DB::Open(options, "/db", families, &handles, &db));
  const uint64_t last = Last(db, handles[0]);
  if (last != Last(db, handles[1])) Fail("half of batch " + std::to_string(last));
  Verify(db, handles[0], last);
  Verify(db, handles[1], last);
  if (std::string(arguments[1]) == "verify") {
    std::printf("%llu\n", static_cast<unsigned long long>(last));
    for (auto* handle : handles) Must(db->DestroyColumnFamilyHandle(handle));
    Must(db->Close());
    delete db;
    return 0;
  }
  const bool syncs = std::string(arguments[1]) == "write";
  uint64_t random = std::stoull(arguments[3]) * 2 + 1;
  for (uint64_t n = last + 1;; n++) {
    WriteBatch batch;
    for (auto* handle : handles) {
      Must(batch.Put(handle, Key(n), Value(n)));
      Must(batch.Put(handle, "last", std::to_string(n)));
    }
    random = random * 6364136223846793005u + 1442695040888963407u;
    WriteOptions write;
    write.sync = syncs && (random >> 33) % 16 == 0;
    Must(db->Write(write, &batch));
    if (write.sync || !syncs) {
      std::printf("%llu\n", static_cast<unsigned long long>(n));
      std::fflush(stdout);
    }
  }
}
