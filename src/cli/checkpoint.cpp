// twinpod checkpoint: what is in a store, whether it is whole, and what may go. Tensors are in checkpoint_tensors.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <nlohmann/json.hpp>

#include "cli/checkpoint_tensors.hpp"
#include "cli/command.hpp"
#include "core/nearest.hpp"
#include "core/progress.hpp"
#include "core/quote.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "store/damage.hpp"
#include "store/lock.hpp"
#include "store/pick.hpp"
#include "store/save.hpp"

namespace twinpod::cli {
namespace {

using nlohmann::ordered_json;
using store::CheckpointInfo;
using store::Damage;
using store::ExistingStore;

constexpr std::array kFlagsOfCheckpoint = {
    Flag{"quick", "", "ls: do not read the shards, so `verified` is not known", ""},
    Flag{"step", "N", "show, diff, export: the checkpoint of this step (default: the newest)", ""},
    Flag{"tensor", "NAME", "show: the smallest, largest and mean element, the norm and the NaNs of one tensor", ""},
    Flag{"keep", "N", "prune: keep the newest so many", ""},
    Flag{"every", "N", "prune: and those whose step this divides", ""},
    Flag{"damaged", "", "prune: remove damaged ones, too; without it they are set aside", ""},
    Flag{"dry-run", "", "prune: only say what would go", ""},
    Flag{"output", "FILE|DIR", "export: the file to write; import: the store to save to", "", "o"},
    Flag{"optimizer", "", "export: the optimizer's tensors, too", ""},
    Flag{"force", "", "export: replace the file", ""},
};

constexpr std::size_t kNamedDamages = 20;

// A checkpoint on a tier.
struct Row {
  std::string tier;
  std::string path;  // of the store, for messages
  CheckpointInfo info;
  double age_s = -1;  // -1: not known
  std::vector<Damage> damages = {};
};

std::string folder_of(const Row& row) { return row.path + "/" + row.info.name; }

double age_of(store::Files& files, const std::string& folder, const CheckpointInfo& info) {
  if (info.abandoned) return -1;
  const std::int64_t written = files.modified_s(fmt::format("{}/{}", folder, store::kManifestFile)).value_or(0);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return written == 0 ? -1 : static_cast<double>(now.count() - written);
}

// What `ls` says below its table: how to be rid of it.
std::string set_aside_line(const std::string& path) {
  return fmt::format("{}: damaged, set aside; `twinpod checkpoint prune {} --damaged` removes it\n", one_line(path),
                     shell_quoted(path.substr(0, path.find_last_of('/'))));
}

// All checkpoints of the stores, or those that were named, newest first on each.
Result<std::vector<Row>> rows_of(const std::vector<std::string>& addresses, bool verify,
                                 std::vector<std::string>* aside = nullptr) {
  std::vector<Row> rows;
  for (const std::string& address : addresses) {
    const Result<ExistingStore> existing = store::open_existing(address);
    if (!existing) return tl::unexpected(existing.error());
    store::Files& files = *existing->store.files;
    const Result<std::vector<CheckpointInfo>> infos = store::list_checkpoints(files, existing->store.root);
    if (!infos) return tl::unexpected(infos.error());
    const Result<std::vector<std::string>> damaged = store::list_set_aside(files, existing->store.root);
    if (!damaged) return tl::unexpected(damaged.error());
    for (const std::string& name : *damaged) {
      if (aside != nullptr && existing->checkpoint.empty()) aside->push_back(existing->store.address + "/" + name);
    }
    for (const CheckpointInfo& info : *infos) {
      if (!existing->checkpoint.empty() && existing->checkpoint != info.name) continue;
      Row row{existing->store.tier, existing->store.address, info};
      const std::string folder = existing->store.root + "/" + info.name;
      row.age_s = age_of(files, folder, info);
      Progress progress("verify " + info.name, static_cast<std::size_t>(info.bytes));
      const auto more = [&](std::int64_t bytes) { progress.advance(static_cast<std::size_t>(bytes)); };
      if (verify && !info.abandoned) row.damages = store::find_damages(files, folder, more);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

ordered_json json_of(const Row& row, bool verified) {
  ordered_json json = {{"step", row.info.step},        {"number", row.info.number}, {"tier", row.tier},
                       {"path", folder_of(row)},       {"bytes", row.info.bytes},   {"shards", row.info.num_shards},
                       {"complete", row.info.complete}};
  json["verified"] = verified ? ordered_json(row.info.complete && row.damages.empty()) : ordered_json(nullptr);
  json["age_s"] = row.age_s < 0 ? ordered_json(nullptr) : ordered_json(row.age_s);
  if (!row.info.problem.empty()) json["problem"] = row.info.problem;
  return json;
}

std::string rows_text(const std::vector<Row>& rows, bool verified) {
  if (rows.empty()) return "no checkpoints\n";
  const Column right{"", Align::right};
  Table table({{"step", right.align},
               {"number", right.align},
               {"tier"},
               {"bytes", right.align},
               {"complete"},
               {"verified"},
               {"age", right.align},
               {"path"}});
  for (const Row& row : rows) {
    const CheckpointInfo& info = row.info;
    const bool good = info.complete && row.damages.empty();
    table.row({info.abandoned ? "-" : fmt::to_string(info.step), fmt::to_string(info.number), row.tier,
               format_bytes(static_cast<double>(info.bytes)), info.complete ? "yes" : "no",
               !verified ? "-" : (good ? "yes" : "no"), row.age_s < 0 ? "-" : format_seconds(row.age_s),
               folder_of(row)});
  }
  std::string text = table.text();
  for (const Row& row : rows) {
    if (!row.info.problem.empty()) text += one_line(fmt::format("{}: {}", folder_of(row), row.info.problem)) + "\n";
    if (row.info.complete && !row.damages.empty()) {
      text += one_line(folder_of(row)) + ": " + to_string(row.damages.front()) + "\n";
    }
  }
  return text;
}

Result<std::string> ls(const Arguments& arguments, const std::vector<std::string>& addresses) {
  const bool verify = !arguments.has("quick");
  std::vector<std::string> aside;
  const Result<std::vector<Row>> rows = rows_of(addresses, verify, &aside);
  if (!rows) return tl::unexpected(rows.error());
  if (!arguments.has("json")) {
    std::string text = rows_text(*rows, verify);
    for (const std::string& path : aside) text += set_aside_line(path);
    return text;
  }
  ordered_json json = {{"checkpoints", ordered_json::array()}};
  for (const Row& row : *rows) json["checkpoints"].push_back(json_of(row, verify));
  json["set_aside"] = aside;
  return report::printed(json);
}

// Each on a line of its own, the first so many.
std::string lines_of(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kNamedDamages); ++i) text += (i == 0 ? "" : "\n  ") + lines[i];
  if (lines.size() > kNamedDamages) text += fmt::format("\n  and {} more", lines.size() - kNamedDamages);
  return text;
}

// A save that never ended is no damage: nothing counts on it.
Result<std::string> verify(const Arguments& arguments, const std::vector<std::string>& addresses) {
  const Result<std::vector<Row>> rows = rows_of(addresses, true);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<std::string> bad;
  std::int64_t num_whole = 0;
  double bytes = 0;
  for (const Row& row : *rows) {
    if (row.info.abandoned) continue;
    for (const Damage& damage : row.damages) bad.push_back(fmt::format("{}/{}", folder_of(row), to_string(damage)));
    num_whole += row.damages.empty() ? 1 : 0;
    bytes += static_cast<double>(row.info.bytes);
  }
  if (!bad.empty())
    return infeasible(fmt::format("{}; {} {} whole", counted(bad.size(), "damage"), counted(num_whole, "checkpoint"),
                                  num_whole == 1 ? "is" : "are"),
                      lines_of(bad));
  if (num_whole == 0) return infeasible(fmt::format("{}: no checkpoints to verify", fmt::join(addresses, ", ")));
  if (!arguments.has("json")) {
    return fmt::format("{} {} whole: {} as {} written\n", counted(num_whole, "checkpoint"),
                       num_whole == 1 ? "is" : "are", format_bytes(bytes), num_whole == 1 ? "it was" : "they were");
  }
  ordered_json json = {{"whole", num_whole}, {"checkpoints", ordered_json::array()}};
  for (const Row& row : *rows) json["checkpoints"].push_back(json_of(row, true));
  return report::printed(json);
}

// What pruning a store did, or would do.
struct Pruned {
  store::PrunePlan plan;
  std::vector<std::string> damaged;  // that were removed, because it was asked for
  std::string whole;
};

std::string pruned_text(const std::string& address, const Pruned& pruned, bool dry) {
  const std::size_t removed = pruned.plan.removed.size() + pruned.damaged.size();
  std::string text;
  if (removed > 0) {
    text = fmt::format("{}: {} {}; {}\n", address, dry ? "would remove" : "removed", counted(removed, "checkpoint"),
                       pruned.whole.empty() ? "there is no whole one" : "the newest whole one is " + pruned.whole);
    for (const std::string& name : pruned.plan.removed) text += fmt::format("  {}\n", name);
    for (const std::string& name : pruned.damaged) text += fmt::format("  {}, which is damaged\n", name);
  } else if (pruned.plan.set_aside.empty()) {
    text = fmt::format("{}: nothing to remove\n", address);
  }
  for (const std::string& name : pruned.plan.set_aside) {
    text += fmt::format("{}/{}: damaged, {}set aside as {}; with --damaged it is removed\n", address, name,
                        dry ? "would be " : "", store::damaged_name(store::checkpoint_number(name)));
  }
  return text;
}

// Damaged ones that --damaged means: those that were set aside, and those that pruning would set aside or keep as they
// are because they cannot be.
std::vector<std::string> damaged_to_remove(const std::vector<CheckpointInfo>& infos,
                                           const std::vector<std::string>& aside) {
  std::vector<std::string> names = aside;
  for (const CheckpointInfo& info : infos) {
    if (info.damaged) names.push_back(info.name);
  }
  return names;
}

// Saves that did not end are nobody's, as the store is locked.
void add_unfinished(const std::vector<CheckpointInfo>& infos, std::vector<std::string>& removed) {
  for (const CheckpointInfo& info : infos) {
    const bool is_in = std::find(removed.begin(), removed.end(), info.name) != removed.end();
    if (info.abandoned && !is_in) removed.push_back(info.name);
  }
}

// `latest` must not name one that is gone.
Result<void> remove_damaged(store::Files& files, const std::string& root, const Pruned& pruned) {
  const std::string latest = store::latest_name(files, root).value_or("");
  const bool leaves = std::find(pruned.damaged.begin(), pruned.damaged.end(), latest) != pruned.damaged.end();
  Result<void> done = leaves ? store::move_latest(files, root, pruned.whole) : Result<void>();
  for (const std::string& name : pruned.damaged) {
    if (done) done = store::remove_set_aside(files, root, name);
  }
  return done;
}

Result<Pruned> prune_store(const ExistingStore& existing, store::PruneRule rule, bool removes_damaged, bool dry) {
  store::Files& files = *existing.store.files;
  const std::string& root = existing.store.root;
  const Result<std::unique_ptr<store::StoreLock>> lock =
      dry ? Result<std::unique_ptr<store::StoreLock>>() : store::lock_store(files, root);
  if (!lock) return tl::unexpected(lock.error());
  const Result<std::vector<CheckpointInfo>> infos = store::list_checkpoints(files, root);
  if (!infos) return tl::unexpected(infos.error());
  if (Result<void> known = store::check_versions(root, *infos); !known) return tl::unexpected(known.error());
  Pruned pruned;
  const bool debris_alone = !infos->empty() && std::all_of(infos->begin(), infos->end(),
                                                           [](const CheckpointInfo& info) { return info.abandoned; });
  if (!debris_alone) {
    const Result<store::WholeCheckpoint> newest = store::newest_whole(files, root);
    if (!newest) return tl::unexpected(newest.error());
    rule.whole = pruned.whole = newest->name;
  }
  pruned.plan = store::plan_pruning(*infos, rule);
  add_unfinished(*infos, pruned.plan.removed);
  if (!files.has_rename()) pruned.plan.set_aside.clear();
  if (removes_damaged) {
    const Result<std::vector<std::string>> aside = store::list_set_aside(files, root);
    if (!aside) return tl::unexpected(aside.error());
    pruned.damaged = damaged_to_remove(*infos, *aside);
    pruned.plan.set_aside.clear();
  }
  if (dry) return pruned;
  if (Result<void> removed = remove_damaged(files, root, pruned); !removed) return tl::unexpected(removed.error());
  if (Result<void> cleared = store::clear_unfinished(files, root); !cleared) return tl::unexpected(cleared.error());
  const Result<store::PrunePlan> done = store::prune_checkpoints(files, root, rule);
  if (!done) return tl::unexpected(done.error());
  return pruned;
}

Result<std::string> prune(const Arguments& arguments, const std::vector<std::string>& addresses) {
  const Result<int> keep = whole_number(arguments, "keep", 1, 0);
  if (!keep) return tl::unexpected(keep.error());
  const bool damaged = arguments.has("damaged");
  if (*keep == 0 && !damaged) return input_error("checkpoint prune needs how many to keep", "add --keep 3");
  const Result<int> every = whole_number(arguments, "every", 1, 0);
  if (!every) return tl::unexpected(every.error());
  const bool dry = arguments.has("dry-run");
  std::string text;
  ordered_json json = {{"dry_run", dry}, {"removed", ordered_json::array()}, {"set_aside", ordered_json::array()}};
  for (const std::string& address : addresses) {
    const Result<ExistingStore> existing = store::open_existing(address);
    if (!existing) return tl::unexpected(existing.error());
    if (!existing->checkpoint.empty()) {
      return input_error(fmt::format("{} is one checkpoint; prune takes a store", address),
                         "twinpod checkpoint prune " + existing->store.address);
    }
    const store::PruneRule rule{.keep = *keep == 0 ? INT_MAX : *keep, .every = *every};
    const Result<Pruned> pruned = prune_store(*existing, rule, damaged, dry);
    if (!pruned) return tl::unexpected(pruned.error());
    const std::string& shown = existing->store.address;
    text += pruned_text(shown, *pruned, dry);
    for (const std::string& name : pruned->plan.removed) json["removed"].push_back(shown + "/" + name);
    for (const std::string& name : pruned->damaged) json["removed"].push_back(shown + "/" + name);
    for (const std::string& name : pruned->plan.set_aside) json["set_aside"].push_back(shown + "/" + name);
  }
  return arguments.has("json") ? report::printed(json) : text;
}

struct CheckpointVerb {
  std::string_view name;
  Result<std::string> (*run)(const Arguments&, const std::vector<std::string>& words) = nullptr;
  std::size_t least = 1;  // words
  std::size_t most = 1;
  std::string_view example;
};

constexpr std::size_t kAny = 1000;
constexpr std::array kVerbs = {
    CheckpointVerb{"ls", ls, 1, kAny, "twinpod checkpoint ls runs/a"},
    CheckpointVerb{"verify", verify, 1, kAny, "twinpod checkpoint verify runs/a"},
    CheckpointVerb{"show", show_checkpoint, 1, 1, "twinpod checkpoint show runs/a --step 200"},
    CheckpointVerb{"diff", diff_checkpoints, 2, 2, "twinpod checkpoint diff runs/a runs/b"},
    CheckpointVerb{"prune", prune, 1, kAny, "twinpod checkpoint prune runs/a --keep 3"},
    CheckpointVerb{"export", export_checkpoint, 1, 1, "twinpod checkpoint export runs/a -o model.safetensors"},
    CheckpointVerb{"import", import_checkpoint, 1, kAny, "twinpod checkpoint import model.safetensors -o runs/b"},
};

Result<std::string> run_checkpoint(const Arguments& arguments) {
  const std::string given = arguments.words.empty() ? "" : arguments.words.front();
  std::vector<std::string> known;
  for (const CheckpointVerb& verb : kVerbs) {
    known.emplace_back(verb.name);
    if (verb.name != given) continue;
    const std::vector<std::string> words(arguments.words.begin() + 1, arguments.words.end());
    if (words.size() >= verb.least && words.size() <= verb.most) return verb.run(arguments, words);
    return input_error(fmt::format("checkpoint {} takes {}{}, but {} are given", given, verb.least,
                                   verb.most == verb.least ? "" : " or more", words.size()),
                       std::string(verb.example));
  }
  const std::string nearest = nearest_name(given, known);
  return input_error(
      given.empty() ? fmt::format("checkpoint takes one of {}", fmt::join(known, ", "))
                    : fmt::format("checkpoint: found `{}`, expected one of {}", given, fmt::join(known, ", ")),
      nearest.empty() ? "twinpod checkpoint ls runs/a" : fmt::format("did you mean `twinpod checkpoint {}`?", nearest));
}

}  // namespace

const Command kCheckpoint = {"checkpoint",
                             "ls|verify|show|diff|prune|export|import DIR...",
                             "checkpoints of a store: what there is, whether it is whole, what is in it",
                             "twinpod checkpoint ls runs/a /nfs/runs/a\n"
                             "twinpod checkpoint verify runs/a\n"
                             "twinpod checkpoint show runs/a --step 200 --tensor embedding.tokens\n"
                             "twinpod checkpoint diff runs/a/checkpoint-000002 runs/a/checkpoint-000003\n"
                             "twinpod checkpoint prune runs/a --keep 3 --every 1000 --dry-run\n"
                             "twinpod checkpoint export runs/a -o model.safetensors\n"
                             "twinpod checkpoint import model.safetensors -o runs/b\n",
                             kFlagsOfCheckpoint,
                             run_checkpoint};

}  // namespace twinpod::cli
