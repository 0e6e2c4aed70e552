#include "chakra/archive.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "chakra/messages.hpp"
#include "program/check.hpp"

namespace twinpod::chakra {
namespace {

using namespace program;

// How many values an enumeration has.
template <typename E>
constexpr int kNumValues = 0;
template <>
constexpr int kNumValues<Lane> = kNumLanes;
template <>
constexpr int kNumValues<OpKind> = 8;
template <>
constexpr int kNumValues<Phase> = 6;
template <>
constexpr int kNumValues<program::Segment> = 9;
template <>
constexpr int kNumValues<ElementType> = 4;
template <>
constexpr int kNumValues<Peer> = 5;
template <>
constexpr int kNumValues<Tier> = 3;
template <>
constexpr int kNumValues<BufferKind> = kNumBufferKinds;
template <>
constexpr int kNumValues<collective::Verb> = 10;
template <>
constexpr int kNumValues<layout::Group> = layout::kNumGroups;
template <>
constexpr int kNumValues<layout::Axis> = layout::kNumAxes;

// Fields in order. Whole numbers are varints with the sign in the last bit; others are 8 bytes, lowest first.
class Writer {
 public:
  std::string bytes;

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (item(fields), ...);
  }

 private:
  void whole(std::int64_t value) {
    auto rest = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
    for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(rest | 0x80);
    bytes += static_cast<char>(rest);
  }
  template <typename T>
  void item(T& field) {
    if constexpr (std::is_same_v<T, double>) {
      const auto bits = std::bit_cast<std::uint64_t>(field);
      for (int i = 0; i < 8; ++i) bytes += static_cast<char>(bits >> (8 * i));
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      whole(static_cast<std::int64_t>(field));
    } else {
      visit(*this, field);
    }
  }
  template <typename T>
  void item(std::vector<T>& list) {
    whole(static_cast<std::int64_t>(list.size()));
    for (T& one : list) item(one);
  }
  template <typename T, std::size_t N>
  void item(std::array<T, N>& list) {
    for (T& one : list) item(one);
  }
  template <typename T, std::size_t N>
  void item(T (&list)[N]) {
    for (T& one : list) item(one);
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  bool done() const { return good_ && at_ == bytes_.size(); }

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (item(fields), ...);
  }

