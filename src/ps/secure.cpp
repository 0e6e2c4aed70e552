#include "ps/secure.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace twinpod::ps {
namespace {

constexpr std::size_t kReadAhead = std::size_t{256} << 10U;
constexpr std::size_t kWrittenByOneKey = std::size_t{64} << 30U;  // a sixth of what AES-GCM may
constexpr std::array<unsigned char, 2> kCipher = {0x13, 0x01};    // TLS_AES_128_GCM_SHA256

// ---- The socket, without the SIGPIPE that OpenSSL's own way of writing brings

int file_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

bool comes_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

int write_socket(BIO* bio, const char* from, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t moved = send(file_of(bio), from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
  if (moved < 0 && comes_again()) BIO_set_retry_write(bio);
  return static_cast<int>(moved);
}

int read_socket(BIO* bio, char* into, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t moved = recv(file_of(bio), into, static_cast<std::size_t>(bytes), 0);
  if (moved < 0 && comes_again()) BIO_set_retry_read(bio);
  return static_cast<int>(moved);
}

long control_socket(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return method;
}

BIO* socket_bio(int file) {
  BIO* const bio = BIO_new(socket_method());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)));  // NOLINT: a number
  BIO_set_init(bio, 1);
  return bio;
}

// ---- Who is who

SSL_SESSION* session_of(SSL* tls, const SecureOptions& options, bool calls) {
  const JobKey key =
      calls ? pair_key(options.key, options.own, options.peer) : pair_key(options.key, options.peer, options.own);
  SSL_SESSION* const session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size());
  SSL_SESSION_set_cipher(session, SSL_CIPHER_find(tls, kCipher.data()));
  SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

Secure& owner_of(const SSL* tls) { return *static_cast<Secure*>(SSL_get_app_data(tls)); }

int call_as(SSL* tls, const EVP_MD* /*hash*/, const unsigned char** id, std::size_t* length, SSL_SESSION** session) {
  Secure& own = owner_of(tls);
  own.identity() = fmt::to_string(own.options().own);
  *id = reinterpret_cast<const unsigned char*>(own.identity().data());
  *length = own.identity().size();
  *session = session_of(tls, own.options(), true);
  return 1;
}

int find_caller(SSL* tls, const unsigned char* id, std::size_t length, SSL_SESSION** session) {
  Secure& own = owner_of(tls);
  const std::string_view text(reinterpret_cast<const char*>(id), length);
  NodeId peer = kNobody;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), peer);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  *session = nullptr;
  if (!whole || peer < 0 || peer >= own.options().nodes || peer == own.options().own) return 0;
  own.name_peer(peer);
  *session = session_of(tls, own.options(), false);
  return 1;
}

SSL_CTX* make_context() {
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  if (context == nullptr) std::abort();  // out of memory
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_max_early_data(context, 0);  // what is sent again would be heard again
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context, call_as);
  SSL_CTX_set_psk_find_session_callback(context, find_caller);
  return context;
}

SSL_CTX* context() {
  static SSL_CTX* const one = make_context();
  return one;
}

}  // namespace

void Secure::Free::operator()(ssl_st* one) const { SSL_free(one); }

Secure::Secure(int file, const SecureOptions& options) : file_(file), options_(options), tls_(SSL_new(context())) {
  if (!tls_) std::abort();  // out of memory
  SSL* const tls = tls_.get();
  SSL_set_app_data(tls, this);
  BIO* const bio = socket_bio(file);
  SSL_set_bio(tls, bio, bio);
  if (options.peer != kNobody) {
    SSL_set_connect_state(tls);
    return;
  }
  SSL_set_accept_state(tls);
  SSL_set_default_read_buffer_len(tls, kReadAhead);  // many records at a time; untouched until they come
  SSL_set_read_ahead(tls, 1);
}

Secure::~Secure() {
  SSL_shutdown(tls_.get());  // one try: the other end then knows that nothing is missing
  ERR_clear_error();
  shutdown(file_, SHUT_RDWR);  // processes that were forked meanwhile have the socket, too
  close(file_);
}

Step Secure::step_of(int result) {
  const int error = SSL_get_error(tls_.get(), result);
  ERR_clear_error();
  switch (error) {
    case SSL_ERROR_WANT_READ:
      return Step::again;
    case SSL_ERROR_WANT_WRITE:
      return Step::full;
    case SSL_ERROR_SSL:
      return Step::refused;
    default:
      return Step::ended;
  }
}

Step Secure::shake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(tls_.get());
  return result == 1 ? Step::done : step_of(result);
}

Step Secure::read(std::span<std::byte> into, std::size_t& moved) {
  ERR_clear_error();
  const int result = SSL_read_ex(tls_.get(), into.data(), into.size(), &moved);
  return result == 1 ? Step::done : step_of(result);
}

Step Secure::write(std::span<const std::byte> from, std::size_t& moved) {
  ERR_clear_error();
  // Not within a write that is to be repeated: then it is refused, and done later.
  const bool is_old = written_ > kWrittenByOneKey;
  if (is_old && SSL_key_update(tls_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) written_ = 0;
  const int result = SSL_write_ex(tls_.get(), from.data(), from.size(), &moved);
  if (result != 1) return step_of(result);
  written_ += moved;
  return Step::done;
}

}  // namespace twinpod::ps
