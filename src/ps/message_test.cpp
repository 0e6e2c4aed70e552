#include "ps/message.hpp"

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "ps/shards.hpp"
#include "ps/state.hpp"

namespace twinpod::ps {
namespace {

Message a_push() {
  Message message{.kind = Kind::push, .encoding = Encoding::bf16, .from = 7, .to = 2, .shard = 5, .worker = 7};
  message.view = 3;
  message.sequence = 11;
  message.clock = 10;
  message.rate = 0.25;
  message.payload = payload_of(std::vector<float>{1, 2, 3});
  return message;
}

TEST(PsMessage, IsReadAsItWasWritten) {
  const Message message = a_push();
  const std::vector<std::byte> bytes = encode(message);
  EXPECT_EQ(bytes.size(), kHeaderBytes + 12);
  const Result<Message> again = decode(bytes, nullptr);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(encode(*again), bytes);
  EXPECT_EQ(again->clock, 10);
  EXPECT_EQ(again->rate, 0.25);
  EXPECT_EQ(floats_of(again->payload)[2], 3);
}

TEST(PsMessage, CarriesItsPayloadWithoutCopyingIt) {
  auto values = std::make_shared<const Values>(1000, 2.0F);
  Message message;
  message.payload = payload_of(values);
  const Message copy = message;
  EXPECT_EQ(floats_of(copy.payload).data(), values->data());
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode(message));
  const Result<Message> read = decode(*bytes, bytes);
  EXPECT_EQ(read->payload.bytes.data(), bytes->data() + kHeaderBytes);
}

TEST(PsMessage, RefusesWhatIsNone) {
  std::vector<std::byte> bytes = encode(a_push());
  EXPECT_FALSE(decode(std::span(bytes).first(20), nullptr));
  EXPECT_FALSE(decode(std::span(bytes).first(bytes.size() - 1), nullptr));
  std::vector<std::byte> other = bytes;
  other[4] = std::byte{200};  // the kind
  EXPECT_NE(to_string(decode(other, nullptr).error()).find("kind 200"), std::string::npos);
  bytes[0] = std::byte{0};
  EXPECT_FALSE(decode(bytes, nullptr));
}

TEST(PsMessage, GoesInTheOrderInWhichTheForwardPassNeedsIt) {
  Outbox out;
  for (const ShardId shard : {3, 1, 2, 1}) {
    out.push_back({.kind = Kind::push, .shard = shard, .sequence = out.size()});
  }
  out.push_back({.kind = Kind::ack, .shard = 9});
  order_by_priority(out);
  EXPECT_EQ(out[0].kind, Kind::ack);
  EXPECT_EQ(out[1].sequence, 1U);
  EXPECT_EQ(out[2].sequence, 3U);
  EXPECT_EQ(out[4].shard, 3);
}

// Any change of any byte is read or refused; what is inside is looked at only then.
TEST(PsMessage, ReadsOrRefusesDamagedBytes) {
  const Shard shard{.count = 3};
  ShardState state = empty_state(shard);
  state.waiting.push_back({.worker = 1, .gradient = payload_of(std::vector<float>{1, 2, 3})});
  state.workers.push_back({.worker = 1});
  state.pending = Pending{{1, 2, 3}, 2, 0.5, 0.1};
  state.squares = {{3, {1, 2}}, {4, {}}};
  const View view{.number = 2, .servers = {1}, .workers = {4, 5}, .chains = {{{1, 1, true}}, {}}};
  Message message = a_push();
  Rng rng(1);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    message.payload = i % 2 == 0 ? encode_state(state) : encode_view(view);
    std::vector<std::byte> bytes = encode(message);
    for (std::uint64_t k = 0; k <= rng.below(3); ++k) bytes[rng.below(bytes.size())] = std::byte(rng.below(256));
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size()));
    const Result<Message> result = decode(bytes, nullptr);
    if (!result) continue;
    ++read;
    (void)decode_view(result->payload);
    (void)decode_state(result->payload, shard);
  }
  EXPECT_GT(read, 100);
}

TEST(PsMessage, AStateIsReadAsItWasWritten) {
  const Shard shard{.count = 3};
  ShardState state = empty_state(shard);
  state.waiting.push_back({.worker = 1, .clock = 4, .gradient = payload_of(std::vector<float>{1, 2, 3})});
  state.workers = {{.worker = 1, .sequence = 5, .clock = 4}, {.worker = 3}};
  state.mean = {1, 2, 3};
  state.pending = Pending{{1, 2, 3}, 2, 0.5, 0.1};
  state.squares = {{3, {1, 2}}, {4, {}}};
  const Payload bytes = encode_state(state);
  const Result<ShardState> again = decode_state(bytes, shard);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->pending->gradient[2], 3);
  EXPECT_EQ(again->squares[0].parts[1], 2);
  const Payload second = encode_state(*again);
  EXPECT_TRUE(std::equal(bytes.bytes.begin(), bytes.bytes.end(), second.bytes.begin(), second.bytes.end()));
  EXPECT_FALSE(decode_state(bytes, {.count = 4}));
}

}  // namespace
}  // namespace twinpod::ps
