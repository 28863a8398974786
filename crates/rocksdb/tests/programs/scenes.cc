// What databases do, one scene a command: see scene.h.

#include <atomic>
#include <cstring>
#include <vector>

#include "rocksdb/listener.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/transaction_db.h"
#include "scene.h"

static void Families() {
  std::vector<ColumnFamilyDescriptor> families = {{kDefaultColumnFamilyName, Small()}, {"a", Small()}, {"b\xff", Small()}};
  families[2].options.compaction_style = kCompactionStyleUniversal;
  std::vector<ColumnFamilyHandle*> handles;
  DB* db = nullptr;
  OK(DB::Open(Small(), "/families", families, &handles, &db));
  for (int round = 0; round < 3; round++) {
    for (int family = 0; family < 3; family++) Fill(db, handles[family], 0, 4000, round * 10 + family);
  }
  OK(db->DropColumnFamily(handles[1]));
  for (auto* handle : handles) OK(db->DestroyColumnFamilyHandle(handle));
  OK(db->Close());
  delete db;
  handles.clear();
  families.erase(families.begin() + 1);
  OK(DB::Open(Small(), "/families", families, &handles, &db));
  Expect(db, handles[0], 0, 4000, 20);
  Expect(db, handles[1], 0, 4000, 22);
  for (auto* handle : handles) OK(db->DestroyColumnFamilyHandle(handle));
  OK(db->Close());
  delete db;
}

// Every flush is one of all families, until they differ in what they hold.
static void AtomicFlushes() {
  Options options = Small();
  options.atomic_flush = true;
  const std::vector<ColumnFamilyDescriptor> families = {
      {kDefaultColumnFamilyName, options}, {"a", options}, {"b", options}};
  std::vector<ColumnFamilyHandle*> handles;
  DB* db = nullptr;
  OK(DB::Open(options, "/atomic", families, &handles, &db));
  for (int round = 0; round < 3; round++) {
    for (auto* handle : handles) Fill(db, handle, 0, 300, round);
    OK(db->Flush(FlushOptions(), handles));
  }
  for (auto* handle : handles) Expect(db, handle, 0, 300, 2);
  for (auto* handle : handles) OK(db->DestroyColumnFamilyHandle(handle));
  OK(db->Close());
  delete db;
}

static void WriteTable(const std::string& path, int from, int to, int step, int round) {
  SstFileWriter writer(EnvOptions(), Small());
  OK(writer.Open(path));
  for (int i = from; i < to; i += step) OK(writer.Put(Key(i), Value(i, round)));
  OK(writer.Finish());
}

static void Ingest() {
  std::unique_ptr<DB> db(Open(Small(), "/ingest"));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 3000, 0);
  OK(env->CreateDirIfMissing("/tables"));
  for (int round = 1; round <= 4; round++) {
    const std::string path = "/tables/" + std::to_string(round) + ".sst";
    WriteTable(path, 500, 2500, 1, round);
    IngestExternalFileOptions options;
    options.move_files = round % 2 == 0;
    options.write_global_seqno = round < 3;
    options.failed_move_fall_back_to_copy = false;
    OK(db->IngestExternalFile({path}, options));
    Expect(db.get(), db->DefaultColumnFamily(), 500, 2500, round);
  }
  OK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  Expect(db.get(), db->DefaultColumnFamily(), 0, 500, 0);
  Expect(db.get(), db->DefaultColumnFamily(), 500, 2500, 4);
  OK(db->Close());
}

