#include "tests/gpu/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "tests/gpu/ptx_operations.h"

namespace tilefuse {
namespace {

constexpr uint64_t kMark = 0x70616d20656c6966;
constexpr uint64_t kAlignment = 16, kLineBytes = 128, kChunkBytes = 16;
constexpr uint64_t kMostStride = uint64_t{1} << 40, kMostExtent = uint64_t{1} << 32, kMostBox = 256;

struct Encoded {
  uint64_t mark, address;
  std::array<uint64_t, 5> extents;
  std::array<uint64_t, 4> strides;
  std::array<uint16_t, 5> box;
  uint8_t rank, element_bytes, rounds_to_tf32;
};
static_assert(sizeof(Encoded) <= kTensorMapBytes);

// As cvt.rna.tf32.f32: how the machine decides between two that are as near is not documented.
void round_to_tf32(unsigned char* element) {
  static const PtxOperation kRound = *find_operation("cvt.rna.tf32.f32");
  uint32_t bits = 0;
  std::memcpy(&bits, element, sizeof bits);
  const uint64_t value = bits;
  bits = static_cast<uint32_t>(kRound.compute(&value));
  std::memcpy(element, &bits, sizeof bits);
}

uint64_t box_lines(const TensorMapLayout& map) {
  uint64_t lines = 1;
  for (size_t d = 1; d < map.box.size(); ++d) lines *= map.box[d];
  return lines;
}

}  // namespace

std::string why_no_tensor_map(const TensorMapLayout& map) {
  const auto in = [](uint64_t low, uint64_t high) {
    return [=](uint64_t value) { return value >= low && value <= high; };
  };
  const size_t rank = map.extents.size();
  if (rank < 1 || rank > 5 || map.strides.size() + 1 != rank || map.box.size() != rank)
    return "dimensions that do not fit each other";
  if (map.address % kAlignment != 0) return "an address that is no multiple of 16 bytes";
  if (!std::all_of(map.extents.begin(), map.extents.end(), in(1, kMostExtent)))
    return "an extent that is not 1 to 2^32";
  if (!std::all_of(map.box.begin(), map.box.end(), in(1, kMostBox))) return "a box of more than 256 elements";
  for (const uint64_t stride : map.strides) {
    if (stride % kAlignment != 0 || stride >= kMostStride) return "a stride that is no multiple of 16 bytes";
  }
  const uint64_t line = map.box[0] * static_cast<uint64_t>(map.element_bytes);
  if (line > kLineBytes || line % kAlignment != 0) return "lines of a box that do not fit the pattern";
  return "";
}

TensorMapBytes encode(const TensorMapLayout& map) {
  Encoded encoded{};
  encoded.mark = kMark;
  encoded.address = map.address;
  encoded.rank = static_cast<uint8_t>(map.extents.size());
  encoded.element_bytes = static_cast<uint8_t>(map.element_bytes);
  encoded.rounds_to_tf32 = map.rounds_to_tf32 ? 1 : 0;
  std::copy(map.extents.begin(), map.extents.end(), encoded.extents.begin());
  std::copy(map.strides.begin(), map.strides.end(), encoded.strides.begin());
  std::copy(map.box.begin(), map.box.end(), encoded.box.begin());
  TensorMapBytes bytes{};
  std::memcpy(bytes.data(), &encoded, sizeof encoded);
  return bytes;
}

TensorMapLayout decode_tensor_map(const TensorMapBytes& bytes) {
  Encoded encoded{};
  std::memcpy(&encoded, bytes.data(), sizeof encoded);
  if (encoded.mark != kMark) throw GpuFault("a tensor map that nobody encoded");
  const auto first = [&](const auto& values, int count) {
    return std::vector<uint64_t>(values.begin(), values.begin() + count);
  };
  return {.buffer = 0,
          .address = encoded.address,
          .element_bytes = encoded.element_bytes,
          .rounds_to_tf32 = encoded.rounds_to_tf32 != 0,
          .extents = first(encoded.extents, encoded.rank),
          .strides = first(encoded.strides, encoded.rank - 1),
          .box = first(encoded.box, encoded.rank)};
}

std::vector<unsigned char> read_box(const TensorMapLayout& map, const std::vector<int64_t>& at,
                                    int64_t thread, GlobalMemory& memory) {
  const uint64_t base = memory.buffers().at(map.buffer).address + map.address;
  const auto element = static_cast<uint64_t>(map.element_bytes);
  const uint64_t line_bytes = map.box[0] * element;
  std::vector<unsigned char> bytes(box_lines(map) * line_bytes);
  std::set<uint64_t> sectors;
  for (uint64_t line = 0; line < box_lines(map); ++line) {
    uint64_t from = base, rest = line;
    bool is_inside = true;
    for (size_t d = 1; d < map.box.size(); ++d) {
      const int64_t coordinate = at[d] + static_cast<int64_t>(rest % map.box[d]);
      rest /= map.box[d];
      is_inside &= coordinate >= 0 && coordinate < static_cast<int64_t>(map.extents[d]);
      from += static_cast<uint64_t>(coordinate) * map.strides[d - 1];
    }
    for (uint64_t i = 0; is_inside && i < map.box[0]; ++i) {
      const int64_t coordinate = at[0] + static_cast<int64_t>(i);
      if (coordinate < 0 || coordinate >= static_cast<int64_t>(map.extents[0])) continue;
      const uint64_t address = from + static_cast<uint64_t>(coordinate) * element;
      const unsigned char* found =
          memory.access({.thread = thread, .address = address, .bytes = map.element_bytes});
      unsigned char* const to = bytes.data() + line * line_bytes + i * element;
      std::copy_n(found, element, to);
      if (map.rounds_to_tf32) round_to_tf32(to);
      sectors.insert(address / kGpuSectorBytes);
    }
  }
  memory.count_sectors(sectors);
  return bytes;
}

uint64_t box_chunk_address(uint64_t to, int line, int chunk) {
  const uint64_t address =
      to + static_cast<uint64_t>(line) * kLineBytes + static_cast<uint64_t>(chunk) * kChunkBytes;
  return address ^ (address >> 7 & 7) << 4;
}

}  // namespace tilefuse
