// The keys of a table that is not placed yet.
#pragma once

#include <string>

#include "rocksdb/file_system.h"

namespace zonda {

struct Keys {
  std::string smallest;
  std::string largest;
};

// First and last user key of the table called `name`, which was written to its end. False if they are not all there is: ranges of
// deletions reach further, and are not seen. Reads footer, index and two blocks from memory: a fraction of a millisecond.
bool KeysOf(const std::string& name, rocksdb::FileSystem* file_system, const rocksdb::Comparator* order, Keys* keys);

}  // namespace zonda
