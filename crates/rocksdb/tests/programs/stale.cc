// Opens a database for reading, reads as far as the first table goes, waits until something comes from stdin, and reads on: PROGRAM URI.
// Prints how many keys it saw before and in all, and how the iterator ended. The file system comes from libzonda_rocksdb.so, by LD_PRELOAD.

#include <algorithm>

#include "scene.h"

int main(int count, char** arguments) {
  CHECK(count == 2);
  std::shared_ptr<Env> guard;
  OK(Env::CreateFromUri(ConfigOptions(), "", arguments[1], &env, &guard));
  Options options;
  options.env = env;
  DB* opened = nullptr;
  OK(DB::OpenForReadOnly(options, "/db", &opened));
  const std::unique_ptr<DB> db(opened);
  std::vector<LiveFileMetaData> tables;
  db->GetLiveFilesMetaData(&tables);
  const auto first = std::min_element(tables.begin(), tables.end(),
                                      [](const auto& a, const auto& b) { return a.smallestkey < b.smallestkey; });
  CHECK(first != tables.end());
  const std::unique_ptr<Iterator> at(db->NewIterator({}));
  int seen = 1;
  for (at->SeekToFirst(); at->Valid() && at->key() != first->largestkey; at->Next()) seen++;
  CHECK(at->Valid());
  std::printf("%d before\n", seen);
  std::fflush(stdout);
  CHECK(std::getchar() != EOF);
  for (at->Next(); at->Valid(); at->Next()) seen++;
  std::printf("%d keys, %s\n", seen, at->status().ToString().c_str());
}
