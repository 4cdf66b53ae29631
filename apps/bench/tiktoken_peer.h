// tiktoken in a Python of the user's, as a yardstick: it encodes what it is sent and says how long
// that took.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace rose {

class TiktokenPeer {
 public:
  struct Encoded {
    double seconds = 0;        // of processor time
    std::vector<int32_t> ids;  // of all texts, one after the other
  };

  // Starts `python`, which must have tiktoken. Its ranks are those of the program, so that it asks
  // no network.
  static Result<std::unique_ptr<TiktokenPeer>> Start(const std::string& python);
  // Ends the process.
  ~TiktokenPeer();
  TiktokenPeer(const TiktokenPeer&) = delete;
  TiktokenPeer& operator=(const TiktokenPeer&) = delete;

  // "0.14.0"
  const std::string& version() const { return version_; }
  // Encodes texts, valid UTF-8 each, with encode_ordinary.
  Result<Encoded> Encode(const std::vector<std::string>& texts);
  // Encodes the last texts once more: seconds.
  Result<double> Again();

 private:
  TiktokenPeer() = default;
  Status Send(const void* data, int64_t size);
  Status Receive(void* data, int64_t size);

  int socket_ = -1;
  int process_ = -1;
  std::string folder_;  // holds the ranks while the process runs
  std::string version_;
};

}  // namespace rose
