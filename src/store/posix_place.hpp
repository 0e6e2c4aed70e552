// Where a name of a file system lies, found without following a symbolic link that stands in a store: whoever may write
// to the store's folder must not lead us out of it.
//
//     Result<Place> place = Place::of("runs/a", "runs/a/checkpoint-000012/manifest.json", "opened");
//     ::openat(place->folder(), place->name(), O_RDONLY | place->flags());
//
// Folder by folder, each opened beneath the one before. The root itself, and what stands above it, is the user's choice
// and may be a link. A path that is not below the root is taken as it is.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace twinpod::store {

class Place {
 public:
  // `what` is for messages: what the path cannot be. Without a root no path is below it.
  static Result<Place> of(const std::string& root, const std::string& path, std::string_view what,
                          int* code = nullptr);  // of the error
  Place(Place&& other) noexcept;
  Place& operator=(Place&&) = delete;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();

  int folder() const { return folder_; }  // a descriptor, or AT_FDCWD
  const char* name() const { return name_.c_str(); }
  int open_flags() const;  // O_NOFOLLOW below the root, else 0
  // "path: cannot be opened: ..."; says so when the reason is a link.
  tl::unexpected<Error> error(const std::string& path, std::string_view what, int code) const;

 private:
  Place(int folder, std::string name, bool below) : folder_(folder), name_(std::move(name)), below_(below) {}

  int folder_;
  std::string name_;
  bool below_;
};

}  // namespace twinpod::store
