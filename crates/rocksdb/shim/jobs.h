// Tells the library which jobs run and which tables and blob files they begin.
#pragma once

#include "bridge.h"
#include "rocksdb/listener.h"

namespace zonda {

// Its name is empty, as the base says: so it is not written into OPTIONS files.
class JobListener final : public rocksdb::EventListener {
 public:
  // May outlive the file system: it stays in the options that a database was opened with.
  explicit JobListener(const zonda_system* system) : watch_(zonda_bridge_watch(system)) {}
  ~JobListener() override { zonda_bridge_free_watch(watch_); }

  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override;
  void OnBlobFileCreationStarted(const rocksdb::BlobFileCreationBriefInfo& info) override;
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  // The end of a flush that failed is told by no other call.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override;
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override;

 private:
  zonda_watch* const watch_;
};

}  // namespace zonda
