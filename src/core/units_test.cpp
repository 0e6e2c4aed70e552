#include "core/units.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <limits>

#include "core/rng.hpp"

namespace twinpod {
namespace {

double parsed(std::string_view text, Quantity quantity) {
  const Result<double> value = parse_quantity(text, quantity);
  EXPECT_TRUE(value) << (value ? "" : to_string(value.error()));
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

Error refused(std::string_view text, Quantity quantity) {
  const Result<double> value = parse_quantity(text, quantity);
  EXPECT_FALSE(value) << text << " was taken as " << value.value_or(0);
  return value ? Error{} : value.error();
}

TEST(Units, GigabitIsTurnedIntoBytes) {
  EXPECT_DOUBLE_EQ(parsed("400 Gbit/s", Quantity::bytes_per_s), 50e9);
  EXPECT_DOUBLE_EQ(parsed("200 Gb/s", Quantity::bytes_per_s), 25e9);
  EXPECT_DOUBLE_EQ(parsed("100 Gbps", Quantity::bytes_per_s), 12.5e9);
  EXPECT_DOUBLE_EQ(parsed("8 Mbit", Quantity::bytes), 1e6);
}

TEST(Units, DecimalAndBinaryPrefixesDiffer) {
  EXPECT_EQ(parsed("80 GB", Quantity::bytes), 80e9);
  EXPECT_EQ(parsed("80 GiB", Quantity::bytes), 80 * 1073741824.0);
  EXPECT_EQ(parsed("1 KiB", Quantity::bytes), 1024);
  EXPECT_EQ(parsed("1.5 kB", Quantity::bytes), 1500);
  EXPECT_EQ(parsed("3.35 TB/s", Quantity::bytes_per_s), 3.35e12);
}

TEST(Units, WithoutUnitItIsTheBaseUnit) {
  EXPECT_EQ(parsed("1e12", Quantity::bytes), 1e12);
  EXPECT_EQ(parsed("0.5", Quantity::seconds), 0.5);
  EXPECT_EQ(parsed("0", Quantity::watts), 0);
  EXPECT_EQ(parsed("-3", Quantity::number), -3);
}

TEST(Units, CountsTakeShortForms) {
  EXPECT_EQ(parsed("300e9", Quantity::number), 300e9);
  EXPECT_EQ(parsed("300 B", Quantity::number), 300e9);
  EXPECT_EQ(parsed("300 G", Quantity::number), 300e9);
  EXPECT_EQ(parsed("1.5T", Quantity::number), 1.5e12);
  EXPECT_EQ(parsed("7 M", Quantity::number), 7e6);
  EXPECT_EQ(parsed("64k", Quantity::number), 64e3);
}

TEST(Units, TimesGoFromNanosecondsToYears) {
  EXPECT_DOUBLE_EQ(parsed("5 ns", Quantity::seconds), 5e-9);
  EXPECT_DOUBLE_EQ(parsed("5 us", Quantity::seconds), 5e-6);
  EXPECT_DOUBLE_EQ(parsed("5 µs", Quantity::seconds), 5e-6);
  EXPECT_DOUBLE_EQ(parsed("5 ms", Quantity::seconds), 5e-3);
  EXPECT_EQ(parsed("2 min", Quantity::seconds), 120);
  EXPECT_EQ(parsed("2 h", Quantity::seconds), 7200);
  EXPECT_EQ(parsed("30 d", Quantity::seconds), 30 * 86400.0);
  EXPECT_EQ(parsed("1 w", Quantity::seconds), 7 * 86400.0);
  EXPECT_EQ(parsed("90 days", Quantity::seconds), 90 * 86400.0);
  EXPECT_EQ(parsed("1 week", Quantity::seconds), 7 * 86400.0);
  EXPECT_EQ(parsed("1 y", Quantity::seconds), 365.25 * 86400);
}

TEST(Units, RatesAndPowers) {
  EXPECT_DOUBLE_EQ(parsed("989.4 TFLOP/s", Quantity::flop_per_s), 989.4e12);
  EXPECT_DOUBLE_EQ(parsed("989.4 TFLOPS", Quantity::flop_per_s), 989.4e12);
  EXPECT_EQ(parsed("2 PFLOP/s", Quantity::flop_per_s), 2e15);
  EXPECT_EQ(parsed("10.2 kW", Quantity::watts), 10200);
}

TEST(Units, PricesAreDollarsPerHour) {
  for (const char* text : {"2.5", "$2.5/h", "$2.5", "2.5 USD/h", "2.5 $/h", "$ 2.5 /h"}) {
    EXPECT_EQ(parsed(text, Quantity::usd_per_hour), 2.5) << text;
  }
  refused("$2.5", Quantity::number);
  refused("$$2.5", Quantity::usd_per_hour);
}

TEST(Units, PercentIsAFraction) {
  EXPECT_DOUBLE_EQ(parsed("93 %", Quantity::fraction), 0.93);
  EXPECT_DOUBLE_EQ(parsed("93%", Quantity::fraction), 0.93);
  EXPECT_EQ(parsed("0.93", Quantity::fraction), 0.93);
}

TEST(Units, BlanksAroundDoNotMatter) {
  EXPECT_EQ(parsed("  80GB ", Quantity::bytes), 80e9);
  EXPECT_EQ(parsed("80\tGB", Quantity::bytes), 80e9);
}

TEST(Units, GarbageIsRefused) {
  for (const char* text : {"", " ", "GB", "eighty GB", "1,5 GB", "1 000", "1.2.3", "0x10", "1e", "+5", "--5", "- 5",
                           "-", ".", "5 GB GB", "5 G B", "5\nGB", "80 gb"}) {
    refused(text, Quantity::bytes);
  }
}

TEST(Units, WhatIsNotFiniteIsRefused) {
  for (const char* text : {"nan", "inf", "-inf", "infinity", "NaN", "1e400", "-1e400", "1e300 EB", "-nan"}) {
    refused(text, Quantity::bytes);
  }
}

TEST(Units, RefusalSaysWhatWasFoundAndWhatWasExpected) {
  EXPECT_EQ(refused("eighty", Quantity::bytes).message, "found 'eighty', expected bytes, such as 80 GB");
  EXPECT_EQ(
      refused("1e999", Quantity::number).message,
      "found '1e999', expected a number, such as 300e9 or 300 B: the number is out of range, 0 or 1e-30 to 1e+30");
}

TEST(Units, WrongUnitNamesTheNearest) {
  const Error error = refused("400 Gbitt/s", Quantity::bytes_per_s);
  EXPECT_EQ(error.message, "found '400 Gbitt/s', expected bytes/s, such as 400 Gbit/s: unit 'Gbitt/s' is not known");
  EXPECT_EQ(error.hint, "did you mean Gbit/s?");
}

TEST(Units, UnitOfAnotherQuantityNamesThoseThatFit) {
  EXPECT_EQ(refused("700 FLOP/s", Quantity::watts).hint, "known units: mW, W, kW, MW, GW");
}

TEST(Units, LongAndStrangeTextsAreShortenedInMessages) {
  EXPECT_LT(refused(std::string(100000, 'x'), Quantity::bytes).message.size(), 200U);
  EXPECT_EQ(refused("a\nb", Quantity::bytes).message, "found 'a\\nb', expected bytes, such as 80 GB");
}

TEST(Units, LocaleDoesNotMatter) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  EXPECT_EQ(parsed("1.5 GB", Quantity::bytes), 1.5e9);
  EXPECT_EQ(format_bytes(1.5e9), "1.50 GB");
  std::setlocale(LC_ALL, before.c_str());
}

TEST(Units, RandomTextsAreAnsweredOneWayOrTheOther) {
  Rng rng(1);
  constexpr std::string_view kAlphabet = "0123456789.eE+-kMGTiBbits/% $FLOPhdwy\xc2\xb5\x01";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::uint64_t length = rng.below(12); length > 0; --length) text += kAlphabet[rng.below(kAlphabet.size())];
    const Result<double> value = parse_quantity(text, static_cast<Quantity>(rng.below(8)));
    if (value) {
      ASSERT_TRUE(std::isfinite(*value)) << text;
    } else {
      ASSERT_FALSE(value.error().message.empty());
    }
  }
}

