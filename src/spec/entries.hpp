// Readers of one mapping each, shared by the catalog (a file is one mapping) and the job (a mapping inside a file).
//
// Each fills in the keys that are written and leaves the rest of its struct as it was, so that a job can start from a
// catalog entry (`base:`) and change some of it. What is wrong goes into the Context.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "spec/catalog.hpp"
#include "spec/cluster.hpp"
#include "spec/job.hpp"
#include "spec/model.hpp"
#include "spec/reader.hpp"
#include "spec/stack.hpp"

namespace twinpod::spec {

void read_device_fields(const Node& node, Context& context, Device& device);
void read_link_fields(const Node& node, Context& context, Link& link);
void read_node_fields(const Node& node, Context& context, NodeType& type);
void read_cluster_fields(const Node& node, Context& context, const Catalog& catalog, Cluster& cluster);
void read_model_fields(const Node& node, Context& context, Model& model);
void read_hugging_face_fields(const Node& node, Context& context, Model& model);
void read_stack_fields(const Node& node, Context& context, Stack& stack);
void read_layout_fields(const Node& node, Context& context, Layout& layout);

void read_checkpoint(const Node& node, Context& context, Checkpoint& checkpoint);

// Takes the keys origin, source and notes, which every entry may have.
void read_source(Reader& reader, Source& source);

// Mappings that several kinds of entry have.
void read_price(const Node& node, Context& context, std::string_view amount, double& usd, std::string& basis,
                Origin& origin);
void read_scale_up(const Node& node, Context& context, ScaleUpKind& kind, double& bytes_per_s, int& domain);

void read_node_topology(const Node& node, Context& context, NodeTopology& topology);
void read_topology(const Node& node, Context& context, Topology& topology);
void read_measured(const Node& node, Context& context, Measured& measured);

// Numbers by the names of the fields of Physics, each within its bounds.
void read_field_values(const Node& node, Context& context, const std::string& what, FieldValues& values);

// Fills in what follows from the rest (key/value heads, width of a head) and refuses what contradicts itself.
void complete_model(const Node& node, Context& context, Model& model);

// Whatever a job's key may hold: the name of an entry, the path of a file, or a mapping with or without `base`.
void resolve_device(const Node& node, Context& context, const Catalog& catalog, Device& device);
void resolve_node_type(const Node& node, Context& context, const Catalog& catalog, NodeType& type);
void resolve_cluster(const Node& node, Context& context, const Catalog& catalog, Cluster& cluster, int depth = 0);
void resolve_model(const Node& node, Context& context, const Catalog& catalog, Model& model, int depth = 0);
void resolve_stack(const Node& node, Context& context, const Catalog& catalog, const std::string& device_family,
                   Stack& stack, int depth = 0);

// A scalar that names a file instead of an entry: it has a slash, or ends in .yaml, .yml or .json.
bool is_path(std::string_view text);

// Parses the file that a scalar names; relative paths start at the folder of the file in which the scalar stands, or at
// the current folder when it stands on the command line. A folder means the config.json in it. The result's path is in
// `path`. Files may name files as their base; `depth` counts them, so that a circle ends.
bool open_path(const Node& node, Context& context, int depth, std::string& path, Node& root);

// The first of these dotted paths that exists under the node, else the node: where an error belongs.
const Node& place_of(const Node& node, std::initializer_list<std::string_view> paths);

}  // namespace twinpod::spec
