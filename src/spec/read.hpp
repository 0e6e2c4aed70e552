// Reads a whole job: a YAML file, or catalog names from the command line, with `--set a.b=c` on top.
//
//     Request request; request.file = "examples/llama3-70b.yaml"; request.sets = {"layout.tp=8"};
//     Result<Job> job = read_job(request, catalog);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "spec/edit.hpp"
#include "spec/job.hpp"
#include "spec/node.hpp"

namespace twinpod::spec {

// Tokens of a step where nobody says how many: what most large runs of the literature come near to.
inline constexpr double kDefaultStepTokens = 4e6;

// Of a job that names none: the one that most published runs of such a device used.
std::string_view default_stack(const Device& device);

// "GPT-3 175B on 1024 x A100-SXM4-80GB": of a job that has no name.
std::string default_name(const Job& job);

struct Request {
  std::string file;           // a job file (.yaml, .yml), or empty
  std::string text = {};      // what stands in it; empty: it is read
  std::string model;          // catalog name or a Hugging Face config.json; with a file: instead of its model
  std::string cluster;        // catalog name or a cluster file; with a file: instead of its cluster
  std::vector<Setting> sets;  // "layout.tp=8": later ones win
  std::vector<Setting> no_cluster = {};  // the same, where neither the file nor anybody names a cluster
};

Result<Job> read_job(const Request& request, const Catalog& catalog);

// What read_job reads: the file with all settings, without the cluster of who names none.
Result<Node> job_document(const Request& request);
Result<Job> read_job_text(std::string_view text, const std::string& file, const Catalog& catalog);

// A job from its document; `file` is where it was written.
Result<Job> read_job_node(const Node& root, const std::string& file, const Catalog& catalog);

// A model from its Node: a catalog name (scalar), a path to config.json (scalar), our keys, or Hugging Face's keys.
Result<Model> read_model(const Node& node, const std::string& file, const Catalog& catalog);
Result<Model> read_hugging_face(const Node& node, const std::string& file);
Result<Cluster> read_cluster(const Node& node, const std::string& file, const Catalog& catalog);

}  // namespace twinpod::spec
