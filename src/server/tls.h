// TLS as a transformation of bytes, for connections that own their sockets themselves. The only
// part of the program that sees OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rose {

// Certificate and key of a server. Shared by all sessions, immutable.
class TlsContext {
 public:
  // PEM files; the certificate may be followed by those that vouch for it. kInvalidArgument names
  // the file that is not what it should be.
  static Result<std::shared_ptr<const TlsContext>> Load(const std::string& certificate_file,
                                                        const std::string& key_file);
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  ~TlsContext();
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// The server's side of one connection, TLS 1.2 or 1.3. About 40 KiB.
class TlsSession {
 public:
  enum class State {
    kHandshake,
    kOpen,
    kEnded,   // the client said that it sends no more
    kBroken,  // what came is no TLS, or no key could be agreed on; `out` may hold an alert
  };

  explicit TlsSession(std::shared_ptr<const TlsContext> context);
  ~TlsSession();

  // Takes what came from the client. Appends what it says to `plain`, and what is to be sent to it
  // to `out`.
  State Receive(std::string_view bytes, std::string& plain, std::string& out);
  // Encrypts, appending to `out`. Only while open or ended.
  void Send(std::string_view plain, std::string& out);
  // Says that nothing more will come.
  void End(std::string& out);

  State state() const { return state_; }

 private:
  void TakeOutput(std::string& out);
  void Fail(int result);

  struct Impl;
  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<Impl> impl_;
  State state_ = State::kHandshake;
};

}  // namespace rose