TEST(Units, BytesHaveThreeDigits) {
  EXPECT_EQ(format_bytes(80e9), "80.0 GB");
  EXPECT_EQ(format_bytes(700e9), "700 GB");
  EXPECT_EQ(format_bytes(5.6e12), "5.60 TB");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(0.5), "0.5 B");
  EXPECT_EQ(format_bytes(-80e9), "-80.0 GB");
  EXPECT_EQ(format_bytes_per_s(25e9), "25.0 GB/s");
}

TEST(Units, RoundingMovesUpToTheNextUnit) {
  EXPECT_EQ(format_bytes(999.4e6), "999 MB");
  EXPECT_EQ(format_bytes(999.6e6), "1.00 GB");
  EXPECT_EQ(format_bytes(9.996e9), "10.0 GB");
  EXPECT_EQ(format_bytes(99.96e9), "100 GB");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
  EXPECT_EQ(format_bytes(999.9), "1.00 kB");
}

TEST(Units, WhatIsBeyondThePrefixesIsStillReadable) {
  EXPECT_EQ(format_bytes(5e21), "5000 EB");
  EXPECT_EQ(format_count(1e22), "1e+10 T");
  EXPECT_EQ(format_seconds(1e-12), "0.001 ns");
  EXPECT_EQ(format_seconds(1e-320), "0 s");  // sums of times leave such things behind
  EXPECT_EQ(format_bytes(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Units, SecondsChooseTheUnitThatIsRead) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(2.5e-6), "2.50 µs");
  EXPECT_EQ(format_seconds(0.0125), "12.5 ms");
  EXPECT_EQ(format_seconds(1.42), "1.42 s");
  EXPECT_EQ(format_seconds(2), "2.00 s");
  EXPECT_EQ(format_seconds(90), "90.0 s");
  EXPECT_EQ(format_seconds(300), "5.00 min");
  EXPECT_EQ(format_seconds(10 * 3600.0), "10.0 h");
  EXPECT_EQ(format_seconds(34 * 86400.0), "34.0 d");
  EXPECT_EQ(format_seconds(36 * 365.25 * 86400), "36.0 y");
}

