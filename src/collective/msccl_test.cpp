#include "collective/msccl.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "collective/check.hpp"
#include "collective/phases.hpp"
#include "collective/test_cases.hpp"

namespace twinpod::collective {
namespace {

class EveryExport : public testing::TestWithParam<Pair> {};
INSTANTIATE_TEST_SUITE_P(Collective, EveryExport, testing::ValuesIn(pairs()), test_name);

bool msccl_says(const Pair& pair) {
  return pair.verb != Verb::send && pair.verb != Verb::barrier && pair.algorithm != Algorithm::in_network;
}

// Chunks that go from rank to rank in all.
std::map<std::pair<int, int>, int> moved(const Schedule& schedule) {
  std::map<std::pair<int, int>, int> chunks;
  for (const Round& round : schedule.rounds) {
    for (const Step& step : round.steps) {
      if (step.from != step.to) chunks[{step.from, step.to}] += step.count;
    }
  }
  return chunks;
}

std::size_t rounds_that_move(const Schedule& schedule) {
  std::size_t number = 0;
  for (const Round& round : schedule.rounds) {
    number += transfers_of(schedule, round, 1).empty() ? 0 : 1;
  }
  return number;
}

TEST_P(EveryExport, IsReadBackProvedAndMovesTheSame) {
  const auto [verb, algorithm] = GetParam();
  if (!msccl_says(GetParam())) return;
  for (int n = 1; n <= 10; ++n) {
    for (const Shape& shape : shapes(verb, algorithm, n)) {
      const Schedule ours = *make_schedule(verb, algorithm, n, shape);
      const Result<Schedule> back = from_msccl(*to_msccl(ours, "ours"));
      ASSERT_TRUE(back) << described(GetParam(), n, shape) << ": " << to_string(back.error());
      ASSERT_EQ(moved(*back), moved(ours)) << described(GetParam(), n, shape);
      ASSERT_LE(rounds_that_move(*back), rounds_that_move(ours)) << described(GetParam(), n, shape);
    }
  }
}

TEST(Msccl, ARingComesBackRoundForRound) {
  Schedule ours = *make_schedule(Verb::all_reduce, Algorithm::ring, 5, {});
  Schedule back = *from_msccl(*to_msccl(ours, "ring"));
  const auto by_sender = [](const Step& a, const Step& b) { return a.from < b.from; };
  for (Schedule* schedule : {&ours, &back}) {
    for (Round& round : schedule->rounds) {
      for (Step& step : round.steps) step.line = 0;
      std::sort(round.steps.begin(), round.steps.end(), by_sender);
    }
  }
  EXPECT_EQ(back.rounds, ours.rounds);
}

TEST(Msccl, IsWrittenAsItsToolsWriteIt) {
  const Schedule ours = *make_schedule(Verb::all_gather, Algorithm::ring, 2, {});
  EXPECT_EQ(*to_msccl(ours, "two"), R"(<algo name="two" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" )"
                                    R"(coll="allgather" inplace="1" outofplace="0" minBytes="0" maxBytes="0">
  <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="1" chan="0">
      <step s="0" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="0" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
)");
}

TEST(Msccl, RefusesToWriteASwitch) {
  const Schedule sharp = *make_schedule(Verb::all_reduce, Algorithm::in_network, 4, {});
  EXPECT_EQ(to_msccl(sharp, "sharp").error().kind, ErrorKind::infeasible);
}

std::string step(int s, const std::string& type, const std::string& source, int from, const std::string& target, int to,
                 int depid = -1, int deps = -1) {
  return fmt::format(R"(<step s="{}" type="{}" srcbuf="{}" srcoff="{}" dstbuf="{}" dstoff="{}" cnt="1" depid="{}" )"
                     R"(deps="{}" hasdep="0"/>)"
                     "\n",
                     s, type, source, from, target, to, depid, deps);
}

// A ring all-reduce with fused steps, one thread block for each rank and channel, as the compiler of msccl-tools fuses
// them: s, then rrs, then rrcs, then rcs, then r.
std::string fused_ring(int n, int channels) {
  std::string xml = fmt::format(R"(<algo name="ring" proto="LL" nchannels="{}" nchunksperloop="{}" ngpus="{}" )"
                                R"(coll="allreduce" inplace="1">)"
                                "\n",
                                channels, n * channels, n);
  for (int rank = 0; rank < n; ++rank) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"0\" s_chunks=\"0\">\n", rank, n * channels);
    for (int c = 0; c < channels; ++c) {
      xml +=
          fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", c, (rank + 1) % n, (rank + n - 1) % n, c);
      for (int s = 0; s < 2 * n - 1; ++s) {
        const int chunk = (rank - s + 2 * n) % n * channels + c;
        const std::string type = s == 0 ? "s" : s < n - 1 ? "rrs" : s == n - 1 ? "rrcs" : s < 2 * n - 2 ? "rcs" : "r";
        xml += step(s, type, "i", chunk, "i", chunk);
      }
      xml += "</tb>\n";
    }
    xml += "</gpu>\n";
  }
  return xml + "</algo>\n";
}

