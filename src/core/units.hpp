// Quantities in text: `400 Gbit/s`, `80 GB`, `30 d`, `140 TFLOP/s`, `300e9`.
//
// Inside the program a quantity is a double in its SI base unit and its name carries the unit as a suffix:
// memory_bytes, step_time_s, bandwidth_bytes_per_s. Text is turned into that once, when it is read. GB is 10^9 bytes
// and GiB is 2^30; Gbit is 10^9 bits and is turned into bytes.
#pragma once

#include <string>
#include <string_view>

#include "core/error.hpp"

namespace twinpod {

enum class Quantity {
  number,        // plain count: 300e9, 300 B (10^9), 1.5 T, 64 k
  bytes,         // B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, bit, kbit, Mbit, Gbit
  seconds,       // ns, us, ms, s, min, h, d, w, y; hours, days, weeks, years
  bytes_per_s,   // any of bytes with /s, or bit/s forms: 400 Gbit/s, 200 Gb/s, 3.35 TB/s
  flop_per_s,    // FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, TFLOPS
  watts,         // W, kW, MW
  usd_per_hour,  // a plain number, or 2.5 USD/h, $2.5/h
  fraction,      // 0.93 or 93 %
};

// Name of the base unit for messages: "bytes", "seconds", ...
std::string_view base_unit(Quantity quantity);

// A text with or without unit (without: the base unit) as a double. Refuses what is not finite.
Result<double> parse_quantity(std::string_view text, Quantity quantity);

// For people, three significant digits: "80.0 GB", "25.0 GB/s", "1.42 s", "34.0 d", "312 TFLOP/s".
std::string format_bytes(double bytes);
std::string format_bytes_per_s(double bytes_per_s);
std::string format_seconds(double seconds);
std::string format_flop_per_s(double flop_per_s);
std::string format_count(double count);  // 175 B, 1.01 T, 51.2 k

}  // namespace twinpod
