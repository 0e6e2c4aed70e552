#include "ps/strangers.hpp"

#include <gtest/gtest.h>

namespace twinpod::ps {
namespace {

TEST(PsStrangers, NobodyCameSaysNothing) { EXPECT_EQ(text_of({}), ""); }

TEST(PsStrangers, SayHowManyCameFromWhere) {
  Strangers strangers;
  count_stranger(strangers, "10.0.0.9");
  EXPECT_EQ(text_of(strangers), "1 connection of a stranger was turned away: 1 from 10.0.0.9");
  count_stranger(strangers, "fd00::9");
  count_stranger(strangers, "10.0.0.9");
  EXPECT_EQ(text_of(strangers), "3 connections of strangers were turned away: 2 from 10.0.0.9, 1 from fd00::9");
}

TEST(PsStrangers, OfMoreAddressesThanAreKeptTheNumberIsKnown) {
  Strangers strangers;
  for (int i = 0; i < 20; ++i) count_stranger(strangers, "10.0.0." + std::to_string(i));
  EXPECT_EQ(strangers.connections, 20U);
  EXPECT_NE(text_of(strangers).find("12 from elsewhere"), std::string::npos);
}

TEST(PsStrangers, AreAddedUp) {
  Strangers one;
  Strangers all;
  for (int i = 0; i < 10; ++i) count_stranger(one, "10.0.0." + std::to_string(i));
  one.messages = 2;
  add(one, all);
  add(one, all);
  EXPECT_EQ(all.connections, 20U);
  EXPECT_EQ(all.messages, 4U);
  EXPECT_EQ(all.callers[0].connections, 2U);
}

TEST(PsStrangers, ALongAddressIsCut) {
  Strangers strangers;
  count_stranger(strangers, std::string(100, 'x'));
  count_stranger(strangers, std::string(100, 'x'));
  EXPECT_EQ(strangers.callers[0].connections, 2U);
  EXPECT_EQ(std::string(strangers.callers[0].address.data()).size(), 47U);
}

}  // namespace
}  // namespace twinpod::ps
