/* Zonda under RocksDB: file systems on zones for programs that use RocksDB's C interface (rocksdb/c.h).
 *
 * Link with -lzonda_rocksdb -lrocksdb, or load libzonda_rocksdb.so with LD_PRELOAD and name file systems by URI alone.
 * C++ programs need nothing of this: rocksdb::Env::CreateFromUri(config, "", "zonda://...", &env, &guard).
 *
 * A URI is zonda://DEVICE?key=value&key=value; docs/rocksdb-operators.md says what devices and keys there are. All who name
 * one device in one process share it; another process is kept out by the device's lock. */
#ifndef ZONDA_ROCKSDB_H
#define ZONDA_ROCKSDB_H

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

/* Frees what the calls above returned. */
void zonda_rocksdb_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
