#include "train/agree.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace twinpod::train {
namespace {

// As it is sent; a longer text is cut.
struct Sent {
  std::int32_t refused = 0;
  std::int32_t kind = 0;
  std::array<char, 2040> message{};
  std::array<char, 512> hint{};
};
static_assert(sizeof(Sent) % sizeof(std::int32_t) == 0);

template <std::size_t N>
void write_text(std::array<char, N>& to, const std::string& text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

// With its place, which has no field of its own in what is sent.
std::string message_of(const Error& error) {
  Error plain = error;
  plain.hint.clear();
  std::string text = to_string(plain);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Sent sent_of(const Result<void>& own) {
  Sent sent;
  if (own) return sent;
  sent.refused = 1;
  sent.kind = static_cast<std::int32_t>(own.error().kind);
  write_text(sent.message, message_of(own.error()));
  write_text(sent.hint, own.error().hint);
  return sent;
}

}  // namespace

Result<std::optional<Error>> agree(comm::Communicator& world, const Result<void>& own, std::span<std::int32_t> votes) {
  std::vector<std::int32_t> largest(votes.begin(), votes.end());
  largest.push_back(own ? 0 : 1);
  comm::Call call{.verb = comm::Verb::all_reduce,
                  .input = largest.data(),
                  .output = largest.data(),
                  .count = largest.size(),
                  .type = comm::ElementType::i32,
                  .op = comm::ReduceOp::max};
  if (comm::size_of(world) > 1) {
    if (Result<void> done = comm::run(world, call); !done) return tl::unexpected(done.error());
  }
  std::copy_n(largest.begin(), votes.size(), votes.begin());
  if (largest.back() == 0) return std::nullopt;
  const Sent sent = sent_of(own);
  std::vector<Sent> all(static_cast<std::size_t>(comm::size_of(world)), sent);
  if (all.size() > 1) {
    call = {.verb = comm::Verb::all_gather,
            .input = &sent,
            .output = all.data(),
            .count = sizeof(Sent) / sizeof(std::int32_t),
            .type = comm::ElementType::i32};
    if (Result<void> done = comm::run(world, call); !done) return tl::unexpected(done.error());
  }
  const auto first = std::find_if(all.begin(), all.end(), [](const Sent& one) { return one.refused != 0; });
  return Error{static_cast<ErrorKind>(first->kind), first->message.data(), first->hint.data(), "", 0, 0};
}

}  // namespace twinpod::train
