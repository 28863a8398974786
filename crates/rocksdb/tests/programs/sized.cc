// Preloaded before the plugin: a RocksDB whose constructor SYMBOL makes something of BYTES, in memory that the plugin prepared to see it.

#include <dlfcn.h>

#include <cstring>

extern "C" void construct(void* room) asm(SYMBOL);

void construct(void* room) {
  if (std::memcmp(room, "\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5", 8) == 0) {
    std::memset(room, 0, BYTES);
  } else {
    reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, SYMBOL))(room);
  }
}
