// A database whose compactions somebody else chooses, in plain C: for `zonda-db-bench`. RocksDB's public interface, nothing else.
// Where a call takes `error`, it is null or set to a message that is freed with zonda_driven_free; nothing throws.
#pragma once

#include "bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zonda_driven zonda_driven;

// A table as RocksDB's metadata has it.
typedef void (*zonda_driven_table)(void* context, int level, uint64_t number, uint64_t bytes, bool is_busy, zonda_text smallest,
                                   zonda_text largest);

// Opens or makes the database at `path` of the file system `uri`. `options` are `key=value;key=value`, database and column family
// together; with `is_automatic` false nothing is compacted but what zonda_driven_compact is told.
zonda_driven* zonda_driven_open(zonda_text uri, zonda_text path, zonda_text options, uint64_t cache_bytes, bool is_automatic,
                                char** error);
void zonda_driven_close(zonda_driven* database, char** error);
void zonda_driven_free(char* text);

void zonda_driven_put(zonda_driven* database, zonda_text key, zonda_text value, char** error);
// Whether the key is there.
bool zonda_driven_get(zonda_driven* database, zonda_text key, char** error);
// How many of at most `count` pairs from `key` on are there.
uint64_t zonda_driven_scan(zonda_driven* database, zonda_text key, uint64_t count, char** error);

// Level by level; level 0 newest first, the others by key.
void zonda_driven_levels(zonda_driven* database, zonda_driven_table each, void* context);
// CompactFiles on the calling thread. False, without an error, if RocksDB would not take these tables now.
bool zonda_driven_compact(zonda_driven* database, const uint64_t* numbers, size_t count, int level, uint64_t table_bytes,
                          char** error);
// A property that is a number, 0 if there is none; a property that is text, to be freed.
uint64_t zonda_driven_number(zonda_driven* database, zonda_text property);
char* zonda_driven_text(zonda_driven* database, zonda_text property);
// Flushes that have ended.
uint64_t zonda_driven_flushes(zonda_driven* database);

#ifdef __cplusplus
}
#endif
