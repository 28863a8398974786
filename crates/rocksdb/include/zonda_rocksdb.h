/* Zonda under RocksDB: file systems on zones for programs that use RocksDB's C interface (rocksdb/c.h).
 *
 * Link with -lzonda_rocksdb -lrocksdb, or load libzonda_rocksdb.so with LD_PRELOAD and name file systems by URI alone.
 * C++ programs need nothing of this: rocksdb::Env::CreateFromUri(config, "", "zonda://...", &env, &guard).
 *
 * A URI is zonda://DEVICE?key=value&key=value; docs/rocksdb-operators.md says what devices and keys there are. All who name
 * one device in one process share it; another process that would write it is kept out by the device's lock, and one that mounts it
 * with read_only=on is not. */
#ifndef ZONDA_ROCKSDB_H
#define ZONDA_ROCKSDB_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rocksdb_env_t;

/* An environment whose files are on the file system called `uri`, for rocksdb_options_set_env; destroyed with
 * rocksdb_env_destroy after every database that uses it was closed. Null on failure; `*error` is then one line, to be freed with
 * zonda_rocksdb_free. */
struct rocksdb_env_t* zonda_rocksdb_env_from_uri(const char* uri, char** error);

/* What is on the file system called `uri` and what was done to it since it was mounted, as one JSON object; it must be
 * mounted in this process, or is mounted for the call. Null on failure, as above. Freed with zonda_rocksdb_free. */
char* zonda_rocksdb_report(const char* uri, char** error);

/* Limits how much cleaning in the background copies on the file system called `uri`, in bytes per second, from now on; 0 for no
 * limit. It holds until the file system is unmounted, and does not slow down writers that wait for space. Returns 1; or 0 and an
 * error as above, if it is not mounted in this process or nothing cleans it in the background (clean_threshold=0, read_only=on). */
int zonda_rocksdb_set_clean_rate(const char* uri, uint64_t bytes_per_second, char** error);

/* Frees what the calls above returned. */
void zonda_rocksdb_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
