// What a process does with a mount, one scene a command: PROGRAM SCENE URI. The file system comes from libzonda_rocksdb.so, by LD_PRELOAD.

#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

// Unmounted when the process ends.
static std::shared_ptr<Env> guard;

static void Mount(const std::string& uri) { OK(Env::CreateFromUri(ConfigOptions(), "", uri, &env, &guard)); }

// A child that knows nothing of the file system, and ends as programs do.
static void Fork(const std::string& uri) {
  Mount(uri);
  OK(WriteStringToFile(env, "some bytes", "/one", true));
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) std::exit(0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  OK(WriteStringToFile(env, "others", "/two", true));
}

// The program is elsewhere when it unmounts.
static void Elsewhere(const std::string& uri) {
  Mount(uri);
  CHECK(chdir("/") == 0);
}

// There is no thread for a mount that cleans; the device is free for one that does not.
static void WithoutThreads(const std::string& uri) {
  const Status refused = Env::CreateFromUri(ConfigOptions(), "", uri, &env, &guard);
  CHECK(!refused.ok());
  std::printf("%s\n", refused.ToString().c_str());
  Mount(uri + "&clean_threshold=0");
  OK(WriteStringToFile(env, "some bytes", "/one", true));
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  const std::map<std::string, std::function<void(const std::string&)>> scenes = {
      {"fork", Fork}, {"elsewhere", Elsewhere}, {"without-threads", WithoutThreads}};
  scenes.at(arguments[1])(arguments[2]);
}