TEST(Units, CountsAndRatesForPeople) {
  EXPECT_EQ(format_flop_per_s(312e12), "312 TFLOP/s");
  EXPECT_EQ(format_count(175e9), "175 B");
  EXPECT_EQ(format_count(1.008e12), "1.01 T");
  EXPECT_EQ(format_count(51200), "51.2 k");
  EXPECT_EQ(format_count(8), "8");
  EXPECT_EQ(format_count(7.5), "7.50");
}

TEST(Units, WhatIsPrintedCanBeReadAgain) {
  Rng rng(5);
  for (int i = 0; i < 1000; ++i) {
    const double bytes = std::pow(10, rng.uniform(0, 18));
    EXPECT_NEAR(parsed(format_bytes(bytes), Quantity::bytes) / bytes, 1, 0.005);
    const double seconds = std::pow(10, rng.uniform(-8, 9));
    EXPECT_NEAR(parsed(format_seconds(seconds), Quantity::seconds) / seconds, 1, 0.005);
  }
}

TEST(Units, BaseUnitsHaveNames) {
  EXPECT_EQ(base_unit(Quantity::bytes), "bytes");
  EXPECT_EQ(base_unit(Quantity::seconds), "seconds");
  EXPECT_EQ(base_unit(Quantity::fraction), "a fraction");
}

}  // namespace
}  // namespace twinpod
