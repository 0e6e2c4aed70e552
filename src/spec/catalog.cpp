#include "spec/catalog.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "core/nearest.hpp"
#include "spec/entries.hpp"

namespace twinpod::spec {
namespace {

constexpr std::string_view kEnding = ".yaml";

std::string_view singular(Shelf shelf) {
  const std::string_view plural = folder_name(shelf);
  return plural.substr(0, plural.size() - 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Anything else could leave the shelf's folder.
bool may_be_a_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !text.empty() && text.size() <= 128 && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

bool is_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

tl::unexpected<Error> unknown_name(Shelf shelf, std::string_view name, const std::vector<std::string>& candidates,
                                   std::size_t num_known) {
  Node quoted;
  quoted.kind = Node::Kind::scalar;
  quoted.scalar = name;
  const std::string nearest = nearest_name(name, candidates);
  const std::string_view folder = folder_name(shelf);
  const std::string listed = fmt::format("`twinpod show {}` lists all {}", folder, num_known);
  return input_error(fmt::format("there is no {} {}", singular(shelf), description(quoted)),
                     nearest.empty() ? listed : fmt::format("did you mean `{}`? {}", nearest, listed));
}

// Every entry says what it is called and where it comes from, and stands on its own.
void check_entry(const Node& root, Context& context, Shelf shelf) {
  Reader reader(root, context, fmt::format("this {}", singular(shelf)));
  for (const std::string_view key : {"name", "origin", "source"}) reader.require(key);
  const Node* base = root.find("base");
  if (base != nullptr) context.refuse_key(*base, "an entry of the catalog has no `base`", "write all of it out");
}

using EntryOfAlias = std::map<std::string, std::string>;  // aliases in lower case

Result<EntryOfAlias> read_aliases(const Catalog& catalog) {
  EntryOfAlias entry_of_alias;
  for (const std::string& entry : catalog.names(Shelf::devices)) {
    const Result<Device> device = catalog.device(entry);
    if (!device) return tl::unexpected(device.error());
    entry_of_alias.emplace(lower(entry), entry);
    entry_of_alias.emplace(lower(device->name), entry);
    for (const std::string& alias : device->aliases) entry_of_alias.emplace(lower(alias), entry);
  }
  return entry_of_alias;
}

// Reads one entry; `read` takes (root, context, entry).
template <typename T, typename Read>
Result<T> read_entry(const Catalog& catalog, Shelf shelf, std::string_view name, Read read) {
  const Result<std::string> path = catalog.path(shelf, name);
  if (!path) return tl::unexpected(path.error());
  const Result<Node> root = parse_yaml_file(*path);
  if (!root) return tl::unexpected(root.error());
  Context context(*path);
  T entry{};
  check_entry(*root, context, shelf);
  read(*root, context, entry);
  if (context.failed()) return tl::unexpected(context.error());
  return entry;
}

}  // namespace

// What is asked for again and again when thousands of published runs are compared.
struct Catalog::Cache {
  std::mutex mutex;
  std::map<std::string, Device, std::less<>> devices;
  std::map<std::string, NodeType, std::less<>> nodes;
  std::map<std::string, Stack, std::less<>> stacks;  // before their numbers are resolved
  std::optional<Parameters> parameters;
  EntryOfAlias entry_of_alias;
};

namespace {

// The cached value, or the one that `read` gives. Failures are not kept: the file may be mended.
template <typename T, typename Read>
Result<T> cached(std::mutex& mutex, std::map<std::string, T, std::less<>>& values, std::string_view name, Read read) {
  {
    const std::lock_guard lock(mutex);
    const auto found = values.find(name);
    if (found != values.end()) return found->second;
  }
  Result<T> value = read();
  if (!value) return value;
  const std::lock_guard lock(mutex);
  values.emplace(std::string(name), *value);
  return value;
}

}  // namespace

std::string_view folder_name(Shelf shelf) {
  constexpr std::array<std::string_view, 7> kFolders{"devices", "links",  "nodes", "clusters",
                                                     "models",  "stacks", "runs"};
  return kFolders.at(static_cast<std::size_t>(shelf));
}

Catalog::Catalog(std::string folder) : folder_(std::move(folder)), cache_(std::make_shared<Cache>()) {}

std::vector<std::string> Catalog::names(Shelf shelf) const {
  std::vector<std::string> names;
  DIR* folder = opendir(fmt::format("{}/{}", folder_, folder_name(shelf)).c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view file = entry->d_name;
    if (!file.ends_with(kEnding)) continue;
    const std::string_view name = file.substr(0, file.size() - kEnding.size());
    if (may_be_a_name(name)) names.emplace_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> Catalog::path(Shelf shelf, std::string_view name) const {
  if (may_be_a_name(name)) {
    std::string path = fmt::format("{}/{}/{}{}", folder_, folder_name(shelf), name, kEnding);
    if (is_file(path)) return path;
  }
  const std::vector<std::string> known = names(shelf);
  return unknown_name(shelf, name, known, known.size());
}

Result<Device> Catalog::device(std::string_view name) const {
  return cached(cache_->mutex, cache_->devices, name, [&] {
    return read_entry<Device>(*this, Shelf::devices, name, [&](const Node& root, Context& context, Device& device) {
      read_device_fields(root, context, device);
      device.entry = name;
    });
  });
}

Result<Link> Catalog::link(std::string_view name) const {
  return read_entry<Link>(*this, Shelf::links, name, [&](const Node& root, Context& context, Link& link) {
    read_link_fields(root, context, link);
    link.entry = name;
  });
}

Result<NodeType> Catalog::node(std::string_view name) const {
  return cached(cache_->mutex, cache_->nodes, name, [&] {
    return read_entry<NodeType>(*this, Shelf::nodes, name, [&](const Node& root, Context& context, NodeType& type) {
      read_node_fields(root, context, type);
      type.entry = name;
      if (type.device.empty()) context.refuse(root, "this node has no `device`, which it needs");
    });
  });
}

Result<Cluster> Catalog::cluster(std::string_view name) const {
  return read_entry<Cluster>(*this, Shelf::clusters, name, [&](const Node& root, Context& context, Cluster& cluster) {
    read_cluster_fields(root, context, *this, cluster);
    cluster.entry = name;
  });
}

Result<Model> Catalog::model(std::string_view name) const {
  return read_entry<Model>(*this, Shelf::models, name, [&](const Node& root, Context& context, Model& model) {
    read_model_fields(root, context, model);
    complete_model(root, context, model);
    model.entry = name;
  });
}

Result<std::string> Catalog::device_by_alias(std::string_view text) const {
  std::unique_lock lock(cache_->mutex);
  if (cache_->entry_of_alias.empty()) {
    lock.unlock();  // reading the devices takes it
    Result<EntryOfAlias> all = read_aliases(*this);
    if (!all) return tl::unexpected(all.error());
    lock.lock();
    cache_->entry_of_alias = std::move(*all);
  }
  const auto found = cache_->entry_of_alias.find(lower(text));
  if (found != cache_->entry_of_alias.end()) return found->second;
  std::vector<std::string> aliases;
  for (const auto& [alias, entry] : cache_->entry_of_alias) aliases.push_back(alias);
  return unknown_name(Shelf::devices, text, aliases, names(Shelf::devices).size());
}

Result<Stack> Catalog::stack(std::string_view name, const std::string& device_family) const {
  Result<Stack> stack = cached(cache_->mutex, cache_->stacks, name, [&] {
    return read_entry<Stack>(*this, Shelf::stacks, name, [&](const Node& root, Context& context, Stack& entry) {
      const Node* own_numbers = root.find("parameters");
      if (own_numbers != nullptr) context.refuse_key(*own_numbers, "the catalog keeps numbers in parameters.yaml");
      read_stack_fields(root, context, entry);
      entry.name = name;
    });
  });
  if (!stack) return stack;
  const Result<Parameters> numbers = parameters();
  if (!numbers) return tl::unexpected(numbers.error());
  stack->physics = resolve(*numbers, device_family, *stack);
  return stack;
}

Result<Parameters> Catalog::parameters() const {
  const std::lock_guard lock(cache_->mutex);
  if (cache_->parameters) return *cache_->parameters;
  const std::string path = folder_ + "/parameters.yaml";
  const Result<Node> root = parse_yaml_file(path);
  if (!root) return tl::unexpected(root.error());
  Result<Parameters> read = read_parameters(*root, path);
  if (read) cache_->parameters = *read;
  return read;
}

}  // namespace twinpod::spec
