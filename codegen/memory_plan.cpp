#include "codegen/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tilefuse {
namespace {

constexpr int64_t kAlign = 64;

Expr rounded(const Expr& bytes) { return ceildiv(bytes, kAlign) * kAlign; }
int64_t rounded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
// To what lies behind.
int64_t gap(int64_t bytes) { return bytes >= kPageBytes ? kStaggerBytes : 0; }

bool meet(const ArenaRequest& a, const ArenaRequest& b) { return a.first <= b.last && b.first <= a.last; }

struct Placed {
  int64_t offset, end;
  size_t request;
};

// The tightest gap between what is placed and lives at the same time; the end of it all if none fits.
int64_t best_gap(const std::vector<ArenaRequest>& requests, const std::vector<Placed>& placed, size_t request,
                 int64_t bytes) {
  int64_t end = 0, best = -1, best_slack = std::numeric_limits<int64_t>::max();
  for (const Placed& other : placed) {  // by offset
    if (!meet(requests[request], requests[other.request])) continue;
    const int64_t slack = other.offset - end - bytes;
    if (slack >= 0 && slack < best_slack) {
      best = end;
      best_slack = slack;
    }
    end = std::max(end, other.end);
  }
  return best >= 0 ? best : end;
}

ArenaPlan pack(const std::vector<ArenaRequest>& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto bytes_of = [&](size_t i) { return *requests[i].bytes.constant(); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes_of(a) > bytes_of(b); });

  ArenaPlan plan{std::vector<Expr>(requests.size()), 0};
  std::vector<Placed> placed;
  int64_t total = 0;
  for (const size_t i : order) {
    const int64_t needed = rounded(bytes_of(i)), bytes = needed + gap(needed);
    const int64_t offset = best_gap(requests, placed, i, bytes);
    plan.offsets[i] = offset;
    total = std::max(total, offset + needed);
    const auto by_offset = [](const Placed& a, const Placed& b) { return a.offset < b.offset; };
    const Placed here{offset, offset + bytes, i};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), here, by_offset), here);
  }
  plan.bytes = total;
  return plan;
}

struct Block {
  Expr bytes;
  int free_after = -1;  // the last instruction that needs what it holds
};

enum class Fit { None, Grows, Larger, Equal };

Fit fit(const Block& block, const ArenaRequest& request, const Expr& bytes) {
  if (block.free_after >= request.first) return Fit::None;
  if (block.bytes == bytes) return Fit::Equal;
  if (proves_nonnegative(block.bytes - bytes)) return Fit::Larger;
  return proves_nonnegative(bytes - block.bytes) ? Fit::Grows : Fit::None;
}

ArenaPlan share_blocks(const std::vector<ArenaRequest>& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].first < requests[b].first; });
  std::vector<Block> blocks;
  std::vector<size_t> block_of(requests.size());
  for (const size_t i : order) {
    const Expr bytes = rounded(requests[i].bytes);
    size_t best = blocks.size();
    Fit best_fit = Fit::None;
    for (size_t b = 0; b < blocks.size() && best_fit != Fit::Equal; ++b) {
      const Fit here = fit(blocks[b], requests[i], bytes);
      if (here > best_fit) {
        best = b;
        best_fit = here;
      }
    }
    if (best_fit == Fit::None) blocks.push_back({bytes});
    if (best_fit == Fit::Grows) blocks[best].bytes = bytes;
    blocks[best].free_after = requests[i].last;
    block_of[i] = best;
  }
  ArenaPlan plan{std::vector<Expr>(requests.size()), 0};
  std::vector<Expr> offsets;
  for (const Block& block : blocks) {
    if (!offsets.empty()) plan.bytes = plan.bytes + kStaggerBytes;
    offsets.push_back(plan.bytes);
    plan.bytes = plan.bytes + block.bytes;
  }
  for (size_t i = 0; i < requests.size(); ++i) plan.offsets[i] = offsets[block_of[i]];
  return plan;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<ArenaRequest>& requests) {
  const bool literal = std::all_of(requests.begin(), requests.end(),
                                   [](const ArenaRequest& r) { return r.bytes.constant().has_value(); });
  return literal ? pack(requests) : share_blocks(requests);
}

}  // namespace tilefuse
