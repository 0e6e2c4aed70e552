#include "spec/read.hpp"

#include <memory>

namespace twinpod::spec {
namespace {

// What the user typed stands for itself: it is its own file.
Node typed(const std::string& text, const std::string& as_written) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.scalar = text;
  node.line = node.column = node.key_line = node.key_column = 1;
  node.file = std::make_shared<const std::string>(as_written);
  return node;
}

void put(Node& mapping, const std::string& key, Node value) {
  if (Node* found = mapping.find(key)) {
    *found = std::move(value);
    return;
  }
  mapping.keys.push_back(key);
  mapping.items.push_back(std::move(value));
}

Result<Node> document_of(const Request& request) {
  if (!request.text.empty()) return parse_yaml(request.text, request.file);
  if (!request.file.empty()) return parse_yaml_file(request.file);
  Node root;
  root.kind = Node::Kind::mapping;
  root.line = root.column = 1;
  return root;
}

Result<Node> document_with(const Request& request, const std::vector<Setting>& no_cluster) {
  Result<Node> root = document_of(request);
  if (!root) return root;
  if (root->kind == Node::Kind::null) root->kind = Node::Kind::mapping;
  if (root->kind == Node::Kind::mapping) {
    if (!request.model.empty()) put(*root, "model", typed(request.model, request.model));
    if (!request.cluster.empty()) put(*root, "cluster", typed(request.cluster, "--on " + request.cluster));
  }
  std::vector<Setting> settings = request.sets;
  if (root->find("cluster") == nullptr) settings.insert(settings.begin(), no_cluster.begin(), no_cluster.end());
  for (const Setting& setting : settings) {
    const Result<void> done = apply_setting(*root, setting);
    if (!done) return tl::unexpected(done.error());
  }
  return root;
}

}  // namespace

Result<Node> job_document(const Request& request) { return document_with(request, {}); }

Result<Job> read_job(const Request& request, const Catalog& catalog) {
  const Result<Node> root = document_with(request, request.no_cluster);
  if (!root) return tl::unexpected(root.error());
  return read_job_node(*root, request.file.empty() ? "command line" : request.file, catalog);
}

Result<Job> read_job_text(std::string_view text, const std::string& file, const Catalog& catalog) {
  const Result<Node> root = parse_yaml(text, file);
  if (!root) return tl::unexpected(root.error());
  return read_job_node(*root, file, catalog);
}

}  // namespace twinpod::spec
