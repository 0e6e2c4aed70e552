// A store by its address, as users write it: a folder, or a place in an object store.
//
//     Result<OpenedStore> store = open_files("runs/a");
//     Result<OpenedStore> objects = open_files("s3://models/runs/a?endpoint=http://127.0.0.1:9000");
//     list_checkpoints(*store->files, store->root);
//
// Of s3://BUCKET/PREFIX, `endpoint` and `region` may also be in AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL and in
// AWS_REGION or AWS_DEFAULT_REGION; the keys must be in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with
// AWS_SESSION_TOKEN if there is one. Without an endpoint it is AWS's.
#pragma once

#include <memory>
#include <string>

#include "store/files.hpp"

namespace twinpod::store {

struct OpenedStore {
  std::shared_ptr<Files> files;
  std::string root;
  std::string address;  // for messages: the folder, or s3://BUCKET/PREFIX
  std::string tier;     // kind of tier: "local", "shared" for a network file system, "object"
};

// Opens nothing yet: whether it is there shows with the first use.
Result<OpenedStore> open_files(const std::string& address);

}  // namespace twinpod::store
