/* A database on zones with RocksDB's C interface.
 *
 *   cargo build --release -p zonda-rocksdb
 *   cc -I crates/rocksdb/include crates/rocksdb/examples/env.c -L target/release -lzonda_rocksdb -lrocksdb -o env
 *   LD_LIBRARY_PATH=target/release ./env 'zonda://file:/tmp/zones?create=1GiB'
 */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zonda_rocksdb.h>

static void must(char* error) {
  if (error != NULL) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
}

int main(int count, char** arguments) {
  const char* uri = count > 1 ? arguments[1] : "zonda://mem:?create=256MiB";
  char* error = NULL;
  rocksdb_env_t* env = zonda_rocksdb_env_from_uri(uri, &error);
  must(error);

  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_env(options, env);
  rocksdb_t* db = rocksdb_open(options, "/db", &error);
  must(error);

  rocksdb_writeoptions_t* synced = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(synced, 1);
  rocksdb_put(db, synced, "key", 3, "value", 5, &error);
  must(error);

  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  size_t length = 0;
  char* value = rocksdb_get(db, reads, "key", 3, &length, &error);
  must(error);
  printf("key = %.*s\n", (int)length, value);
  rocksdb_free(value);

  /* While the database is quiet, say. */
  zonda_rocksdb_set_clean_rate(uri, 32 << 20, &error);
  must(error);

  char* report = zonda_rocksdb_report(uri, &error);
  must(error);
  printf("%s\n", report);
  zonda_rocksdb_free(report);

  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(synced);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_env_destroy(env);
  return 0;
}
