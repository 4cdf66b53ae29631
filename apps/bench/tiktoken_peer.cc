#include "bench/tiktoken_peer.h"

#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tokenizer/o200k_ranks.h"

namespace rose {
namespace {

// Frames in: the number of texts, their sizes, their bytes; -1 = the last texts again. Frames out:
// seconds and the number of ids, and the ids unless it was again. All numbers of 64 bits, ids
// of 32. Collecting garbage is no part of encoding.
constexpr const char* kScript = R"(
import array, gc, os, struct, sys, time
os.environ.setdefault("TIKTOKEN_CACHE_DIR", sys.argv[1])
import tiktoken
encoding = tiktoken.get_encoding("o200k_harmony")
source, out = sys.stdin.buffer, sys.stdout.buffer
out.write(tiktoken.__version__.encode().ljust(32))
out.flush()
gc.disable()
texts = []
while len(head := source.read(8)) == 8:
    count, = struct.unpack("<q", head)
    if count >= 0:
        sizes = struct.unpack(f"<{count}q", source.read(8 * count))
        texts = [source.read(size).decode() for size in sizes]
    ids = []
    begin = time.thread_time()
    for text in texts:
        ids.append(encoding.encode_ordinary(text))
    seconds = time.thread_time() - begin
    out.write(struct.pack("<dq", seconds, sum(map(len, ids))))
    if count >= 0:
        for some in ids:
            out.write(array.array("i", some).tobytes())
    out.flush()
)";

// The name under which tiktoken keeps the file of ranks: the SHA-1 of its published address.
constexpr const char* kCachedName = "fb374d419588a4632f3f557e76b4b70aebbca790";

}  // namespace

Result<std::unique_ptr<TiktokenPeer>> TiktokenPeer::Start(const std::string& python) {
  std::unique_ptr<TiktokenPeer> peer(new TiktokenPeer);
  std::string pattern = std::filesystem::temp_directory_path() / "rose-tiktoken-XXXXXX";
  if (!::mkdtemp(pattern.data())) {
    return IoError("cannot make a folder ", pattern, ": ", std::strerror(errno));
  }
  peer->folder_ = pattern;
  std::ofstream ranks(std::filesystem::path(pattern) / kCachedName, std::ios::binary);
  ranks << O200kRanks();
  ranks.close();
  if (!ranks) return IoError("cannot write to ", pattern);

  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return IoError("cannot make a socket: ", std::strerror(errno));
  }
  peer->socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  std::vector<std::string> words = {python, "-c", kScript, pattern};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error =
      ::posix_spawnp(&peer->process_, python.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    peer->process_ = -1;
    return InvalidArgument("cannot start ", python, ": ", std::strerror(error),
                           "; name a Python that has tiktoken with --python");
  }
  char version[32];
  if (!peer->Receive(version, sizeof version).ok()) {
    return InvalidArgument(python,
                           " cannot run tiktoken (see above); install it with pip install "
                           "tiktoken==0.14.0, or name another Python with --python");
  }
  peer->version_.assign(version, sizeof version);
  peer->version_.erase(peer->version_.find_last_not_of(' ') + 1);
  return peer;
}

TiktokenPeer::~TiktokenPeer() {
  if (socket_ >= 0) ::close(socket_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Result<TiktokenPeer::Encoded> TiktokenPeer::Encode(const std::vector<std::string>& texts) {
  std::vector<int64_t> head = {std::ssize(texts)};
  for (const std::string& text : texts) head.push_back(std::ssize(text));
  ROSE_RETURN_IF_ERROR(Send(head.data(), std::ssize(head) * 8));
  for (const std::string& text : texts) ROSE_RETURN_IF_ERROR(Send(text.data(), std::ssize(text)));
  Encoded encoded;
  int64_t count = 0;
  ROSE_RETURN_IF_ERROR(Receive(&encoded.seconds, 8));
  ROSE_RETURN_IF_ERROR(Receive(&count, 8));
  encoded.ids.resize(count);
  ROSE_RETURN_IF_ERROR(Receive(encoded.ids.data(), count * 4));
  return encoded;
}

Result<double> TiktokenPeer::Again() {
  const int64_t again = -1;
  double seconds = 0;
  int64_t count = 0;
  ROSE_RETURN_IF_ERROR(Send(&again, 8));
  ROSE_RETURN_IF_ERROR(Receive(&seconds, 8));
  ROSE_RETURN_IF_ERROR(Receive(&count, 8));
  return seconds;
}

Status TiktokenPeer::Send(const void* data, int64_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket_, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return IoError("the Python of tiktoken has ended");
    bytes += sent;
    size -= sent;
  }
  return {};
}

Status TiktokenPeer::Receive(void* data, int64_t size) {
  char* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::recv(socket_, bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return IoError("the Python of tiktoken has ended");
    bytes += got;
    size -= got;
  }
  return {};
}

}  // namespace rose
