#include "store/http.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <string_view>

namespace twinpod::store {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kSilentSeconds = 30;  // that an answer may stand still
constexpr std::size_t kMaxBody = 64U << 20U;

struct Receiver {
  CURL* handle;
  const HttpRequest& request;
  HttpAnswer& answer;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& to = *static_cast<Receiver*>(user);
  const std::size_t bytes = size * count;
  long status = 0;
  curl_easy_getinfo(to.handle, CURLINFO_RESPONSE_CODE, &status);
  if (to.request.into.empty() || status < 200 || status > 299) {
    if (to.answer.body.size() + bytes > kMaxBody) return 0;
    to.answer.body.append(data, bytes);
    return bytes;
  }
  if (bytes > to.request.into.size() - to.answer.moved) return 0;  // more than was asked for ends the call
  std::memcpy(to.request.into.data() + to.answer.moved, data, bytes);
  to.answer.moved += bytes;
  return bytes;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& to = *static_cast<Receiver*>(user);
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t first = line.find_first_not_of(" \t", colon + 1);
  const std::size_t last = line.find_last_not_of(" \t\r\n");
  to.answer.headers[name] = first == std::string_view::npos || last < first ? "" : line.substr(first, last - first + 1);
  return line.size();
}

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

Headers as_list(const HttpRequest& request) {
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  // Set by libcurl unless they are taken away.
  for (const char* header : {"Expect:", "Content-Type:", "Accept:"}) list = curl_slist_append(list, header);
  return {list, curl_slist_free_all};
}

void set_body(CURL* handle, const HttpRequest& request) {
  if (request.method == "GET") return;
  if (request.method == "HEAD") {
    curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
    return;
  }
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method == "DELETE") return;
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS,
                   request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
}

}  // namespace

Http::Http() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);  // once, also when two threads come
  (void)started;
}

Http::~Http() {
  for (void* handle : idle_) curl_easy_cleanup(handle);
}

void* Http::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return curl_easy_init();
  void* handle = idle_.back();
  idle_.pop_back();
  return handle;
}

void Http::give_back(void* handle) {
  curl_easy_reset(handle);  // its connections stay
  const std::lock_guard lock(mutex_);
  idle_.push_back(handle);
}

HttpAnswer Http::call(const HttpRequest& request) {
  HttpAnswer answer;
  CURL* handle = take();
  if (handle == nullptr) {
    answer.problem = "libcurl cannot be started";
    return answer;
  }
  const Headers headers = as_list(request);
  Receiver receiver{handle, request, answer};
  set_body(handle, request);
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &receiver);
  const CURLcode code = curl_easy_perform(handle);
  if (code == CURLE_OK) curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer.status);
  if (code != CURLE_OK) answer.problem = curl_easy_strerror(code);
  give_back(handle);
  return answer;
}

}  // namespace twinpod::store
