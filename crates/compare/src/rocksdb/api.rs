//! The part of RocksDB's C interface that is used, as `rocksdb/c.h` of 7.8 declares it.

use std::ffi::{c_char, c_double, c_int, c_uchar, c_void};

use crate::library::functions;

/// An object of the library.
pub(super) type Handle = *mut c_void;

/// Where a call puts a message that must be freed, or null.
pub(super) type Failure = *mut *mut c_char;

functions! {
    /// What is called.
    #[expect(non_snake_case, reason = "a function is found by its name, and one of them has capitals")]
    struct Functions {
        fn rocksdb_options_create() -> Handle;
        fn rocksdb_options_set_create_if_missing(Handle, c_uchar);
        fn rocksdb_options_set_error_if_exists(Handle, c_uchar);
        fn rocksdb_options_set_write_buffer_size(Handle, usize);
        fn rocksdb_options_set_max_write_buffer_number(Handle, c_int);
        fn rocksdb_options_set_target_file_size_base(Handle, u64);
        fn rocksdb_options_set_max_open_files(Handle, c_int);
        fn rocksdb_options_set_optimize_filters_for_hits(Handle, c_int);
        fn rocksdb_options_set_manual_wal_flush(Handle, c_uchar);
        fn rocksdb_options_set_max_background_jobs(Handle, c_int);
        fn rocksdb_options_set_compression(Handle, c_int);
        fn rocksdb_options_set_use_direct_reads(Handle, c_uchar);
        fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(Handle, c_uchar);
        fn rocksdb_block_based_options_create() -> Handle;
        fn rocksdb_block_based_options_set_block_cache(Handle, Handle);
        fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(Handle, c_uchar);
        fn rocksdb_block_based_options_set_filter_policy(Handle, Handle);
        fn rocksdb_block_based_options_set_index_type(Handle, c_int);
        fn rocksdb_block_based_options_set_partition_filters(Handle, c_uchar);
        fn rocksdb_block_based_options_set_metadata_block_size(Handle, u64);
        fn rocksdb_block_based_options_set_pin_top_level_index_and_filter(Handle, c_uchar);
        fn rocksdb_options_set_block_based_table_factory(Handle, Handle);
        fn rocksdb_cache_create_lru(usize) -> Handle;
        fn rocksdb_filterpolicy_create_bloom_full(c_double) -> Handle;
        fn rocksdb_open_column_families(
            Handle,
            *const c_char,
            c_int,
            *const *const c_char,
            *const Handle,
            *mut Handle,
            Failure,
        ) -> Handle;
        fn rocksdb_column_family_handle_destroy(Handle);
        fn rocksdb_close(Handle);
        fn rocksdb_writeoptions_create() -> Handle;
        fn rocksdb_writeoptions_set_sync(Handle, c_uchar);
        fn rocksdb_writeoptions_disable_WAL(Handle, c_int);
        fn rocksdb_readoptions_create() -> Handle;
        fn rocksdb_put(Handle, Handle, *const u8, usize, *const u8, usize, Failure);
        fn rocksdb_delete(Handle, Handle, *const u8, usize, Failure);
        fn rocksdb_get_pinned(Handle, Handle, *const u8, usize, Failure) -> Handle;
        fn rocksdb_batched_multi_get_cf(
            Handle,
            Handle,
            Handle,
            usize,
            *const *const u8,
            *const usize,
            *mut Handle,
            *mut *mut c_char,
            bool,
        );
        fn rocksdb_pinnableslice_value(Handle, *mut usize) -> *const u8;
        fn rocksdb_pinnableslice_destroy(Handle);
        fn rocksdb_create_iterator(Handle, Handle) -> Handle;
        fn rocksdb_iter_seek(Handle, *const u8, usize);
        fn rocksdb_iter_valid(Handle) -> c_uchar;
        fn rocksdb_iter_next(Handle);
        fn rocksdb_iter_key(Handle, *mut usize) -> *const u8;
        fn rocksdb_iter_value(Handle, *mut usize) -> *const u8;
        fn rocksdb_iter_get_error(Handle, Failure);
        fn rocksdb_iter_destroy(Handle);
        fn rocksdb_flushoptions_create() -> Handle;
        fn rocksdb_flush(Handle, Handle, Failure);
        fn rocksdb_flush_wal(Handle, c_uchar, Failure);
        fn rocksdb_free(*mut c_void);
    }
}
