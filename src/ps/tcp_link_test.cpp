#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "ps/client.hpp"
#include "ps/controller.hpp"
#include "ps/tcp.hpp"

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

TcpOptions local_options(int nodes) {
  TcpOptions options{.key = random_key()};
  for (NodeId id = 0; id < nodes; ++id)
    options.addresses.push_back({id, fmt::format("tcp://127.0.0.1:{}", free_port())});
  return options;
}

// What is sent is there, within two seconds.
bool arrives(const Link& link, Message& got) {
  for (int i = 0; i < 400; ++i) {
    if (link.receive(link.state, got)) return true;
    link.rest(link.state);
  }
  return false;
}

// A process of the job, that says what it wants to: what was heard of it.
Message heard_of(Message message, TcpOptions options, Strangers& strangers, const PayloadBounds& bounds = {}) {
  const Result<Link> peer = tcp_link(1, options);
  options.strangers = &strangers;
  options.bounds = bounds;
  const Result<Link> link = tcp_link(0, options);
  message.to = 0;
  peer->send(peer->state, std::move(message));
  Message got{.kind = Kind::ack};
  for (int i = 0; i < 400 && strangers.messages == 0 && !link->receive(link->state, got); ++i) link->rest(link->state);
  peer->close(peer->state);
  link->close(link->state);
  return got;
}

TEST(PsTcp, CarriesMessagesWithTheirPayloads) {
  const TcpOptions options = local_options(2);
  const Result<Link> a = tcp_link(0, options);
  const Result<Link> b = tcp_link(1, options);
  ASSERT_TRUE(a && b);
  for (const std::size_t count : {0U, 3U, 1000000U, 6000000U}) {
    Message message{.kind = Kind::push, .from = 0, .to = 1, .worker = 0, .sequence = count};
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
  const TcpOptions options = local_options(1);
  const Result<Link> first = tcp_link(0, options);
  ASSERT_TRUE(first);
  const Result<Link> second = tcp_link(0, options);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(options.addresses[0].endpoint), std::string::npos);
  EXPECT_FALSE(tcp_link(7, options));
  first->close(first->state);
}

