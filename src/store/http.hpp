// One HTTP request and its answer, by libcurl. Nothing is tried again here, and no redirection followed.
//
//     Http http;
//     HttpAnswer answer = http.call({.method = "GET", .url = "http://127.0.0.1:9000/bucket/key"});
//     answer.status == 200; answer.headers["etag"];
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace twinpod::store {

struct HttpRequest {
  std::string method;
  std::string url;
  std::vector<std::string> headers = {};  // "name: value"
  std::span<const std::byte> body = {};
  std::span<std::byte> into = {};  // where the body of a good answer goes; empty: to HttpAnswer::body
};

struct HttpAnswer {
  long status = 0;           // 0: there was none, and nobody knows whether the server did what it was asked for
  std::string problem = {};  // why not
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};
  std::size_t moved = 0;  // bytes of `into`
};

// May be used by several threads at once. Connections are kept and used again.
class Http {
 public:
  Http();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  HttpAnswer call(const HttpRequest& request);

 private:
  void* take();
  void give_back(void* handle);

  std::mutex mutex_;
  std::vector<void*> idle_;  // libcurl's handles
};

}  // namespace twinpod::store
