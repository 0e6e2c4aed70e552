// A number that stands on no data sheet and was fitted: its name in the catalog, where it is kept, and what it may be.
//
//     constexpr FreeNumber<GemmNumbers> kLaunch = {"launch_s", &GemmNumbers::launch_s, 4e-6, 1e-7, 1e-4, "..."};
//     read_numbers(reader, kGemmNumbers, numbers);   // what the mapping states; the rest stays as it is
#pragma once

#include <span>
#include <string_view>

#include "spec/reader.hpp"

namespace twinpod::cluster {

template <typename Owner>
struct FreeNumber {
  std::string_view name;
  double Owner::*member;
  double prior;  // where a fit starts, and what it is pulled to
  double low;
  double high;
  std::string_view meaning;  // with its unit
};

template <typename Owner>
void read_numbers(spec::Reader& reader, std::span<const FreeNumber<Owner>> numbers, Owner& owner) {
  for (const FreeNumber<Owner>& number : numbers) {
    reader.quantity(number.name, owner.*number.member, Quantity::number, number.low, number.high);
  }
}

template <typename Owner>
Owner prior_numbers(std::span<const FreeNumber<Owner>> numbers) {
  Owner owner;
  for (const FreeNumber<Owner>& number : numbers) owner.*number.member = number.prior;
  return owner;
}

}  // namespace twinpod::cluster