static void Checkpoints() {
  std::unique_ptr<DB> db(Open(Small(), "/checked"));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 3000, 0);
  Checkpoint* made = nullptr;
  OK(Checkpoint::Create(db.get(), &made));
  const std::unique_ptr<Checkpoint> checkpoint(made);
  // From files, and with a log that is copied.
  OK(checkpoint->CreateCheckpoint("/checkpoint1", 0));
  OK(checkpoint->CreateCheckpoint("/checkpoint2", 1 << 30));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 3000, 1);
  for (const char* path : {"/checkpoint1", "/checkpoint2"}) {
    std::unique_ptr<DB> beside(Open(Small(), path));
    Expect(beside.get(), beside->DefaultColumnFamily(), 0, 3000, 0);
    Fill(beside.get(), beside->DefaultColumnFamily(), 0, 100, 2);
    OK(beside->Close());
  }
  Expect(db.get(), db->DefaultColumnFamily(), 0, 3000, 1);
  OK(db->Close());
  OK(DestroyDB("/checkpoint1", Small()));
}

static void Backups() {
  std::unique_ptr<DB> db(Open(Small(), "/backed"));
  BackupEngineOptions options(host + "/backup", Env::Default());
  BackupEngine* made = nullptr;
  OK(BackupEngine::Open(env, options, &made));
  const std::unique_ptr<BackupEngine> engine(made);
  for (int round = 0; round < 2; round++) {
    Fill(db.get(), db->DefaultColumnFamily(), 0, 2000, round);
    OK(engine->CreateNewBackup(db.get(), round == 0));
  }
  OK(engine->VerifyBackup(2, true));
  OK(db->Close());
  OK(engine->RestoreDBFromBackup(1, "/restored", "/restored"));
  std::unique_ptr<DB> restored(Open(Small(), "/restored"));
  Expect(restored.get(), restored->DefaultColumnFamily(), 0, 2000, 0);
  OK(restored->Close());
}

static void Followers() {
  std::unique_ptr<DB> db(Open(Small(), "/primary"));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 2000, 0);
  OK(db->Flush(FlushOptions()));
  Options options = Small();
  options.max_open_files = -1;
  DB* opened = nullptr;
  // A compaction that ends meanwhile takes tables away that the MANIFEST as it was read names.
  OK(db->PauseBackgroundWork());
  OK(DB::OpenAsSecondary(options, "/primary", "/secondary", &opened));
  std::unique_ptr<DB> secondary(opened);
  Expect(secondary.get(), secondary->DefaultColumnFamily(), 0, 2000, 0);
  OK(db->ContinueBackgroundWork());
  for (int round = 1; round < 4; round++) {
    Fill(db.get(), db->DefaultColumnFamily(), 0, 2000, round);
    OK(db->FlushWAL(true));
    // A flush that ends while a secondary catches up, between MANIFEST and logs, hides the log's records from it.
    OK(db->PauseBackgroundWork());
    OK(secondary->TryCatchUpWithPrimary());
    Expect(secondary.get(), secondary->DefaultColumnFamily(), 0, 2000, round);
    OK(db->ContinueBackgroundWork());
  }
  // Nor does a compaction delete what a reader is about to open.
  OK(db->PauseBackgroundWork());
  OK(DB::OpenForReadOnly(Small(), "/primary", &opened));
  std::unique_ptr<DB> reader(opened);
  Expect(reader.get(), reader->DefaultColumnFamily(), 0, 2000, 3);
  CHECK(!reader->Put(WriteOptions(), "a", "b").ok());
  DB* second = nullptr;
  CHECK(!DB::Open(Small(), "/primary", &second).ok());
  OK(db->ContinueBackgroundWork());
  OK(reader->Close());
  OK(secondary->Close());
  OK(db->Close());
}

static TransactionDB* OpenTransactions() {
  TransactionDB* db = nullptr;
  OK(TransactionDB::Open(Small(), TransactionDBOptions(), "/transactions", &db));
  return db;
}

static void TwoPhases() {
  std::unique_ptr<TransactionDB> db(OpenTransactions());
  for (const char* name : {"kept", "undone", "open"}) {
    std::unique_ptr<Transaction> transaction(db->BeginTransaction(WriteOptions()));
    OK(transaction->SetName(name));
    OK(transaction->Put(std::string("of ") + name, "value"));
    if (std::strcmp(name, "open") != 0) OK(transaction->Prepare());
    transaction.release();
  }
  Fill(db.get(), db->DefaultColumnFamily(), 0, 3000, 0);
  OK(db->FlushWAL(true));
  // Nothing of the transactions was undone.
  db.release();
  Leave();
}

