// Bytes from anywhere are a message or are refused, and so is what the message carries; a server, a worker and the
// controller take any message without harm.
#include <cstdlib>

#include "ps/controller.hpp"
#include "ps/server.hpp"
#include "ps/worker.hpp"

using namespace twinpod::ps;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  auto kept = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const twinpod::Result<Message> message = decode(*kept, kept);
  if (!message) return 0;
  const std::vector<std::byte> again = encode(*message);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();

  const std::vector<Shard> shards = {{.tensor = 0, .first = 0, .count = 3}};
  (void)decode_state(message->payload, shards[0]);
  Message view{.kind = Kind::view, .from = kController, .to = 1, .view = 1};
  view.payload = encode_view({.number = 1, .servers = {1}, .workers = {2}, .chains = {{{1, 1, true}}}});
  Outbox out;
  Server server{.id = 1, .settings = {.clip = 1}, .shards = shards};
  handle(server, view, out);
  handle(server, *message, out);
  Worker worker{.id = 2, .shards = shards};
  start(worker, out);
  handle(worker, view, out);
  begin(worker, out);
  handle(worker, *message, out);
  Controller controller{.settings = {.copies = 1}, .shards = shards};
  handle(controller, *message, out);
  return 0;
}