// A controller, two servers and two workers, each with its own sockets. One server falls silent, and is missed.
TEST(PsTcp, TrainsOverTcpAndMissesWhoFallsSilent) {
  constexpr int kNodes = 5;
  const TcpOptions options = local_options(kNodes);
  const std::vector<Shard> shards = shards_of({.counts = {20000}, .most = 5000});
  const Settings settings{.mode = Mode::sync, .mean = false, .optimizer = Optimizer::add};
  std::atomic<bool> over = false;
  std::atomic<bool> silent = false;
  const auto control = [&] {
    const Link link = *tcp_link(kController, options);
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
    const Link link = *tcp_link(id, options);
    Server server{.id = id, .settings = settings, .shards = shards};
    serve(link, server, 0.01, [&](const Server&) { return over || (silent && id == 1); });
    link.close(link.state);
  };
  std::array<float, 2> last{};
  const auto work = [&](NodeId id) {
    Client client = make_client(*tcp_link(id, options), id, shards, {.tick_s = 0.01});
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

TEST(PsTcp, TurnsAwayWhoHasAnotherKey) {
  Strangers strangers;
  TcpOptions options = local_options(2);
  options.strangers = &strangers;
  const Result<Link> link = tcp_link(0, options);
  TcpOptions other = options;
  Strangers impostors;
  other.strangers = &impostors;
  other.key = random_key();
  const Result<Link> peer = tcp_link(1, other);
  peer->send(peer->state, {.kind = Kind::leave, .from = 1, .to = 0});
  Message got;
  for (int i = 0; i < 400 && strangers.connections == 0; ++i) link->rest(link->state);
  EXPECT_FALSE(link->receive(link->state, got));
  EXPECT_GE(strangers.connections, 1U);
  EXPECT_STREQ(strangers.callers[0].address.data(), "127.0.0.1");
  peer->close(peer->state);
  link->close(link->state);
  EXPECT_GE(impostors.impostors, 1U);
}

TEST(PsTcp, HearsAMessageOfItsSender) {
  Strangers strangers;
  EXPECT_EQ(heard_of({.kind = Kind::leave, .from = 1}, local_options(3), strangers).kind, Kind::leave);
  EXPECT_EQ(strangers.messages, 0U);
}

TEST(PsTcp, DoesNotHearALeaveInTheNameOfAnother) {
  Strangers strangers;
  EXPECT_EQ(heard_of({.kind = Kind::leave, .from = 2}, local_options(3), strangers).kind, Kind::ack);
  EXPECT_EQ(strangers.messages, 1U);
}

TEST(PsTcp, DoesNotHearAPushInTheNameOfAnother) {
  Strangers strangers;
  EXPECT_EQ(heard_of({.kind = Kind::push, .from = 1, .worker = 2}, local_options(3), strangers).kind, Kind::ack);
  EXPECT_EQ(strangers.messages, 1U);
}

TEST(PsTcp, HearsViewsOfTheControllerAlone) {
  EXPECT_TRUE(may_say(0, {.kind = Kind::view, .from = 0, .to = 3}, {}));
  EXPECT_FALSE(may_say(1, {.kind = Kind::view, .from = 1, .to = 3}, {}));
}

TEST(PsTcp, HearsOfALauncherThatAProcessOfItsHostIsDead) {
  EXPECT_TRUE(may_say(1, {.kind = Kind::leave, .from = 5, .to = kController}, {.launchers = 2}));
  EXPECT_FALSE(may_say(1, {.kind = Kind::leave, .from = 4, .to = kController}, {.launchers = 2}));
  EXPECT_FALSE(may_say(3, {.kind = Kind::leave, .from = 5, .to = kController}, {.launchers = 2}));
}

TEST(PsTcp, DoesNotReadAPayloadThatIsTooLarge) {
  Strangers strangers;
  Message push{.kind = Kind::push, .from = 1, .worker = 1};
  push.payload = payload_of(std::vector<float>(100'000));
  EXPECT_EQ(heard_of(push, local_options(2), strangers, {.values = 300'000, .state = 1000, .other = 1000}).kind,
            Kind::ack);
  EXPECT_EQ(strangers.messages, 1U);
}

// Without reading on: what is announced is not what is taken.
TEST(PsTcp, KeepsWhatNobodyTakesAtItsSender) {
  constexpr std::size_t kFloats = 1 << 20;
  const TcpOptions options = local_options(2);
  const Result<Link> a = tcp_link(0, options);
  const Result<Link> b = tcp_link(1, options);
  const auto values = std::make_shared<const Values>(kFloats);
  for (int i = 0; i < 120; ++i) {
    Message message{.kind = Kind::state, .from = 0, .to = 1, .position = static_cast<std::uint64_t>(i)};
    message.payload = payload_of(values);
    a->send(a->state, message);
  }
  while (values.use_count() > 100) usleep(1000);  // a part of it is gone
  usleep(300'000);
  EXPECT_GT(values.use_count(), 40);  // 256 MiB of 480, and what sockets hold
  Message got;
  for (int i = 0; i < 120; ++i) ASSERT_TRUE(arrives(*b, got));
  a->close(a->state);
  b->close(b->state);
}

// A network that is slower than what comes again would else carry nothing but what it has carried before.
TEST(PsTcp, SendsWhatIsLargeOnceBeforeItSendsItAgain) {
  const TcpOptions options = local_options(2);
  const Result<Link> a = tcp_link(0, options);
  const auto values = std::make_shared<const Values>(100'000);
  for (int i = 0; i < 50; ++i) {  // nobody listens yet
    Message message{.kind = Kind::push, .from = 0, .to = 1, .worker = 0, .sequence = 7};
    message.payload = payload_of(values);
    a->send(a->state, message);
  }
  const Result<Link> b = tcp_link(1, options);
  Message got;
  EXPECT_TRUE(arrives(*b, got));
  EXPECT_FALSE(arrives(*b, got));
  a->close(a->state);
  b->close(b->state);
}

TEST(PsTcp, SendsOffWhoSaysNothing) {
  Strangers strangers;
  TcpOptions options = local_options(1);
  options.strangers = &strangers;
  options.own_thread = false;
  const Result<Link> link = tcp_link(0, options);
  const std::string& endpoint = options.addresses[0].endpoint;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  std::vector<int> files;
  for (int i = 0; i < 80; ++i) {
    files.push_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(files.back(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    link->rest(link->state);
  }
  EXPECT_EQ(strangers.connections, 16U);  // 64 have a place
  usleep(600'000);
  link->close(link->state);
  EXPECT_EQ(strangers.connections, 80U);
  for (const int file : files) close(file);
}

TEST(PsTcp, FindsEachOtherWithoutThreads) {
  TcpOptions options = local_options(2);
  options.own_thread = false;
  const Result<Link> a = tcp_link(0, options);
  const Result<Link> b = tcp_link(1, options);
  Message push{.kind = Kind::view, .from = 0, .to = 1};
  push.payload = payload_of(std::vector<float>(50'000, 1.5F));
  a->send(a->state, push);
  Message got;
  for (int i = 0; i < 400 && !b->receive(b->state, got); ++i) {
    Message none;
    a->receive(a->state, none);
    usleep(1000);
  }
  EXPECT_EQ(floats_of(got.payload).size(), 50'000U);
  a->close(a->state);
  b->close(b->state);
}

}  // namespace
}  // namespace twinpod::ps
