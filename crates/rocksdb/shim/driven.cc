#include "driven.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "rocksdb/metadata.h"
#include "rocksdb/table.h"
#include "status.h"

namespace zonda {

namespace {

// Counts flushes; has no name, so that it is not written into the OPTIONS file.
class FlushCount : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { count.fetch_add(1, std::memory_order_release); }

  std::atomic<uint64_t> count{0};
};

rocksdb::Slice Of(zonda_text text) { return rocksdb::Slice(text.data, text.length); }

bool Failed(const rocksdb::Status& status, char** error) {
  *error = status.ok() ? nullptr : strdup(status.ToString().c_str());
  return !status.ok();
}

rocksdb::Status OptionsOf(zonda_text text, uint64_t cache_bytes, rocksdb::Options* options) {
  const rocksdb::Status status =
      rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), rocksdb::Options(), Of(text).ToString(), options);
  // Tables of another kind have no such cache.
  if (auto* tables = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>()) {
    tables->block_cache = tables->no_block_cache ? nullptr : rocksdb::NewLRUCache(cache_bytes);
  }
  options->create_if_missing = true;
  return status;
}

}  // namespace

}  // namespace zonda

struct zonda_driven {
  // Closed in the order from the last to the first.
  std::shared_ptr<rocksdb::Env> guard;
  std::shared_ptr<zonda::FlushCount> flushes;
  std::unique_ptr<rocksdb::DB> db;
};

extern "C" {

zonda_driven* zonda_driven_open(zonda_text uri, zonda_text path, zonda_text words, uint64_t cache_bytes, bool is_automatic,
                                char** error) {
  auto made = std::make_unique<zonda_driven>();
  rocksdb::Options options;
  if (zonda::Failed(zonda::OptionsOf(words, cache_bytes, &options), error)) {
    return nullptr;
  }
  const std::string name(uri.data, uri.length);
  if (!name.empty()) {
    rocksdb::Env* env = nullptr;
    if (zonda::Failed(rocksdb::Env::CreateFromUri(rocksdb::ConfigOptions(), "", name, &env, &made->guard), error)) {
      return nullptr;
    }
    options.env = env;
  }
  options.disable_auto_compactions = !is_automatic;
  made->flushes = std::make_shared<zonda::FlushCount>();
  options.listeners.push_back(made->flushes);
  rocksdb::DB* db = nullptr;
  if (zonda::Failed(rocksdb::DB::Open(options, zonda::Of(path).ToString(), &db), error)) {
    return nullptr;
  }
  made->db.reset(db);
  return made.release();
}

void zonda_driven_close(zonda_driven* database, char** error) {
  const std::unique_ptr<zonda_driven> owned(database);
  zonda::Failed(owned->db->Close(), error);
}

void zonda_driven_free(char* text) { std::free(text); }

void zonda_driven_put(zonda_driven* database, zonda_text key, zonda_text value, char** error) {
  zonda::Failed(database->db->Put(rocksdb::WriteOptions(), zonda::Of(key), zonda::Of(value)), error);
}

bool zonda_driven_get(zonda_driven* database, zonda_text key, char** error) {
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      database->db->Get(rocksdb::ReadOptions(), database->db->DefaultColumnFamily(), zonda::Of(key), &value);
  if (status.IsNotFound()) {
    *error = nullptr;
    return false;
  }
  return !zonda::Failed(status, error);
}

uint64_t zonda_driven_scan(zonda_driven* database, zonda_text key, uint64_t count, char** error) {
  const std::unique_ptr<rocksdb::Iterator> at(database->db->NewIterator(rocksdb::ReadOptions()));
  uint64_t found = 0;
  for (at->Seek(zonda::Of(key)); found < count && at->Valid(); at->Next()) {
    found++;
  }
  zonda::Failed(at->status(), error);
  return found;
}

void zonda_driven_levels(zonda_driven* database, zonda_driven_table each, void* context) {
  rocksdb::ColumnFamilyMetaData metadata;
  database->db->GetColumnFamilyMetaData(&metadata);
  for (const auto& level : metadata.levels) {
    for (const auto& table : level.files) {
      each(context, level.level, table.file_number, table.size, table.being_compacted, zonda::Text(table.smallestkey),
           zonda::Text(table.largestkey));
    }
  }
}

bool zonda_driven_compact(zonda_driven* database, const uint64_t* numbers, size_t count, int level, uint64_t table_bytes,
                          char** error) {
  std::vector<std::string> names;
  names.reserve(count);
  for (size_t i = 0; i < count; i++) {
    char name[32];
    std::snprintf(name, sizeof name, "/%06llu.sst", static_cast<unsigned long long>(numbers[i]));
    names.emplace_back(name);
  }
  rocksdb::CompactionOptions options;
  // That of the database's own options.
  options.compression = rocksdb::kDisableCompressionOption;
  options.output_file_size_limit = table_bytes;
  const rocksdb::Status status = database->db->CompactFiles(options, names, level);
  // Tables that RocksDB adds to the inputs may be in another compaction, or the tables may be gone.
  if (status.IsAborted() || status.IsInvalidArgument()) {
    *error = nullptr;
    return false;
  }
  return !zonda::Failed(status, error);
}

uint64_t zonda_driven_number(zonda_driven* database, zonda_text property) {
  uint64_t number = 0;
  return database->db->GetIntProperty(zonda::Of(property), &number) ? number : 0;
}

char* zonda_driven_text(zonda_driven* database, zonda_text property) {
  std::string text;
  database->db->GetProperty(zonda::Of(property), &text);
  return strdup(text.c_str());
}

uint64_t zonda_driven_flushes(zonda_driven* database) { return database->flushes->count.load(std::memory_order_acquire); }

}  // extern "C"
