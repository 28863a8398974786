// Full devices, one scene a command: see scene.h. What is refused is refused without harm; once there is room work goes on, with
// nothing opened anew.

#include <atomic>
#include <string>

#include "rocksdb/listener.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/utilities/checkpoint.h"
#include "scene.h"

static Options Tight() {
  Options options = Small();
  options.write_buffer_size = 256 << 10;
  options.target_file_size_base = 256 << 10;
  options.max_bytes_for_level_base = 1 << 20;
  return options;
}

// Writes keys in order until one is refused, and returns how many were not: the one that was may or may not be there.
static int FillUp(DB* db, int round, const WriteOptions& write = WriteOptions()) {
  Status status;
  int written = 0;
  for (; written < 1000000 && status.ok(); written++) {
    status = db->Put(write, Key(written), Value(written, round));
  }
  if (!status.IsNoSpace() && !status.IsIOError()) Fail(__LINE__, std::to_string(written) + " written: " + status.ToString());
  return written - 1;
}

// Half of what the device holds, so that what is given back is enough for a compaction of all the rest: RocksDB may need one before it
// takes writes again.
static constexpr int kHalf = 50000;

// In the order of the keys: nothing is merged.
static void FillHalf(DB* db) {
  for (int i = 0; i < kHalf; i++) OK(db->Put(WriteOptions(), Key(i), Value(i, 0)));
}

// Makes room; then writes are taken again, with nothing opened anew. `resumes`: by Resume(), else by RocksDB itself.
static void MakeRoom(DB* db, int key, const std::function<void()>& make_room, bool resumes) {
  uint64_t free_before = 0, free_after = 0;
  OK(env->GetFreeSpace("/", &free_before));
  make_room();
  Status status;
  bool has_room = false;
  for (int attempt = 0; attempt < 600; attempt++) {
    // RocksDB may delete files a little later.
    OK(env->GetFreeSpace("/", &free_after));
    has_room = has_room || free_after > free_before;
    if (resumes) db->Resume().PermitUncheckedError();
    status = db->Put(WriteOptions(), Key(key), Value(key, 2));
    if (status.ok()) break;
    env->SleepForMicroseconds(100000);
  }
  OK(status);
  CHECK(has_room);
}

static Options Managed(Options options) {
  options.sst_file_manager.reset(NewSstFileManager(env, nullptr, "", 0, true, nullptr, 1.0));
  return options;
}

// Keys from `from` up to `to` are as FillUp wrote them, and `to` as MakeRoom did; so they are after another opening.
static void Ends(std::unique_ptr<DB> db, const Options& options, int from, int to) {
  for (int reopened = 0; reopened < 2; reopened++) {
    Expect(db.get(), db->DefaultColumnFamily(), from, to, 1);
    Expect(db.get(), db->DefaultColumnFamily(), to, to + 1, 2);
    if (reopened == 0) OK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
    OK(db->Close());
    db.reset();
    if (reopened == 0) db.reset(Open(options, "/full"));
  }
}

// RocksDB goes on by Resume(), or finds out by itself: its SstFileManager asks for the free space.
enum class By { kResume, kManager };

static Options Going(By by, const Options& options) { return by == By::kManager ? Managed(options) : options; }

// A device that holds one database and not two; the other one goes.
static void OtherGoes(By by, const Options& base, bool syncs = false) {
  std::unique_ptr<DB> other(Open(base, "/other"));
  FillHalf(other.get());
  OK(other->Close());
  const Options options = Going(by, base);
  std::unique_ptr<DB> db(Open(options, "/full"));
  // It is flushes that are refused where there are blob files, not logs.
  WriteOptions write;
  write.disableWAL = base.enable_blob_files;
  write.sync = syncs;
  const int kept = FillUp(db.get(), 1, write);
  MakeRoom(db.get(), kept, [&] { OK(DestroyDB("/other", base)); }, by == By::kResume);
  Ends(std::move(db), options, 0, kept);
}

// A checkpoint holds what the database has let go since, and is dropped.
static void CheckpointGoes(By by) {
  const Options options = Going(by, Tight());
  std::unique_ptr<DB> db(Open(options, "/full"));
  FillHalf(db.get());
  Checkpoint* made = nullptr;
  OK(Checkpoint::Create(db.get(), &made));
  const std::unique_ptr<Checkpoint> checkpoint(made);
  // Tables of level 0 are not deleted by their range.
  OK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  OK(checkpoint->CreateCheckpoint("/checkpoint"));
  OK(DeleteFilesInRange(db.get(), db->DefaultColumnFamily(), nullptr, nullptr));
  const int kept = FillUp(db.get(), 1);
  MakeRoom(db.get(), kept, [&] { OK(DestroyDB("/checkpoint", Tight())); }, by == By::kResume);
  Ends(std::move(db), options, 0, kept);
}

// The tables of most keys are deleted whole.
static void RangeGoes(By by, bool syncs = false) {
  const Options options = Going(by, Tight());
  std::unique_ptr<DB> db(Open(options, "/full"));
  WriteOptions write;
  write.sync = syncs;
  const int kept = FillUp(db.get(), 1, write);
  const std::string first = Key(0), last = Key(kept / 4 * 3);
  const Slice begin = first, end = last;
  MakeRoom(db.get(), kept, [&] { OK(DeleteFilesInRange(db.get(), db->DefaultColumnFamily(), &begin, &end)); },
           by == By::kResume);
  Ends(std::move(db), options, kept / 4 * 3 + 1, kept);
}

