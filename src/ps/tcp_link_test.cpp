#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "ps/client.hpp"
#include "ps/controller.hpp"

namespace twinpod::ps {
namespace {

// A port that nobody listens on.
int free_port() {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(file, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return ntohs(address.sin_port);
}

std::vector<Address> local_addresses(int nodes) {
  std::vector<Address> addresses;
  for (NodeId id = 0; id < nodes; ++id) addresses.push_back({id, fmt::format("tcp://127.0.0.1:{}", free_port())});
  return addresses;
}

TEST(PsTcp, CarriesMessagesWithTheirPayloads) {
  const std::vector<Address> addresses = local_addresses(2);
  const Result<Link> a = tcp_link(0, addresses);
  const Result<Link> b = tcp_link(1, addresses);
  ASSERT_TRUE(a && b);
  for (const std::size_t count : {0U, 3U, 1000000U}) {
    Message message{.kind = Kind::push, .from = 0, .to = 1, .sequence = count};
    message.payload = payload_of(std::vector<float>(count, 2.5F));
    a->send(a->state, message);
    Message got;
    for (int i = 0; i < 2000 && !b->receive(b->state, got); ++i) b->rest(b->state);
    EXPECT_EQ(got.sequence, count);
    ASSERT_EQ(floats_of(got.payload).size(), count);
    EXPECT_TRUE(count == 0 || floats_of(got.payload)[count - 1] == 2.5F);
  }
  a->close(a->state);
  b->close(b->state);
}

TEST(PsTcp, SaysWhatItCannotListenOn) {
  const std::vector<Address> addresses = local_addresses(1);
  const Result<Link> first = tcp_link(0, addresses);
  ASSERT_TRUE(first);
  const Result<Link> second = tcp_link(0, addresses);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(addresses[0].endpoint), std::string::npos);
  EXPECT_FALSE(tcp_link(7, addresses));
  first->close(first->state);
}

// A controller, two servers and two workers, each with its own sockets. One server falls silent, and is missed.
TEST(PsTcp, TrainsOverTcpAndMissesWhoFallsSilent) {
  constexpr int kNodes = 5;
  const std::vector<Address> addresses = local_addresses(kNodes);
  const std::vector<Shard> shards = shards_of({.counts = {20000}, .most = 5000});
  const Settings settings{.mode = Mode::sync, .mean = false, .optimizer = Optimizer::add};
  std::atomic<bool> over = false;
  std::atomic<bool> silent = false;
  const auto control = [&] {
    const Link link = *tcp_link(kController, addresses);
    Controller controller{.settings = {.copies = 2, .servers = 2, .workers = 2, .silent_ticks = 40}, .shards = shards};
    Outbox out;
    Message message;
    std::int64_t next = 0;
    while (!over) {
      while (link.receive(link.state, message)) handle(controller, message, out);
      if (comm::now_ns() >= next) {
        tick(controller, out);
        next = comm::now_ns() + 10'000'000;
      }
      send_all(link, out);
      link.rest(link.state);
    }
    EXPECT_EQ(controller.view.servers.size(), 1U);
    link.close(link.state);
  };
  const auto be_server = [&](NodeId id) {
    const Link link = *tcp_link(id, addresses);
    Server server{.id = id, .settings = settings, .shards = shards};
    serve(link, server, 0.01, [&](const Server&) { return over || (silent && id == 1); });
    link.close(link.state);
  };
  std::array<float, 2> last{};
  const auto work = [&](NodeId id) {
    Client client = make_client(*tcp_link(id, addresses), id, shards, {.tick_s = 0.01});
    ASSERT_TRUE(join(client, [&](ShardId) { return payload_of(std::vector<float>(5000)); }));
    while (client.worker.clock < 40) {
      const auto values = pull_all(client);
      ASSERT_TRUE(values) << to_string(values.error());
      if (client.worker.clock == 20) silent = true;
      push_all(client, std::vector<Payload>(shards.size(), payload_of(std::vector<float>(5000, 1))), 0);
    }
    const auto values = pull_all(client);
    ASSERT_TRUE(values) << to_string(values.error());
    last[static_cast<std::size_t>(id - 3)] = floats_of((*values)[3].values)[4999];
    ASSERT_TRUE(leave(client));
    client.link.close(client.link.state);
  };
  std::vector<std::thread> others;
  others.emplace_back(control);
  for (const NodeId id : {1, 2}) others.emplace_back(be_server, id);
  std::thread one(work, 3);
  std::thread two(work, 4);
  one.join();
  two.join();
  over = true;
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(last[0], 80);
  EXPECT_EQ(last[1], 80);
}

}  // namespace
}  // namespace twinpod::ps
