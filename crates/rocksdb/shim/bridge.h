// The plain C calls between the C++ shim and the Rust library. Both sides are built together: this is no interface for others.
// Text has a length and no NUL. Nothing throws or panics across.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zonda_system zonda_system;
typedef struct zonda_watch zonda_watch;
typedef struct zonda_writable zonda_writable;
typedef struct zonda_readable zonda_readable;

typedef struct {
  const char* data;
  size_t length;
} zonda_text;

// 0, or a kind of failure::Kind. `message` is freed with zonda_bridge_free_message.
typedef struct {
  uint8_t kind;
  bool is_retryable;
  char* message;
} zonda_outcome;

enum {
  ZONDA_OK = 0,
  ZONDA_NOT_FOUND = 1,
  ZONDA_NO_SPACE = 2,
  ZONDA_BUSY = 3,
  ZONDA_CORRUPTION = 4,
  ZONDA_NOT_SUPPORTED = 5,
  ZONDA_INVALID_ARGUMENT = 6,
  ZONDA_STALE = 7,
  ZONDA_IO = 8,
};

typedef struct {
  bool is_directory;
  uint64_t file;
  uint64_t size_bytes;
  uint64_t links;
  uint64_t modified_seconds;
} zonda_info;

// A flush or compaction of one column family. An atomic flush has one number for several of them.
typedef struct {
  zonda_text database;
  zonda_text family;
  uint32_t family_number;
  int number;
} zonda_job;

enum { ZONDA_FLUSH = 0, ZONDA_COMPACTION = 1, ZONDA_RECOVERY = 2, ZONDA_OTHER = 3 };

void zonda_bridge_free_message(char* message);

zonda_outcome zonda_bridge_open(zonda_text uri, zonda_system** system);
void zonda_bridge_close(zonda_system* system);

zonda_outcome zonda_bridge_create(const zonda_system*, zonda_text path, zonda_writable** file);
zonda_outcome zonda_bridge_append_to(const zonda_system*, zonda_text path, zonda_writable** file);
zonda_outcome zonda_bridge_reuse(const zonda_system*, zonda_text path, zonda_text old, zonda_writable** file);
zonda_outcome zonda_bridge_append(const zonda_writable*, const char* data, size_t length);
zonda_outcome zonda_bridge_write_at(const zonda_writable*, uint64_t offset, const char* data, size_t length);
zonda_outcome zonda_bridge_truncate_open(const zonda_writable*, uint64_t size);
zonda_outcome zonda_bridge_flush(const zonda_writable*);
zonda_outcome zonda_bridge_sync(const zonda_writable*);
zonda_outcome zonda_bridge_close_file(const zonda_writable*);
uint64_t zonda_bridge_written(const zonda_writable*);
zonda_outcome zonda_bridge_set_lifetime(const zonda_writable*, uint8_t hint);
// Whether the table waits for its keys before it is placed: 0 no, 1 bytewise, 2 reverse bytewise.
uint8_t zonda_bridge_wants_keys(const zonda_writable*);
zonda_outcome zonda_bridge_describe_keys(const zonda_writable*, zonda_text smallest, zonda_text largest);
// Refuses a database whose levels move (level_compaction_dynamic_level_bytes) under a policy that counts them.
zonda_outcome zonda_bridge_check_levels(const zonda_system*, bool levels_move);
// Whether tables of this file system wait for their keys.
bool zonda_bridge_places_by_keys(const zonda_system*);
void zonda_bridge_free_writable(zonda_writable*);

zonda_outcome zonda_bridge_read_file(const zonda_system*, zonda_text path, zonda_readable** file);
// Who reads: a user, a compaction, or the shim, which looks for the keys of a table that is not placed yet.
enum { ZONDA_READ_BY_USER = 0, ZONDA_READ_BY_COMPACTION = 1, ZONDA_READ_FOR_KEYS = 2 };
zonda_outcome zonda_bridge_read(const zonda_readable*, uint64_t offset, char* into, size_t length, uint8_t who,
                                size_t* read);
// One of several reads: `read` is how much of `into` was filled.
typedef struct {
  uint64_t offset;
  char* into;
  size_t length;
  size_t read;
} zonda_many_read;
// After an error nothing is known of any of them.
zonda_outcome zonda_bridge_read_many(const zonda_readable*, zonda_many_read* reads, size_t count, uint8_t who);
uint64_t zonda_bridge_readable_size(const zonda_readable*);
uint64_t zonda_bridge_readable_id(const zonda_readable*);
void zonda_bridge_free_readable(zonda_readable*);

typedef void (*zonda_each)(void* context, zonda_text name, const zonda_info* info);

zonda_outcome zonda_bridge_info(const zonda_system*, zonda_text path, zonda_info* info);
zonda_outcome zonda_bridge_list(const zonda_system*, zonda_text directory, zonda_each each, void* context);
zonda_outcome zonda_bridge_make_directory(const zonda_system*, zonda_text path);
zonda_outcome zonda_bridge_make_directories(const zonda_system*, zonda_text path);
zonda_outcome zonda_bridge_remove_directory(const zonda_system*, zonda_text path);
zonda_outcome zonda_bridge_remove(const zonda_system*, zonda_text path);
zonda_outcome zonda_bridge_rename(const zonda_system*, zonda_text from, zonda_text to);
zonda_outcome zonda_bridge_link(const zonda_system*, zonda_text from, zonda_text to);
zonda_outcome zonda_bridge_truncate(const zonda_system*, zonda_text path, uint64_t size);
zonda_outcome zonda_bridge_sync_directory(const zonda_system*, bool names_a_synced_file);
zonda_outcome zonda_bridge_lock(const zonda_system*, zonda_text path);
zonda_outcome zonda_bridge_unlock(const zonda_system*, zonda_text path);
uint64_t zonda_bridge_free_bytes(const zonda_system*);

// Tells the file system what its databases do, as long as it is mounted; later it hears nothing.
zonda_watch* zonda_bridge_watch(const zonda_system*);
void zonda_bridge_free_watch(zonda_watch*);

// Of a blob file too.
void zonda_bridge_table_begun(const zonda_watch*, zonda_text database, zonda_text family, zonda_text path, int job,
                              uint8_t reason);
// A compaction, or with no inputs a flush; on the thread that will run it.
void zonda_bridge_job_begun(const zonda_watch*, zonda_job, int output_level, const uint64_t* inputs,
                            size_t input_count);
void zonda_bridge_job_ended(const zonda_watch*, zonda_job);
// An error of a database is told on this thread.
void zonda_bridge_job_failed(const zonda_watch*);
void zonda_bridge_subcompaction_begun(const zonda_watch*, int job, int output_level);
void zonda_bridge_subcompaction_ended(const zonda_watch*);

// From Rust to C++: a rocksdb_env_t on the file system of this name, or null and the reason, freed with free().
void* zonda_shim_new_env(zonda_text uri, char** error);

#ifdef __cplusplus
}
#endif