static void TwoPhasesAgain() {
  std::unique_ptr<TransactionDB> db(OpenTransactions());
  std::vector<Transaction*> prepared;
  db->GetAllPreparedTransactions(&prepared);
  CHECK(prepared.size() == 2);
  for (auto* transaction : prepared) {
    if (transaction->GetName() == "kept") {
      OK(transaction->Commit());
    } else {
      OK(transaction->Rollback());
    }
    delete transaction;
  }
  std::string value;
  OK(db->Get(ReadOptions(), "of kept", &value));
  CHECK(db->Get(ReadOptions(), "of undone", &value).IsNotFound());
  CHECK(db->Get(ReadOptions(), "of open", &value).IsNotFound());
  Expect(db.get(), db->DefaultColumnFamily(), 0, 3000, 0);
  OK(db->Close());
}

static void Limits() {
  Options options = Small();
  options.rate_limiter.reset(NewGenericRateLimiter(64 << 20, 100 * 1000, 10, RateLimiter::Mode::kAllIo));
  options.max_open_files = 100;
  options.target_file_size_base = 4 << 10;
  options.recycle_log_file_num = 2;
  options.max_subcompactions = 4;
  options.max_background_jobs = 4;
  options.bytes_per_sync = 16 << 10;
  options.strict_bytes_per_sync = true;
  std::unique_ptr<DB> db(Open(options, "/limits"));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 6000, 0);
  Fill(db.get(), db->DefaultColumnFamily(), 0, 6000, 1);
  Expect(db.get(), db->DefaultColumnFamily(), 0, 6000, 1);
  OK(db->SyncWAL());
  // A compaction that a user's thread runs by the names of its files.
  ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(&meta);
  std::vector<std::string> names;
  for (const auto& level : meta.levels) {
    for (const auto& file : level.files) names.push_back(file.name);
  }
  CHECK(names.size() > 20);
  const Status compacted = db->CompactFiles(CompactionOptions(), names, 6);
  CHECK(compacted.ok() || compacted.IsAborted() || compacted.IsInvalidArgument());
  OK(db->Close());
  db.reset(Open(options, "/limits"));
  Expect(db.get(), db->DefaultColumnFamily(), 0, 6000, 1);
  OK(db->Close());
}

