// Prints the sizes of types of the headers here.

#include <cstdio>

#include "rocksdb/options.h"

int main() {
  using namespace rocksdb;
  std::printf("%zu %zu %zu\n", sizeof(DBOptions), sizeof(ColumnFamilyOptions), sizeof(EnvOptions));
}