TEST(Msccl, ReadsAFusedRingInAsManyRoundsAsOurs) {
  for (const int n : {3, 4, 8}) {
    const Result<Schedule> theirs = from_msccl(fused_ring(n, 2));
    ASSERT_TRUE(theirs) << to_string(theirs.error());
    EXPECT_EQ(rounds_that_move(*theirs), 2U * (static_cast<unsigned>(n) - 1));
  }
}

TEST(Msccl, AFusedRingMovesWhatOursDoes) {
  const std::vector<Phase> theirs = phases_of(*from_msccl(fused_ring(4, 2)), 1e6);
  const std::vector<Phase> ours = *phases(Verb::all_reduce, Algorithm::ring, 4, 1e6, {});
  ASSERT_EQ(theirs.size(), 1U);
  EXPECT_EQ(theirs[0].repeats, ours[0].repeats);
  EXPECT_EQ(theirs[0].transfers, expand(ours[0]));
}

// Two ranks exchange their only chunk through scratch and add up: local steps, waits and a nop.
std::string pair_exchange(const std::string& last) {
  std::string xml =
      "<algo name=\"pair\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"2\" "
      "coll=\"allreduce\" inplace=\"1\">\n";
  for (int rank = 0; rank < 2; ++rank) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"1\" o_chunks=\"0\" s_chunks=\"1\">\n", rank);
    xml += fmt::format("<tb id=\"0\" send=\"{0}\" recv=\"{0}\" chan=\"0\">\n", 1 - rank);
    xml += step(0, "s", "i", 0, "s", 0) + step(1, "r", "i", 0, "s", 0) + "</tb>\n";
    xml += "<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\">\n";
    xml += step(0, "nop", "i", -1, "o", -1, 0, 0) + step(1, last, "s", 0, "i", 0, 0, 1) + "</tb>\n</gpu>\n";
  }
  return xml + "</algo>\n";
}

TEST(Msccl, ReadsLocalStepsThatWait) {
  const Result<Schedule> theirs = from_msccl(pair_exchange("re"));
  ASSERT_TRUE(theirs) << to_string(theirs.error());
  EXPECT_EQ(rounds_that_move(*theirs), 1U);
}

TEST(Msccl, RefusesAScheduleThatLeavesAChunkBehind) {
  const Error error = from_msccl(pair_exchange("cpy"), "pair.xml").error();
  EXPECT_EQ(to_string(error), "pair.xml:9: rank 0 ends without the contribution of rank 0 in chunk 0 of its output");
}

// Every rank copies its chunk to its output, sends it on when that is done, and passes on what comes, each chunk over a
// channel of its own.
std::string ring_all_gather(int n) {
  std::string xml = fmt::format(
      "<algo name=\"gather\" proto=\"Simple\" nchannels=\"{0}\" nchunksperloop=\"{0}\" "
      "ngpus=\"{0}\" coll=\"allgather\" inplace=\"0\">\n",
      n);
  for (int rank = 0; rank < n; ++rank) {
    const int next = (rank + 1) % n;
    const int before = (rank + n - 1) % n;
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"1\" o_chunks=\"{}\" s_chunks=\"0\">\n", rank, n);
    xml += "<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">\n" + step(0, "cpy", "i", 0, "o", rank) + "</tb>\n";
    xml += fmt::format("<tb id=\"1\" send=\"{}\" recv=\"-1\" chan=\"{}\">\n", next, rank);
    xml += step(0, "s", "o", rank, "o", rank, 0, 0) + "</tb>\n";
    for (int chunk = 0; chunk < n; ++chunk) {
      if (chunk == rank) continue;
      const bool last = chunk == next;
      xml += fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", chunk + 2, last ? -1 : next, before,
                         chunk);
      xml += step(0, last ? "r" : "rcs", "o", chunk, "o", chunk) + "</tb>\n";
    }
    xml += "</gpu>\n";
  }
  return xml + "</algo>\n";
}

