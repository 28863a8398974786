// Whether the librocksdb of this process is the one that this library was built for.
#pragma once

#include <string>

namespace zonda {

// Empty if it is; else why not, in one line.
std::string WhyNotThisRocksDB();

}  // namespace zonda
