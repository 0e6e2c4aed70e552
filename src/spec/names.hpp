// The names that enums have in files and output, in both directions.
//
//     reader.choice("precision", training.precision, kPrecisionNames);
//     name_of(Precision::bf16) == "bf16"
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "spec/cluster.hpp"
#include "spec/job.hpp"
#include "spec/model.hpp"
#include "spec/source.hpp"

namespace twinpod::spec {

template <typename E, std::size_t N>
using NameTable = std::array<std::pair<std::string_view, E>, N>;

inline constexpr NameTable<TierKind, 5> kTierKindNames{{{"memory", TierKind::memory},
                                                        {"peer", TierKind::peer},
                                                        {"local", TierKind::local},
                                                        {"shared", TierKind::shared},
                                                        {"object", TierKind::object}}};

inline constexpr NameTable<OnError, 2> kOnErrorNames{{{"continue", OnError::go_on}, {"stop", OnError::stop}}};

// In the order of the enum, so that a value can be an index into its table.
inline constexpr NameTable<Precision, kNumPrecisions> kPrecisionNames{{{"fp32", Precision::fp32},
                                                                       {"tf32", Precision::tf32},
                                                                       {"fp16", Precision::fp16},
                                                                       {"bf16", Precision::bf16},
                                                                       {"fp8", Precision::fp8},
                                                                       {"fp4", Precision::fp4}}};

inline constexpr NameTable<ScaleUpKind, 4> kScaleUpNames{{{"none", ScaleUpKind::none},
                                                          {"switched", ScaleUpKind::switched},
                                                          {"mesh", ScaleUpKind::mesh},
                                                          {"torus", ScaleUpKind::torus}}};

inline constexpr NameTable<Fabric, 7> kFabricNames{{{"automatic", Fabric::automatic},
                                                    {"none", Fabric::none},
                                                    {"rail_fat_tree", Fabric::rail_fat_tree},
                                                    {"rail_only", Fabric::rail_only},
                                                    {"fat_tree", Fabric::fat_tree},
                                                    {"dragonfly", Fabric::dragonfly},
                                                    {"custom", Fabric::custom}}};

inline constexpr NameTable<Wrap, 4> kWrapNames{
    {{"all", Wrap::all}, {"full", Wrap::full}, {"multiples", Wrap::multiples}, {"none", Wrap::none}}};

inline constexpr NameTable<Norm, 2> kNormNames{{{"layer_norm", Norm::layer_norm}, {"rms_norm", Norm::rms_norm}}};

inline constexpr NameTable<Positions, 4> kPositionsNames{{{"rotary", Positions::rotary},
                                                          {"learned", Positions::learned},
                                                          {"alibi", Positions::alibi},
                                                          {"none", Positions::none}}};

inline constexpr NameTable<Recompute, 3> kRecomputeNames{
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};

inline constexpr NameTable<Schedule, 9> kScheduleNames{{{"gpipe", Schedule::gpipe},
                                                        {"1f1b", Schedule::one_f_one_b},
                                                        {"interleaved", Schedule::interleaved},
                                                        {"zb-1p", Schedule::zb_1p},
                                                        {"zb-2p", Schedule::zb_2p},
                                                        {"zb-v", Schedule::zb_v},
                                                        {"dualpipe", Schedule::dualpipe},
                                                        {"dualpipe-v", Schedule::dualpipe_v},
                                                        {"custom", Schedule::custom}}};

inline constexpr NameTable<ContextExchange, 2> kContextExchangeNames{
    {{"ring", ContextExchange::ring}, {"gather", ContextExchange::gather}}};

inline constexpr NameTable<Optimizer, 4> kOptimizerNames{{{"adam", Optimizer::adam},
                                                          {"sgd_momentum", Optimizer::sgd_momentum},
                                                          {"sgd", Optimizer::sgd},
                                                          {"adafactor", Optimizer::adafactor}}};

inline constexpr NameTable<RateDecay, 4> kRateDecayNames{{{"constant", RateDecay::constant},
                                                          {"linear", RateDecay::linear},
                                                          {"cosine", RateDecay::cosine},
                                                          {"wsd", RateDecay::wsd}}};

inline constexpr NameTable<Fusion, 7> kFusionNames{{{"bias_gelu", Fusion::bias_gelu},
                                                    {"residual_norm", Fusion::residual_norm},
                                                    {"cross_entropy", Fusion::cross_entropy},
                                                    {"attention", Fusion::attention},
                                                    {"rotary", Fusion::rotary},
                                                    {"optimizer", Fusion::optimizer},
                                                    {"all", Fusion::all}}};

inline constexpr NameTable<Origin, 5> kOriginNames{{{"user", Origin::user},
                                                    {"measured", Origin::measured},
                                                    {"vendor_sheet", Origin::vendor_sheet},
                                                    {"derived", Origin::derived},
                                                    {"recalled", Origin::recalled}}};

template <typename E, std::size_t N>
constexpr std::string_view name_in(const NameTable<E, N>& table, E value) {
  for (const auto& [name, named] : table) {
    if (named == value) return name;
  }
  return "";
}

constexpr std::string_view name_of(TierKind value) { return name_in(kTierKindNames, value); }
constexpr std::string_view name_of(OnError value) { return name_in(kOnErrorNames, value); }
constexpr std::string_view name_of(Precision value) { return name_in(kPrecisionNames, value); }
constexpr std::string_view name_of(ScaleUpKind value) { return name_in(kScaleUpNames, value); }
constexpr std::string_view name_of(Norm value) { return name_in(kNormNames, value); }
constexpr std::string_view name_of(Positions value) { return name_in(kPositionsNames, value); }
constexpr std::string_view name_of(Recompute value) { return name_in(kRecomputeNames, value); }
constexpr std::string_view name_of(Schedule value) { return name_in(kScheduleNames, value); }
constexpr std::string_view name_of(ContextExchange value) { return name_in(kContextExchangeNames, value); }
constexpr std::string_view name_of(Optimizer value) { return name_in(kOptimizerNames, value); }
constexpr std::string_view name_of(Origin value) { return name_in(kOriginNames, value); }

}  // namespace twinpod::spec