static void Names() {
  auto fs = env->GetFileSystem();
  const IOOptions io;
  std::unique_ptr<FSRandomRWFile> in_place;
  CHECK(fs->NewRandomRWFile("/x", FileOptions(), &in_place, nullptr).IsNotSupported());
  OK(fs->CreateDirIfMissing("/n/a/m", io, nullptr));
  CHECK(!fs->CreateDir("/n/a", io, nullptr).ok());
  CHECK(fs->FileExists("/n/none", io, nullptr).IsNotFound());
  uint64_t number = 7;
  const IOStatus missing = fs->GetFileSize("/n/none", io, &number, nullptr);
  CHECK(missing.IsPathNotFound() && number == 0);
  // One of a file is tried again for ever where a compaction meets it.
  std::unique_ptr<FSRandomAccessFile> table;
  for (const char* name : {"/n/none", "/n/\xff"}) {
    const IOStatus refused = fs->NewRandomAccessFile(name, FileOptions(), &table, nullptr);
    CHECK(!refused.ok() && refused.GetScope() == IOStatus::kIOErrorScopeFileSystem);
  }
  std::vector<std::string> names;
  CHECK(fs->GetChildren("/none", io, &names, nullptr).IsNotFound());
  OK(WriteStringToFile(env, "some bytes", "/n/one", true));
  OK(fs->LinkFile("/n/one", "/n/two", io, nullptr));
  bool same = false;
  OK(fs->AreFilesSame("/n/one", "/n/two", io, &same, nullptr));
  CHECK(same);
  OK(fs->NumFileLinks("/n/two", io, &number, nullptr));
  CHECK(number == 2);
  OK(fs->Truncate("/n/two", 4, io, nullptr));
  std::string text;
  OK(ReadFileToString(env, "/n/one", &text));
  CHECK(text == "some");
  OK(WriteStringToFile(env, "others", "/n/three", true));
  OK(fs->RenameFile("/n/three", "/n/two", io, nullptr));
  OK(fs->NumFileLinks("/n/one", io, &number, nullptr));
  CHECK(number == 1);
  OK(fs->GetChildren("/n", io, &names, nullptr));
  CHECK(names == std::vector<std::string>({"a", "one", "two"}));
  std::vector<FileAttributes> children;
  OK(fs->GetChildrenFileAttributes("/n", io, &children, nullptr));
  CHECK(children.size() == 3 && children[2].size_bytes == 6);
  bool is_directory = false;
  OK(fs->IsDirectory("/n/a", io, &is_directory, nullptr));
  CHECK(is_directory);
  CHECK(!fs->DeleteDir("/n", io, nullptr).ok());
  OK(fs->DeleteDir("/n/a/m", io, nullptr));
  OK(fs->GetFileModificationTime("/n/one", io, &number, nullptr));
  CHECK(number > 1700000000);
  OK(fs->GetFreeSpace("/", io, &number, nullptr));
  CHECK(number > 0);
  std::string path;
  OK(fs->GetAbsolutePath("db", io, &path, nullptr));
  CHECK(path == "/db");
  FileLock* lock = nullptr;
  OK(fs->LockFile("/n/LOCK", io, &lock, nullptr));
  FileLock* second = nullptr;
  CHECK(!fs->LockFile("/n/LOCK", io, &second, nullptr).ok());
  CHECK(second == nullptr);
  OK(fs->UnlockFile(lock, io, nullptr));
  CHECK(fs->DeleteFile("/n/none", io, nullptr).IsPathNotFound());
}

// Counts blob files that compactions made, and those that were deleted.
class BlobFiles : public EventListener {
 public:
  void OnBlobFileCreated(const BlobFileCreationInfo& info) override {
    if (info.reason == BlobFileCreationReason::kCompaction) moved++;
  }
  void OnBlobFileDeleted(const BlobFileDeletionInfo&) override { deleted++; }

  std::atomic<int> moved{0}, deleted{0};
};

static void Blobs() {
  const auto seen = std::make_shared<BlobFiles>();
  Options options = WithBlobs(Small());
  options.listeners.push_back(seen);
  std::unique_ptr<DB> db(Open(options, "/blobs"));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 4000, 0);
  Fill(db.get(), db->DefaultColumnFamily(), 0, 2000, 1);
  OK(db->Flush(FlushOptions()));
  OK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  CHECK(seen->moved > 0 && seen->deleted > 0);
  for (int reopened = 0; reopened < 2; reopened++) {
    Expect(db.get(), db->DefaultColumnFamily(), 0, 2000, 1);
    Expect(db.get(), db->DefaultColumnFamily(), 2000, 4000, 0);
    OK(db->Close());
    db.reset();
    if (reopened == 0) db.reset(Open(options, "/blobs"));
  }
}

int main(int count, char** arguments) {
  return Run(count, arguments,
             {
                 {"families", Families},
                 {"atomic-flushes", AtomicFlushes},
                 {"ingest", Ingest},
                 {"checkpoints", Checkpoints},
                 {"backups", Backups},
                 {"followers", Followers},
                 {"two-phases", TwoPhases},
                 {"two-phases-again", TwoPhasesAgain},
                 {"limits", Limits},
                 {"names", Names},
                 {"blobs", Blobs},
             });
}