 private:
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    std::uint64_t rest = 0;
    bool ended = false;
    for (int shift = 0; shift < 64 && at_ < bytes_.size() && !ended; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      rest |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      ended = byte < 0x80;
    }
    const auto value = static_cast<std::int64_t>((rest >> 1) ^ (~(rest & 1) + 1));
    good_ = good_ && ended && value >= low && value <= high;
    return good_ ? value : 0;
  }
  double number() {
    std::uint64_t bits = 0;
    good_ = good_ && bytes_.size() - at_ >= 8;
    if (!good_) return 0;
    for (int i = 0; i < 8; ++i) {
      bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_++])) << (8 * i);
    }
    const auto value = std::bit_cast<double>(bits);
    good_ = std::isfinite(value);
    return value;
  }
  template <typename T>
  void item(T& field) {
    if constexpr (std::is_same_v<T, double>) {
      field = number();
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(kNumValues<T> > 0);
      field = static_cast<T>(whole(0, kNumValues<T> - 1));
    } else if constexpr (std::is_same_v<T, bool>) {
      field = whole(0, 1) == 1;
    } else if constexpr (std::is_integral_v<T>) {
      field = static_cast<T>(whole(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    } else {
      visit(*this, field);
    }
  }
  template <typename T>
  void item(std::vector<T>& list) {
    const std::int64_t count = whole(0, static_cast<std::int64_t>(bytes_.size()));
    for (std::int64_t i = 0; i < count && good_; ++i) item(list.emplace_back());
  }
  template <typename T, std::size_t N>
  void item(std::array<T, N>& list) {
    for (T& one : list) item(one);
  }
  template <typename T, std::size_t N>
  void item(T (&list)[N]) {
    for (T& one : list) item(one);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

// The fields, once for both. A field that is added to a struct and not here does not compile.
template <typename A>
void visit(A& archive, layout::Span& whole) {
  auto& [size, stride] = whole;
  archive(size, stride);
}
template <typename A>
void visit(A& archive, layout::Mesh& whole) {
  auto& [order, tp, cp, dp, pp, ep, etp, shard_group, shapes] = whole;
  archive(order, tp, cp, dp, pp, ep, etp, shard_group, shapes);
}
template <typename A>
void visit(A& archive, model::Gemm& whole) {
  auto& [m, n, k, groups] = whole;
  archive(m, n, k, groups);
}
template <typename A>
void visit(A& archive, Product& whole) {
  auto& [gemm, experts, wide] = whole;
  archive(gemm, experts, wide);
}
template <typename A>
void visit(A& archive, model::AttentionWork& whole) {
  auto& [heads, batch, queries, keys, context, qk_dim, v_dim] = whole;
  archive(heads, batch, queries, keys, context, qk_dim, v_dim);
}
template <typename A>
void visit(A& archive, Work& whole) {
  auto& [products, weight_products, attention, attention_share, attention_backward, attention_fused, element_bytes,
         kernels, permute_bytes, cast_elements, logit_elements, table_bytes, parameters, on_host] = whole;
  archive(products, weight_products, attention, attention_share, attention_backward, attention_fused, element_bytes,
          kernels, permute_bytes, cast_elements, logit_elements, table_bytes, parameters, on_host);
}
template <typename A>
void visit(A& archive, Buffer& whole) {
  auto& [kind, segment, layer, bytes] = whole;
  archive(kind, segment, layer, bytes);
}
template <typename A>
void visit(A& archive, Range& whole) {
  auto& [first, count] = whole;
  archive(first, count);
}
template <typename A>
void visit(A& archive, Op& whole) {
  auto& [kind, lane, phase, segment, verb, group, element, peer, tier, entry, half, layer, round, piece, work, share,
         bytes, outside_bytes, waits, creates, frees, uses] = whole;
  archive(kind, lane, phase, segment, verb, group, element, peer, tier, entry, half, layer, round, piece, work, share,
          bytes, outside_bytes, waits, creates, frees, uses);
}
template <typename A>
void visit(A& archive, Layer& whole) {
  auto& [experts, windowed, recomputed, predicts] = whole;
  archive(experts, windowed, recomputed, predicts);
}
template <typename A>
void visit(A& archive, Shape& whole) {
  auto& [layers, embedding, head, buffers] = whole;
  archive(layers, embedding, head, buffers);
}
template <typename A>
void visit(A& archive, Block& whole) {
  auto& [phase, pair, shapes, ops, waits, buffers] = whole;
  archive(phase, pair, shapes, ops, waits, buffers);
}
template <typename A>
void visit(A& archive, Source& whole) {
  auto& [kind, instance] = whole;
  archive(kind, instance);
}
template <typename A>
void visit(A& archive, Instance& whole) {
  auto& [block, micro_batch, chunk, from] = whole;
  archive(block, micro_batch, chunk, from);
}
template <typename A>
void visit(A& archive, Chunk& whole) {
  auto& [shape, first_layer, position, next_stage, previous_stage, next_chunk, previous_chunk] = whole;
  archive(shape, first_layer, position, next_stage, previous_stage, next_chunk, previous_chunk);
}
template <typename A>
void visit(A& archive, Kind& whole) {
  auto& [stage, chunks, residents, parameters, expert_parameters, instances] = whole;
  archive(stage, chunks, residents, parameters, expert_parameters, instances);
}
template <typename A>
void visit(A& archive, Servers& whole) {
  auto& [count, parameters, domains] = whole;
  archive(count, parameters, domains);
}
template <typename A>
void visit(A& archive, Program& whole) {
  auto& [mesh, micro_batches, chunks, splits_backward, validates_later, memory_bytes, servers, works, shapes, blocks,
         kinds] = whole;
  (void)kinds;  // each in its own ranks' files
  archive(mesh, micro_batches, chunks, splits_backward, validates_later, memory_bytes, servers, works, shapes, blocks);
}

template <typename T>
bool holds(const std::vector<T>& list, int index) {
  return index >= 0 && index < static_cast<int>(list.size());
}
template <typename T>
bool holds_or_none(const std::vector<T>& list, int index) {
  return index == -1 || holds(list, index);
}
template <typename T>
bool holds(const std::vector<T>& list, const Range& range) {
  const auto size = static_cast<int>(list.size());
  return range.first >= 0 && range.count >= 0 && range.count <= size && range.first <= size - range.count;
}

// What indexes the mesh's arithmetic, so that nothing divides by 0 or goes beyond the ranks.
bool is_mesh(const layout::Mesh& mesh) {
  double ranks = 1;
  for (const int size : {mesh.tp, mesh.cp, mesh.dp, mesh.pp, mesh.ep, mesh.etp, mesh.shard_group}) {
    if (size < 1 || size > 100'000'000) return false;
  }
  for (const int size : {mesh.tp, mesh.cp, mesh.dp, mesh.pp}) ranks *= size;
  if (ranks > 1e8) return false;
  unsigned axes = 0;
  for (const layout::Axis axis : mesh.order) axes |= 1U << static_cast<unsigned>(axis);
  for (const layout::GroupShape& shape : mesh.shapes) {
    double members = 1;
    for (const layout::Span& span : shape) {
      if (span.size < 1 || span.stride < 1 || double{1} * span.size * span.stride > ranks) return false;
      members *= span.size;
    }
    if (members > ranks) return false;
  }
  return axes == 15;
}

bool is_op(const Program& program, const Block& block, int index) {
  const Op& op = block.ops[static_cast<std::size_t>(index)];
  if (op.half > 1 || !holds_or_none(program.works, op.work) || !holds(block.waits, op.waits)) return false;
  for (int w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
    const int waited = block.waits[static_cast<std::size_t>(w)];
    if (waited < 0 || waited >= index) return false;
  }
  for (const Range& range : {op.creates, op.frees, op.uses}) {
    if (!holds(block.buffers, range)) return false;
    if (range.count > 0 && !holds(program.shapes, block.shapes[op.half])) return false;
    for (int b = range.first; b < range.first + range.count; ++b) {
      const Shape& shape = program.shapes[static_cast<std::size_t>(block.shapes[op.half])];
      if (!holds(shape.buffers, block.buffers[static_cast<std::size_t>(b)])) return false;
    }
  }
  const bool in_ring = op.peer == Peer::next_in_ring || op.peer == Peer::previous_in_ring;
  return !(op.kind == OpKind::recv && in_ring) ||
         (index > 0 && block.ops[static_cast<std::size_t>(index - 1)].kind == OpKind::send);
}

bool is_block(const Program& program, const Block& block) {
  if (!holds_or_none(program.shapes, block.shapes[0]) || !holds_or_none(program.shapes, block.shapes[1])) return false;
  for (int i = 0; i < static_cast<int>(block.ops.size()); ++i) {
    if (!is_op(program, block, i)) return false;
  }
  return true;
}

bool is_kind(const Program& program, int index) {
  const Kind& kind = program.kinds[static_cast<std::size_t>(index)];
  if (kind.stage != index || static_cast<int>(kind.chunks.size()) > program.chunks) return false;
  const auto is_stage = [&](int stage) { return holds_or_none(program.kinds, stage); };
  for (const Chunk& chunk : kind.chunks) {
    if (!holds(program.shapes, chunk.shape) || !is_stage(chunk.next_stage) || !is_stage(chunk.previous_stage))
      return false;
    for (const int other : {chunk.next_chunk, chunk.previous_chunk}) {
      if (other < -1 || other >= program.chunks) return false;
    }
  }
  for (const Instance& one : kind.instances) {
    if (!holds(program.blocks, one.block)) return false;
    for (const int half : {0, 1}) {
      const Source& from = one.from[half];
      if (!holds_or_none(kind.chunks, one.chunk[half]) || !is_stage(from.kind)) return false;
      if (one.micro_batch[half] < -1 || one.micro_batch[half] >= program.micro_batches) return false;
      if (from.kind >= 0 && !holds(program.kinds[static_cast<std::size_t>(from.kind)].instances, from.instance))
        return false;
    }
  }
  return true;
}

bool is_whole(const Program& program) {
  if (!is_mesh(program.mesh) || program.mesh.pp != static_cast<int>(program.kinds.size())) return false;
  if (program.chunks < 1 || program.chunks > 10'000 || program.micro_batches < 0) return false;
  for (const Block& block : program.blocks) {
    if (!is_block(program, block)) return false;
  }
  for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k) {
    if (!is_kind(program, k)) return false;
  }
  return true;
}

}  // namespace

std::string shared_bytes(const Program& program) {
  Writer writer;
  visit(writer, const_cast<Program&>(program));  // the same list reads and writes; a Writer changes nothing
  return std::move(writer.bytes);
}

std::string kind_bytes(const Kind& kind) {
  Writer writer;
  visit(writer, const_cast<Kind&>(kind));
  return std::move(writer.bytes);
}

Result<Program> program_of(std::string_view shared, const std::vector<std::string>& kinds, const std::string& file) {
  Program program;
  Reader reader(shared);
  visit(reader, program);
  bool good = reader.done();
  for (const std::string& bytes : kinds) {
    Reader list(bytes);
    visit(list, program.kinds.emplace_back());
    good = good && list.done();
  }
  if (!good) return file_error(file, "the attributes that hold twinpod's Program end too soon or hold wrong values");
  if (!is_whole(program)) return file_error(file, "the Program in its attributes names parts that it does not have");
  const Result<void> sound = check(program);
  if (!sound) return file_error(file, sound.error().message, sound.error().hint);
  return program;
}

}  // namespace twinpod::chakra