// The errors that a database had in the background.
class Errors : public EventListener {
 public:
  void OnBackgroundError(BackgroundErrorReason reason, Status* status) override {
    if (reason != BackgroundErrorReason::kCompaction || status->severity() != Status::kSoftError) {
      Fail(__LINE__, status->ToString() + " for " + std::to_string(static_cast<int>(reason)));
    }
    seen++;
  }

  std::atomic<int> seen{0};
};

// Logs of a few records each: where the device is full it is often the first one of a log that finds no room. `syncs`: each of them is
// durable before the next. The manager looks every five seconds whether there is room: it gets fewer sizes.
static void FewRecords(By by, bool syncs) {
  Options options = Going(by, Tight());
  options.write_buffer_size = 64 << 10;
  WriteOptions write;
  write.sync = syncs;
  for (int kib = 3; kib < 45; kib += by == By::kManager ? 12 : 3) {
    const std::string value(kib << 10, 'w');
    std::unique_ptr<WritableFile> crowd;
    OK(env->NewWritableFile("/crowd", &crowd, EnvOptions()));
    OK(crowd->Append(std::string(7 << 20, 'c')));
    OK(crowd->Close());
    std::unique_ptr<DB> db(Open(options, "/few"));
    int kept = 0;
    Status status;
    while ((status = db->Put(write, Key(kept), value)).ok()) kept++;
    if (!status.IsNoSpace()) Fail(__LINE__, std::to_string(kib) + " KiB: " + status.ToString());
    OK(env->DeleteFile("/crowd"));
    for (int attempt = 0; attempt < 600; attempt++) {
      if (by == By::kResume) db->Resume().PermitUncheckedError();
      status = db->Put(write, Key(kept), value);
      if (status.ok()) break;
      env->SleepForMicroseconds(100000);
    }
    if (!status.ok()) Fail(__LINE__, std::to_string(kib) + " KiB, " + std::to_string(kept) + " kept: " + status.ToString());
    for (int reopened = 0; reopened < 2; reopened++) {
      std::string read;
      for (int i = 0; i <= kept; i++) {
        OK(db->Get(ReadOptions(), Key(i), &read));
        CHECK(read == value);
      }
      OK(db->Close());
      db.reset(reopened == 0 ? Open(options, "/few") : nullptr);
    }
    OK(DestroyDB("/few", options));
  }
}

// Takes all the room that compactions may have.
static void Crowd() {
  std::unique_ptr<WritableFile> file;
  OK(env->NewWritableFile("/crowd", &file, EnvOptions()));
  Status status;
  while (status.ok()) status = file->Append(std::string(64 << 10, 'c'));
  CHECK(status.IsNoSpace());
  file->Close().PermitUncheckedError();
}

// Compactions are refused first, and softly: flushes and synced writes pass meanwhile.
static void CompactionsFirst(const Options& base) {
  const auto errors = std::make_shared<Errors>();
  Options options = Managed(base);
  options.disable_auto_compactions = true;
  options.listeners.push_back(errors);
  std::unique_ptr<DB> db(Open(options, "/crowded"));
  Fill(db.get(), db->DefaultColumnFamily(), 0, 20000, 0);
  OK(db->Flush(FlushOptions()));
  Crowd();
  const Status refused = db->CompactRange(CompactRangeOptions(), nullptr, nullptr);
  if (!refused.IsNoSpace()) Fail(__LINE__, refused.ToString());
  CHECK(errors->seen == 1);
  Fill(db.get(), db->DefaultColumnFamily(), 0, 1000, 1);
  WriteOptions synced;
  synced.sync = true;
  OK(db->Put(synced, Key(1000), Value(1000, 1)));
  OK(db->Flush(FlushOptions()));
  CHECK(errors->seen == 1);
  OK(env->DeleteFile("/crowd"));
  OK(db->Resume());
  OK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  Expect(db.get(), db->DefaultColumnFamily(), 0, 1001, 1);
  Expect(db.get(), db->DefaultColumnFamily(), 1001, 20000, 0);
  OK(db->Close());
}

int main(int count, char** arguments) {
  return Run(count, arguments,
             {
                 {"other", [] { OtherGoes(By::kResume, Tight()); }},
                 {"other-managed", [] { OtherGoes(By::kManager, Tight()); }},
                 {"other-blobs", [] { OtherGoes(By::kResume, WithBlobs(Tight())); }},
                 {"other-synced", [] { OtherGoes(By::kResume, Tight(), true); }},
                 {"other-synced-managed", [] { OtherGoes(By::kManager, Tight(), true); }},
                 {"range-synced", [] { RangeGoes(By::kResume, true); }},
                 {"range-synced-managed", [] { RangeGoes(By::kManager, true); }},
                 {"few-records", [] { FewRecords(By::kResume, false); }},
                 {"few-records-synced", [] { FewRecords(By::kResume, true); }},
                 {"few-records-synced-managed", [] { FewRecords(By::kManager, true); }},
                 {"checkpoint", [] { CheckpointGoes(By::kResume); }},
                 {"checkpoint-managed", [] { CheckpointGoes(By::kManager); }},
                 {"range", [] { RangeGoes(By::kResume); }},
                 {"range-managed", [] { RangeGoes(By::kManager); }},
                 {"compactions-first", [] { CompactionsFirst(Tight()); }},
                 {"compactions-first-blobs", [] { CompactionsFirst(WithBlobs(Tight())); }},
             });
}
