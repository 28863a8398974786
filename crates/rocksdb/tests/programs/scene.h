// What the programs with scenes share: they run one scene on a file system by name, and print nothing but the first thing that is
// wrong.
//
//   PROGRAM SCENE URI HOST_DIRECTORY
//
// The file system comes from libzonda_rocksdb.so, by LD_PRELOAD.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

using namespace rocksdb;

inline Env* env;
inline std::string host;

[[noreturn]] inline void Fail(int line, const std::string& what) {
  std::printf("line %d: %s\n", line, what.c_str());
  std::exit(1);
}

#define OK(expression)                                       \
  do {                                                       \
    const Status status_ = (expression);                     \
    if (!status_.ok()) Fail(__LINE__, status_.ToString());   \
  } while (0)
#define CHECK(condition)                        \
  do {                                          \
    if (!(condition)) Fail(__LINE__, #condition); \
  } while (0)

inline Options Small() {
  Options options;
  options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.compression = kNoCompression;
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 32 << 10;
  options.max_bytes_for_level_base = 128 << 10;
  options.max_bytes_for_level_multiplier = 4;
  return options;
}

inline std::string Key(int i) {
  char key[20];
  std::snprintf(key, sizeof key, "key%08d", i);
  return key;
}

inline std::string Value(int i, int round) { return std::to_string(i) + "/" + std::to_string(round) + std::string(90, 'v'); }

inline DB* Open(const Options& options, const std::string& path) {
  DB* db = nullptr;
  OK(DB::Open(options, path, &db));
  return db;
}

inline void Fill(DB* db, ColumnFamilyHandle* family, int from, int to, int round) {
  for (int i = from; i < to; i++) {
    // Not in the order of the keys, so that tables overlap.
    const int at = from + static_cast<int>((static_cast<int64_t>(i - from) * 7919) % (to - from));
    OK(db->Put(WriteOptions(), family, Key(at), Value(at, round)));
  }
}

inline void Expect(DB* db, ColumnFamilyHandle* family, int from, int to, int round) {
  for (int i = from; i < to; i++) {
    std::string value;
    OK(db->Get(ReadOptions(), family, Key(i), &value));
    if (value != Value(i, round)) Fail(__LINE__, Key(i) + " is " + value.substr(0, 20));
  }
}

// Values of some size go to blob files, in which nothing old is left by a compaction of everything.
inline Options WithBlobs(Options options) {
  options.enable_blob_files = true;
  options.min_blob_size = 64;
  options.blob_file_size = 64 << 10;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 1.0;
  return options;
}

// Ends without closing anything, as a crash does.
[[noreturn]] inline void Leave() {
  std::fflush(stdout);
  std::_Exit(0);
}

// Runs the scene that the command names, and unmounts what it leaves.
inline int Run(int count, char** arguments, const std::map<std::string, std::function<void()>>& scenes) {
  CHECK(count == 4);
  host = arguments[3];
  std::shared_ptr<Env> guard;
  OK(Env::CreateFromUri(ConfigOptions(), "", arguments[2], &env, &guard));
  scenes.at(arguments[1])();
  guard.reset();
  Leave();
}
