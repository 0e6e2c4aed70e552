#include "cluster/nccl_topology_xml.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cluster/measure.hpp"
#include "cluster/route.hpp"

namespace twinpod::cluster {
namespace {

// Two GPUs and a NIC behind one PCIe switch, a third GPU on the other socket.
constexpr const char* kSystem = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:02:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:05:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="2" sm="80" rank="2" gdr="1"/>
    </pci>
  </cpu>
</system>
)";

Graph parsed(const std::string& text) {
  Result<Graph> graph = parse_nccl_topology(text, "s.xml");
  EXPECT_TRUE(graph.has_value()) << to_string(graph.error());
  return graph ? std::move(*graph) : Graph{};
}

std::string refusal(const std::string& text) {
  const Result<Graph> graph = parse_nccl_topology(text, "s.xml");
  EXPECT_FALSE(graph.has_value());
  return graph ? "" : to_string(graph.error());
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kSystem;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(NcclTopology, GpusSwitchesAndNetsAreRead) {
  const Graph graph = parsed(kSystem);
  EXPECT_EQ(graph.num_devices(), 3);
  for (const char* const name : {"gpu0", "gpu2", "cpu1", "mlx5_0"}) EXPECT_GE(find_vertex(graph, name), 0) << name;
}

TEST(NcclTopology, NeighboursTalkOverNvlink) {
  const Graph graph = parsed(kSystem);
  const std::vector<int> links = route(graph, 0, 1, Routing::ecmp);
  ASSERT_EQ(links.size(), 1U);
  EXPECT_DOUBLE_EQ(graph.links[links[0]].bytes_per_s, 4 * 25e9);
  EXPECT_EQ(graph.links[links[0]].cables, 4);
}

TEST(NcclTopology, SocketsAreCrossed) {
  const Graph graph = parsed(kSystem);
  std::vector<std::string> names;
  for (const int link : route(graph, 0, 2, Routing::ecmp)) names.push_back(vertex_name(graph, graph.links[link].to));
  EXPECT_EQ(names, (std::vector<std::string>{"pcie(0000:01:00.0)", "cpu0", "cpu1", "gpu2"}));
}

TEST(NcclTopology, NvSwitchesAreOneVertex) {
  const std::string switched = R"(<system version="1"><cpu numaid="0">
<pci busid="0:1" class="0x060400"><pci busid="0:2"><gpu dev="0" sm="90"><nvlink target="0:a" count="9" tclass="0x068000"/>
<nvlink target="0:b" count="9" tclass="0x068000"/></gpu></pci><pci busid="0:3"><gpu dev="1" sm="90">
<nvlink target="0:a" count="9" tclass="0x068000"/><nvlink target="0:b" count="9" tclass="0x068000"/></gpu></pci></pci>
</cpu></system>)";
  const Graph graph = parsed(switched);
  const std::vector<int> links = route(graph, 0, 1, Routing::ecmp);
  ASSERT_EQ(links.size(), 2U) << "not over the PCIe switch, which is as near";
  EXPECT_DOUBLE_EQ(graph.links[links[0]].bytes_per_s, 450e9);
  EXPECT_EQ(graph.vertices[graph.links[links[0]].to].count, 2);
}

TEST(NcclTopology, GpusOfAFileForVirtualMachinesAreKnownByTheirClass) {
  EXPECT_EQ(parsed(R"(<system version="1"><cpu numaid="0"><pci busid="ffff:ff:01.0" class="0x060400">
<pci busid="0001:00:00.0" class="0x030200"/><pci busid="0101:00:00.0" class="0x020700"/></pci></cpu></system>)")
                .num_devices(),
            1);
}

TEST(NcclTopology, MalformedXmlIsRefusedWithItsLine) {
  EXPECT_EQ(refusal("<system>\n<cpu>\n</system>\n"), "s.xml:3: this is no XML: Start-end tags mismatch");
  EXPECT_TRUE(refusal("").starts_with("s.xml:1: this is no XML")) << refusal("");
}

TEST(NcclTopology, WrongContentIsRefusedWithItsLine) {
  EXPECT_EQ(refusal("<graphs version=\"1\"/>"), "s.xml:1: the file holds <graphs>; expected <system> of NCCL");
  EXPECT_EQ(refusal(with("count=\"4\"", "count=\"four\"")),
            "s.xml:6: count of <nvlink> is `four`; expected a whole number");
  EXPECT_EQ(refusal(with("count=\"4\"", "count=\"3\"")), "s.xml:11: 3 links one way, but 4 the other");
  EXPECT_EQ(refusal(with("target=\"0000:03:00.0\"", "target=\"0000:99:00.0\"")),
            "s.xml:6: a link goes to 0000:99:00.0, which is no busid of this file");
  EXPECT_EQ(refusal(with("busid=\"0000:05:00.0\"", "busid=\"0000:04:00.0\"")),
            "s.xml:22: busid 0000:04:00.0 stands twice");
  EXPECT_EQ(refusal(with("<nic>", "<nix>")).substr(0, 20), "s.xml:17: this is no");
}

TEST(NcclTopology, ASecondGpuOfOnePciIsRefused) {
  EXPECT_EQ(
      refusal(
          "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0:1\"><gpu dev=\"0\"/>\n<gpu dev=\"1\"/></pci></cpu>"
          "</system>")
          .substr(0, 48),
      "s.xml:2: a second <gpu> in one <pci>; expected o");
}

TEST(NcclTopology, ALinkFasterThanAnyIsRefused) {
  for (const char* const speed : {"1e308", "nan", "inf"}) {
    EXPECT_NE(
        refusal(fmt::format("<system><cpu><pci busid=\"0:1\" link_speed=\"{}\"><gpu/></pci></cpu></system>", speed))
            .find("expected at most 10000 GT/s"),
        std::string::npos)
        << speed;
  }
}

TEST(NcclTopology, AFileWithoutGpusIsRefused) {
  EXPECT_EQ(refusal("<system version=\"1\"><cpu numaid=\"0\"/></system>").substr(0, 28),
            "s.xml:1: the file has no gpu");
}

TEST(NcclTopology, AFileThatIsNotThereIsRefused) {
  EXPECT_EQ(read_nccl_topology("/nowhere/s.xml").error().message,
            "cannot be read: No such file or directory; expected a topology that NCCL wrote");
}

}  // namespace
}  // namespace twinpod::cluster
