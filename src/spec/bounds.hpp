// The widest values that the reader lets in. They are far beyond anything that exists; they keep products of two counts
// inside an int and times inside a double, so that no later arithmetic has to ask.
#pragma once

namespace twinpod::spec {

inline constexpr int kMaxDevices = 10'000'000;
inline constexpr int kMaxParallel = 65'536;  // ranks of one axis
inline constexpr int kMaxLayers = 10'000;
inline constexpr int kMaxWidth = 4'194'304;  // hidden, inner widths, ranks of compressions
inline constexpr int kMaxHeads = 4'096;
inline constexpr int kMaxHeadDim = 65'536;
inline constexpr int kMaxExperts = 65'536;
inline constexpr int kMaxVocab = 100'000'000;
inline constexpr int kMaxSequence = 134'217'728;
inline constexpr int kMaxBatch = 1'000'000'000;

inline constexpr double kMaxBytes = 1e21;
inline constexpr double kMaxBytesPerS = 1e18;
inline constexpr double kMaxFlopPerS = 1e21;
inline constexpr double kMaxWatts = 1e9;
inline constexpr double kMaxUsdPerHour = 1e9;
inline constexpr double kMaxTokens = 1e18;

}  // namespace twinpod::spec
