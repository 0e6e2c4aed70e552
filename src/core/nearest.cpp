#include "core/nearest.hpp"

#include <algorithm>
#include <tuple>

namespace twinpod {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Both in lower case. A fragment must be long enough to mean something: `a` is in almost every name.
bool contains_either_way(const std::string& a, const std::string& b) {
  const std::string& shorter = a.size() <= b.size() ? a : b;
  const std::string& longer = a.size() <= b.size() ? b : a;
  const bool telling = shorter.size() >= 3 || 2 * shorter.size() >= longer.size();
  return !shorter.empty() && telling && longer.find(shorter) != std::string::npos;
}

bool near_enough(int distance, std::size_t longer) {
  const int length = static_cast<int>(longer);
  return distance < length && distance <= std::max(1, length / 3);
}

}  // namespace

int edit_distance(std::string_view a_text, std::string_view b_text) {
  const std::string a = lower(a_text);
  const std::string b = lower(b_text);
  // Three rows of the usual table: `before` two above, `above` one above, `row` the one being filled.
  std::vector<int> before(b.size() + 1);
  std::vector<int> above(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  // A candidate that contains the name ranks with those one edit away, and before them: h100 means h100-sxm, not a100.
  // One that is contained in the name is near enough, but ranks by its distance.
  using Rank = std::tuple<int, bool, int>;
  const std::string wanted = lower(name.substr(0, 200));  // longer ones are no names, and would take long
  const std::string* best = nullptr;
  Rank best_rank;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(wanted, candidate);
    const bool contained = contains_either_way(wanted, lower(candidate));
    if (!contained && !near_enough(distance, std::max(wanted.size(), candidate.size()))) continue;
    const bool extends = lower(candidate).find(wanted) != std::string::npos;
    const Rank rank{extends ? std::min(1, distance) : distance, !contained, distance};
    if (best != nullptr && best_rank <= rank) continue;
    best = &candidate;
    best_rank = rank;
  }
  return best == nullptr ? "" : *best;
}

}  // namespace twinpod
