#include "ps/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ps/bytes.hpp"

namespace twinpod::ps {
namespace {

constexpr std::uint32_t kMagic = 0x31507754;  // "TwP1"
constexpr std::uint64_t kMostPayload = std::uint64_t{1} << 40U;
constexpr std::int64_t kMostClock = std::int64_t{1} << 60U;  // sums of clocks do not overflow

constexpr std::array<std::string_view, kNumKinds> kKindNames = {
    "initial", "push",   "clock", "ack",   "pull", "values",   "forward", "backup_ack", "state_request",
    "state",   "synced", "join",  "leave", "view", "view_ack", "barrier", "squares",    "norm"};

template <typename T>
void put(std::byte*& at, T value) {
  std::memcpy(at, &value, sizeof value);
  at += sizeof value;
}

// Lower goes first.
int priority_of(const Message& message) {
  switch (message.kind) {
    case Kind::initial:
    case Kind::push:
    case Kind::clock:
    case Kind::values:
    case Kind::forward:
    case Kind::state:
      return message.shard;
    default:
      return -1;
  }
}

}  // namespace

std::string_view name_of(Kind kind) { return kKindNames.at(static_cast<std::size_t>(kind)); }

Payload payload_of(std::vector<float> values) {
  auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  const std::span<const std::byte> span = std::as_bytes(std::span<const float>(*kept));
  return {std::move(kept), span};
}

Payload payload_of(std::vector<std::byte> bytes) {
  auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> span(*kept);
  return {std::move(kept), span};
}

Payload payload_of(std::shared_ptr<const Values> values) {
  const std::span<const std::byte> span = std::as_bytes(std::span<const float>(*values));
  return {std::move(values), span};
}

std::span<const float> floats_of(const Payload& payload) {
  const std::byte* const data = payload.bytes.data();
  const std::size_t bytes = payload.bytes.size();
  if (bytes % sizeof(float) != 0 || reinterpret_cast<std::uintptr_t>(data) % alignof(float) != 0) return {};
  return {reinterpret_cast<const float*>(data), bytes / sizeof(float)};
}

HeaderBytes encode_header(const Message& message) {
  HeaderBytes header{};
  std::byte* at = header.data();
  put(at, kMagic);
  put(at, static_cast<std::uint8_t>(message.kind));
  put(at, static_cast<std::uint8_t>(message.entry));
  put(at, static_cast<std::uint8_t>(message.encoding));
  put(at, static_cast<std::uint8_t>(message.role));
  put(at, message.from);
  put(at, message.to);
  put(at, message.shard);
  put(at, message.worker);
  put(at, message.view);
  put(at, message.sequence);
  put(at, message.clock);
  put(at, message.oldest);
  put(at, message.position);
  put(at, message.rate);
  put(at, message.sent_ns);
  put(at, static_cast<std::uint64_t>(message.payload.bytes.size()));  // the last 8 bytes are 0
  return header;
}

Result<Header> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) {
    return input_error(fmt::format("a message of {} bytes; the header alone has {}", bytes.size(), kHeaderBytes));
  }
  ByteReader reader{bytes};
  const auto magic = reader.take<std::uint32_t>();
  if (magic != kMagic) return input_error(fmt::format("a message that starts with {:08x}, not {:08x}", magic, kMagic));
  const auto kind = reader.take<std::uint8_t>();
  const auto entry = reader.take<std::uint8_t>();
  const auto encoding = reader.take<std::uint8_t>();
  const auto role = reader.take<std::uint8_t>();
  if (kind >= kNumKinds || entry >= kNumKinds || encoding >= kNumEncodings || role > 1) {
    return input_error(
        fmt::format("a message of kind {}, entry {}, encoding {}, role {}; the last of each are {}, {}, "
                    "{} and 1",
                    kind, entry, encoding, role, kNumKinds - 1, kNumKinds - 1, kNumEncodings - 1));
  }
  Header header;
  Message& message = header.message;
  message.kind = static_cast<Kind>(kind);
  message.entry = static_cast<Kind>(entry);
  message.encoding = static_cast<Encoding>(encoding);
  message.role = static_cast<Role>(role);
  message.from = reader.take<NodeId>();
  message.to = reader.take<NodeId>();
  message.shard = reader.take<ShardId>();
  message.worker = reader.take<NodeId>();
  message.view = reader.take<std::uint64_t>();
  message.sequence = reader.take<std::uint64_t>();
  message.clock = reader.take<std::int64_t>();
  message.oldest = reader.take<std::int64_t>();
  message.position = reader.take<std::uint64_t>();
  message.rate = reader.take<double>();
  message.sent_ns = reader.take<std::int64_t>();
  const auto payload = reader.take<std::uint64_t>();
  const auto spare = reader.take<std::uint64_t>();
  if (spare != 0) return input_error(fmt::format("a message whose header ends in {:016x}, not in 0", spare));
  if (message.clock < -1 || message.clock > kMostClock || message.oldest < -1 || message.oldest > kMostClock) {
    return input_error(fmt::format("a message of clock {}, oldest {}; from -1 on", message.clock, message.oldest));
  }
  if (payload > kMostPayload) return input_error(fmt::format("a message with {} bytes behind its header", payload));
  header.payload_bytes = static_cast<std::size_t>(payload);
  return header;
}

std::vector<std::byte> encode(const Message& message) {
  const HeaderBytes header = encode_header(message);
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), message.payload.bytes.begin(), message.payload.bytes.end());
  return bytes;
}

Result<Message> decode(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  Result<Header> header = decode_header(bytes);
  if (!header) return tl::unexpected(header.error());
  if (bytes.size() - kHeaderBytes != header->payload_bytes) {
    return input_error(fmt::format("{} bytes behind the header of a message that says {}", bytes.size() - kHeaderBytes,
                                   header->payload_bytes));
  }
  header->message.payload = {std::move(owner), bytes.subspan(kHeaderBytes)};
  return std::move(header->message);
}

void order_by_priority(Outbox& outbox) {
  std::stable_sort(outbox.begin(), outbox.end(),
                   [](const Message& a, const Message& b) { return priority_of(a) < priority_of(b); });
}

}  // namespace twinpod::ps
