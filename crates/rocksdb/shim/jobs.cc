#include "jobs.h"

#include <vector>

#include "rocksdb/db.h"
#include "status.h"

namespace zonda {

namespace {

uint8_t ReasonOf(rocksdb::TableFileCreationReason reason) {
  switch (reason) {
    case rocksdb::TableFileCreationReason::kFlush:
      return ZONDA_FLUSH;
    case rocksdb::TableFileCreationReason::kCompaction:
      return ZONDA_COMPACTION;
    case rocksdb::TableFileCreationReason::kRecovery:
      return ZONDA_RECOVERY;
    default:
      return ZONDA_OTHER;
  }
}

uint8_t ReasonOf(rocksdb::BlobFileCreationReason reason) {
  switch (reason) {
    case rocksdb::BlobFileCreationReason::kFlush:
      return ZONDA_FLUSH;
    case rocksdb::BlobFileCreationReason::kCompaction:
      return ZONDA_COMPACTION;
    case rocksdb::BlobFileCreationReason::kRecovery:
      return ZONDA_RECOVERY;
  }
  return ZONDA_OTHER;
}

// The names live as long as the call that told `info`.
template <typename Info>
zonda_job JobOf(rocksdb::DB* db, const Info& info) {
  return {Text(db->GetName()), Text(info.cf_name), info.cf_id, info.job_id};
}

}  // namespace

void JobListener::OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) {
  zonda_bridge_table_begun(watch_, Text(info.db_name), Text(info.cf_name), Text(info.file_path), info.job_id,
                           ReasonOf(info.reason));
}

void JobListener::OnBlobFileCreationStarted(const rocksdb::BlobFileCreationBriefInfo& info) {
  zonda_bridge_table_begun(watch_, Text(info.db_name), Text(info.cf_name), Text(info.file_path), info.job_id,
                           ReasonOf(info.reason));
}

void JobListener::OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  zonda_bridge_job_begun(watch_, JobOf(db, info), 0, nullptr, 0);
}

void JobListener::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  zonda_bridge_job_ended(watch_, JobOf(db, info));
}

void JobListener::OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  std::vector<uint64_t> inputs;
  inputs.reserve(info.input_file_infos.size());
  // Their `level` is the index of an input, not a level.
  for (const auto& input : info.input_file_infos) {
    inputs.push_back(input.file_number);
  }
  zonda_bridge_job_begun(watch_, JobOf(db, info), info.output_level, inputs.data(), inputs.size());
}

void JobListener::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  zonda_bridge_job_ended(watch_, JobOf(db, info));
}

void JobListener::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status*) {
  zonda_bridge_job_failed(watch_);
}

void JobListener::OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) {
  zonda_bridge_subcompaction_begun(watch_, info.job_id, info.output_level);
}

void JobListener::OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo&) {
  zonda_bridge_subcompaction_ended(watch_);
}

}  // namespace zonda