TEST(Msccl, ReadsAnAllGatherThatIsNotInPlace) {
  const Result<Schedule> theirs = from_msccl(ring_all_gather(4));
  ASSERT_TRUE(theirs) << to_string(theirs.error());
  EXPECT_EQ(phases_of(*theirs, 8), phases_of(*make_schedule(Verb::all_gather, Algorithm::ring, 4, {}), 8));
}

// The first occurrence of `from` becomes `to`.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string refusal(const std::string& xml) {
  const Result<Schedule> read = from_msccl(xml, "a.xml");
  return read ? "" : to_string(read.error());
}

TEST(Msccl, RefusesWhatIsNoXml) {
  EXPECT_EQ(refusal("<algo>\n<gpu>\n</algo>\n"), "a.xml:3: this is no XML: Start-end tags mismatch");
}

TEST(Msccl, RefusesAnotherFile) {
  EXPECT_EQ(refusal("<system/>"), "a.xml:1: there is no <algo> in this file; expected MSCCL's XML");
}

TEST(Msccl, RefusesAnUnknownType) {
  EXPECT_EQ(refusal(pair_exchange("rex")),
            "a.xml:9: <step>: type \"rex\" is not known\n  s, r, rcs, rrs, rrc, rrcs, cpy, re or nop");
}

TEST(Msccl, RefusesAMissingAttribute) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "srcoff=\"0\" ", "")),
            "a.xml:4: <step>: attribute srcoff is missing; expected a whole number from -1 to 1048576");
}

TEST(Msccl, RefusesAPeerThatIsNotThere) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "send=\"1\"", "send=\"2\"")),
            "a.xml:3: <tb>: attribute send is \"2\"; expected a whole number from -1 to 1");
}

TEST(Msccl, RefusesAWaitForAStepThatIsNotThere) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "depid=\"0\" deps=\"0\"", "depid=\"0\" deps=\"7\"")),
            "a.xml:8: rank 0, thread block 1, step 0 waits for step 7 of thread block 0, which is not there");
}

TEST(Msccl, RefusesAWaitThatNeverEnds) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "depid=\"-1\" deps=\"-1\"", "depid=\"1\" deps=\"1\"")),
            "a.xml:4: rank 0, thread block 0, step 0 waits for step 1 of thread block 1 forever");
}

TEST(Msccl, RefusesAReceiveThatNobodySends) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "type=\"s\"", "type=\"nop\"")),
            "a.xml:15: rank 1, thread block 0, step 1 waits for a message of rank 0 over channel 0 forever");
}

TEST(Msccl, RefusesASendThatNobodyReceives) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "type=\"r\"", "type=\"nop\"")),
            "a.xml:14: rank 1 sends 1 chunks to rank 0 over channel 0, and nobody receives them");
}

TEST(Msccl, RefusesAChunkOutsideOfItsBuffer) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "srcoff=\"0\"", "srcoff=\"1\"")),
            "a.xml:4: rank 0, thread block 0, step 0: chunk 1 and 1 chunks from there, but that buffer has 1");
}

TEST(Msccl, RefusesAMissingRank) {
  EXPECT_EQ(refusal(changed(pair_exchange("re"), "ngpus=\"2\"", "ngpus=\"3\"")),
            "a.xml:1: there is no <gpu> for rank 2 of 3");
}

TEST(Msccl, RefusesAnUnknownCollective) {
  EXPECT_EQ(from_msccl(changed(pair_exchange("re"), "allreduce", "allredux")).error().line, 1);
}

}  // namespace
}  // namespace twinpod::collective
