#include "server/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace rose {

struct TlsContext::Impl {
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, Free> context;
};

struct TlsSession::Impl {
  struct Free {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  std::unique_ptr<SSL, Free> session;
  BIO* in = nullptr;   // from the client; the session's
  BIO* out = nullptr;  // to the client; the session's
};

namespace {

// OpenSSL's reason for the last failure of this thread, and forgets all of them.
std::string LastError() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_last_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

// Of the protocols that a client offers, only this one is spoken here.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned offered_size, void*) {
  static constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kHttp11, sizeof(kHttp11), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

// A key with a passphrase is refused instead of asking for it on the terminal.
int NoPassphrase(char*, int, int, void*) {
  return -1;
}

}  // namespace

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<const TlsContext>> TlsContext::Load(const std::string& certificate_file,
                                                           const std::string& key_file) {
  // No configuration of the machine: the program behaves alike everywhere.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  auto impl = std::make_unique<Impl>();
  impl->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = impl->context.get();
  ROSE_CHECK(context != nullptr, LastError());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, SelectProtocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, NoPassphrase);
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    return InvalidArgument("'", certificate_file, "' is no certificate in PEM form: ", LastError());
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return InvalidArgument("'", key_file, "' is no key in PEM form without a passphrase, or not ",
                           "that of '", certificate_file, "': ", LastError());
  }
  return std::shared_ptr<const TlsContext>(std::make_shared<TlsContext>(std::move(impl)));
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context)
    : context_(std::move(context)), impl_(std::make_unique<Impl>()) {
  impl_->session.reset(SSL_new(context_->impl().context.get()));
  impl_->in = BIO_new(BIO_s_mem());
  impl_->out = BIO_new(BIO_s_mem());
  ROSE_CHECK(impl_->session && impl_->in != nullptr && impl_->out != nullptr, LastError());
  SSL_set_bio(impl_->session.get(), impl_->in, impl_->out);
  SSL_set_accept_state(impl_->session.get());
}

TlsSession::~TlsSession() = default;

TlsSession::State TlsSession::Receive(std::string_view bytes, std::string& plain,
                                      std::string& out) {
  if (state_ == State::kBroken || state_ == State::kEnded) return state_;
  SSL* session = impl_->session.get();
  ERR_clear_error();
  BIO_write(impl_->in, bytes.data(), static_cast<int>(bytes.size()));
  if (state_ == State::kHandshake) {
    const int result = SSL_do_handshake(session);
    if (result == 1) {
      state_ = State::kOpen;
    } else {
      Fail(result);
    }
  }
  std::array<char, 16 << 10> piece;
  while (state_ == State::kOpen) {
    const int size = SSL_read(session, piece.data(), static_cast<int>(piece.size()));
    if (size > 0) {
      plain.append(piece.data(), static_cast<size_t>(size));
      continue;
    }
    Fail(size);
    break;
  }
  TakeOutput(out);
  return state_;
}

// What a call that gave no success means: often just that more bytes are needed.
void TlsSession::Fail(int result) {
  switch (SSL_get_error(impl_->session.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      break;
    case SSL_ERROR_ZERO_RETURN:
      state_ = State::kEnded;
      break;
    default:
      state_ = State::kBroken;
  }
  ERR_clear_error();
}

void TlsSession::Send(std::string_view plain, std::string& out) {
  ROSE_CHECK(state_ == State::kOpen || state_ == State::kEnded, "no session to send in");
  while (!plain.empty()) {
    const auto size = static_cast<int>(std::min<size_t>(plain.size(), 1 << 20));
    // The other end is memory, which takes all of it.
    const int sent = SSL_write(impl_->session.get(), plain.data(), size);
    ROSE_CHECK_EQ(sent, size);
    plain.remove_prefix(static_cast<size_t>(size));
  }
  TakeOutput(out);
}

void TlsSession::End(std::string& out) {
  if (state_ != State::kOpen && state_ != State::kEnded) return;
  SSL_shutdown(impl_->session.get());
  ERR_clear_error();
  TakeOutput(out);
}

void TlsSession::TakeOutput(std::string& out) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(impl_->out, &bytes);
  if (size > 0) out.append(bytes, static_cast<size_t>(size));
  BIO_reset(impl_->out);
}

}  // namespace rose
