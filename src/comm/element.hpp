// What collectives add up: element types and operations, with their names in files and output.
//
//     size_of(ElementType::bf16) == 2;  name_of(ReduceOp::average) == "average"
#pragma once

#include <cstddef>
#include <string_view>

#include "core/error.hpp"
#include "spec/names.hpp"

namespace twinpod::comm {

enum class ElementType { f32, f64, bf16, f16, i32, i64 };

// The average is the sum divided by the number of ranks; of integers it is rounded towards zero.
enum class ReduceOp { sum, product, min, max, average };

// In the order of the enums.
inline constexpr spec::NameTable<ElementType, 6> kElementTypeNames{{{"f32", ElementType::f32},
                                                                    {"f64", ElementType::f64},
                                                                    {"bf16", ElementType::bf16},
                                                                    {"f16", ElementType::f16},
                                                                    {"i32", ElementType::i32},
                                                                    {"i64", ElementType::i64}}};
inline constexpr spec::NameTable<ReduceOp, 5> kReduceOpNames{{{"sum", ReduceOp::sum},
                                                              {"product", ReduceOp::product},
                                                              {"min", ReduceOp::min},
                                                              {"max", ReduceOp::max},
                                                              {"average", ReduceOp::average}}};

constexpr std::string_view name_of(ElementType value) { return spec::name_in(kElementTypeNames, value); }
constexpr std::string_view name_of(ReduceOp value) { return spec::name_in(kReduceOpNames, value); }

constexpr std::size_t size_of(ElementType type) {
  constexpr std::size_t kSizes[] = {4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

}  // namespace twinpod::comm
