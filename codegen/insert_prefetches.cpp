#include "codegen/insert_prefetches.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "fusion/loop_nest.h"

namespace tilefuse {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kLeastBuffer = 128 << 10;  // bytes: what is smaller is in a cache nearby as a rule
// Two are as good as four, measured on Zen 4 over weights of 42 MB. One is as good where rows lie apart;
// where an iteration reads a few lines of each row it is no gain, since processors bring the next lines
// themselves.
constexpr int64_t kIterationsAhead = 2;
constexpr int64_t kLeastAhead = 8 << 10;   // bytes: less comes too late
constexpr int64_t kMostAhead = 384 << 10;  // bytes: more would not stay in a cache of 1 MiB
constexpr int64_t kLeastRun = 512;         // bytes: shorter runs one behind the other are one stream
constexpr int64_t kLeastIterations = 16;   // of the loop around: the last ones ask for what nobody reads

// base + sum of coefficient * symbol + constant, in elements.
struct Place {
  std::optional<SymbolId> base;
  std::map<SymbolId, int64_t> coefficients;
  int64_t constant = 0;

  int64_t along(SymbolId index) const {
    const auto found = coefficients.find(index);
    return found == coefficients.end() ? 0 : found->second;
  }
};

Place plus(Place a, const Place& b, int64_t factor) {
  if (b.base) a.base = b.base;
  for (const auto& [symbol, coefficient] : b.coefficients) a.coefficients[symbol] += factor * coefficient;
  a.constant += factor * b.constant;
  return a;
}

Place times(const Place& a, int64_t factor) { return plus({}, a, factor); }

// In each lane an element, two, or a word of four bytes; or less than a line.
enum class Reads : uint8_t { Elements, Pairs, Words, Few };
struct LoadFunction {
  std::string_view name;
  Reads reads;
};
constexpr LoadFunction kLoads[] = {{"load", Reads::Elements},
                                   {"load_pair", Reads::Pairs},
                                   {"load_neighbours", Reads::Words},
                                   {"load_one", Reads::Few},
                                   {"splat_neighbours", Reads::Few}};

struct Loop {
  SymbolId index;
  int64_t step;
  std::optional<int64_t> iterations;

  bool goes_on() const { return iterations.value_or(kIterationsAhead + 1) > kIterationsAhead; }
};

// What one load reads in the iterations of a loop, and the loop around that goes on to the next place.
struct Request {
  Code pointer;
  Place place;
  Loop around;
  int64_t slot = 0;
  int64_t element_bytes = 1;
  int64_t lines = 1;   // beside each other, in one iteration
  int64_t every = 1;   // iterations until the next line
  int64_t copies = 1;  // by unrolled loops inside

  int64_t bytes_in(int64_t iterations) const {
    return (iterations + every - 1) / every * lines * copies * kLineBytes;
  }
};

// A block of the loop, or of an unrolled one inside it, and what its own statements read.
struct Site {
  Block* block;
  std::vector<Request> requests;
};

using LineKey = std::pair<std::map<SymbolId, int64_t>, std::pair<SymbolId, int64_t>>;

// A pointer without the number added to it, and that number.
std::pair<Code, int64_t> without_number(const Code& pointer) {
  const auto* sum = std::get_if<Operation>(&pointer.kind);
  if (sum == nullptr || sum->op != CodeOperator::Add) return {pointer, 0};
  const auto number = constant_of(sum->operands[1]);
  return number ? std::pair{sum->operands[0], *number} : std::pair{pointer, int64_t{0}};
}

class PrefetchInserter {
 public:
  PrefetchInserter(const Kernel& kernel, const BytesOfSlot& bytes_of_slot)
      : kernel_(kernel), bytes_of_slot_(bytes_of_slot) {}

  Block run(Block block) {
    for (Stmt& stmt : block) {
      if (const auto* let = std::get_if<Let>(&stmt.kind)) values_.emplace(let->symbol, let->value);
      if (auto* loop = std::get_if<For>(&stmt.kind)) {
        visit(*loop);
      } else if (Block* body = body_of(stmt)) {
        *body = run(std::move(*body));
      }
    }
    return block;
  }

 private:
  // ---- the loop nest
  void visit(For& loop) {
    const auto first = constant_of(loop.first), last = constant_of(loop.last);
    const auto iterations =
        first && last ? std::optional((*last - *first + loop.step - 1) / loop.step) : std::nullopt;
    if (is_innermost(loop)) {
      for (const Stmt& stmt : loop.body) note_values(stmt);
      if (iterations) ask(loop, {loop.index, loop.step, iterations});
      return;
    }
    loops_.push_back({loop.index, loop.step, iterations});
    const std::set<LineKey> outside = std::exchange(asked_, {});
    loop.body = run(std::move(loop.body));
    asked_ = outside;
    loops_.pop_back();
  }

  static bool is_innermost(const For& loop) {
    return std::ranges::none_of(loop.body, [](const Stmt& stmt) {
      const auto* inner = std::get_if<For>(&stmt.kind);
      if (inner != nullptr) return inner->unroll == 1 || !is_innermost(*inner);
      return body_of(stmt) != nullptr;
    });
  }

  void note_values(const Stmt& stmt) {
    if (const auto* let = std::get_if<Let>(&stmt.kind)) values_.emplace(let->symbol, let->value);
    if (const Block* body = body_of(stmt)) {
      for (const Stmt& inner : *body) note_values(inner);
    }
  }

  // ---- places
  std::optional<Place> place_of(const Code& code) const {
    if (const auto number = constant_of(code))
      return Place{.base = {}, .coefficients = {}, .constant = *number};
    if (const auto* ref = std::get_if<Reference>(&code.kind)) return place_of(ref->symbol);
    const auto* operation = std::get_if<Operation>(&code.kind);
    if (operation == nullptr || operation->operands.size() != 2) return std::nullopt;
    const auto a = place_of(operation->operands[0]), b = place_of(operation->operands[1]);
    if (!a || !b) return std::nullopt;
    switch (operation->op) {
      case CodeOperator::Add:
        return plus(*a, *b, 1);
      case CodeOperator::Sub:
        return plus(*a, *b, -1);
      case CodeOperator::Mul:
        if (is_number(*b)) return times(*a, b->constant);
        if (is_number(*a)) return times(*b, a->constant);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static bool is_number(const Place& place) { return !place.base && place.coefficients.empty(); }

  // A value that is no such sum, the index of a loop among them, stands for itself.
  Place place_of(SymbolId symbol) const {
    if (slot_of(symbol)) return {.base = symbol, .coefficients = {}, .constant = 0};
    const auto value = values_.find(symbol);
    const auto inside = value == values_.end() ? std::nullopt : place_of(value->second);
    return inside.value_or(Place{.base = {}, .coefficients = {{symbol, 1}}, .constant = 0});
  }

  // Of the buffer that a pointer to what is only read begins.
  std::optional<int64_t> slot_of(SymbolId symbol) const {
    const auto value = values_.find(symbol);
    if (kernel_[symbol].type.shape != CodeShape::ConstPointer || value == values_.end()) return std::nullopt;
    const auto* cast = std::get_if<PointerCast>(&value->second.kind);
    const auto* slot = cast ? std::get_if<Subscript>(&cast->base_and_bytes[0].kind) : nullptr;
    const auto* table = slot ? std::get_if<Reference>(&slot->base_and_index[0].kind) : nullptr;
    return table && table->symbol == kBuffers ? constant_of(slot->base_and_index[1]) : std::nullopt;
  }

  bool depends_on(SymbolId symbol, SymbolId on) const {
    std::vector<SymbolId> open{symbol};
    std::set<SymbolId> seen;
    while (!open.empty()) {
      const SymbolId next = open.back();
      open.pop_back();
      if (next == on) return true;
      const auto value = values_.find(next);
      if (value == values_.end() || !seen.insert(next).second) continue;
      for_each_reference(value->second, [&](SymbolId operand) { open.push_back(operand); });
    }
    return false;
  }
  // Not only by a multiple of the index.
  bool varies_unevenly(const Place& place, SymbolId index) const {
    return std::ranges::any_of(place.coefficients, [&](const auto& term) {
      return term.first != index && depends_on(term.first, index);
    });
  }

  // The loop around that moves a place, directly or with a few iterations between that read it again: rows of
  // a product.
  std::optional<Loop> around(const Place& place) const {
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
      if (place.along(loop->index) != 0 || varies_unevenly(place, loop->index)) {
        return loop->goes_on() ? std::optional(*loop) : std::nullopt;
      }
      if (loop->iterations.value_or(kRepeatsAskedAhead + 1) > kRepeatsAskedAhead) break;
    }
    return std::nullopt;
  }

  // ---- requests
  std::optional<Request> request(const FunctionCall& load, const Loop& inner) const {
    const auto function = std::ranges::find(kLoads, std::string_view(load.function), &LoadFunction::name);
    if (function == std::end(kLoads) || load.arguments.size() != 1) return std::nullopt;
    const auto place = place_of(load.arguments[0]);
    if (!place || !place->base) return std::nullopt;
    const auto moved_by = around(*place);
    if (!moved_by) return std::nullopt;
    Request found{
        .pointer = load.arguments[0], .place = *place, .around = *moved_by, .slot = *slot_of(*place->base)};
    const auto bytes = bytes_of_slot_(found.slot);
    if (bytes && *bytes < kLeastBuffer) return std::nullopt;
    for (const SymbolId index : {inner.index, moved_by->index}) {
      if (varies_unevenly(*place, index)) return std::nullopt;
    }
    found.element_bytes = size_in_bytes(kernel_[*place->base].type.dtype);
    found.lines = lines_of(function->reads, found.element_bytes);
    const int64_t walked = place->along(inner.index) * inner.step * found.element_bytes;
    const int64_t next = place->along(moved_by->index) * moved_by->step * found.element_bytes;
    if (walked == 0 || std::abs(next) < kLineBytes) return std::nullopt;
    const bool is_run = std::abs(walked) <= found.lines * kLineBytes;
    if (is_run && std::abs(walked) * *inner.iterations < kLeastRun) return std::nullopt;
    if (std::abs(walked) < kLineBytes) {
      if (kLineBytes % std::abs(walked) != 0) return std::nullopt;
      found.every = kLineBytes / std::abs(walked);
    }
    return found;
  }

  int64_t lines_of(Reads reads, int64_t element_bytes) const {
    const int64_t of_lane = reads == Reads::Few     ? 0
                            : reads == Reads::Words ? int64_t{sizeof(int32_t)}
                            : reads == Reads::Pairs ? 2 * element_bytes
                                                    : element_bytes;
    return std::max<int64_t>(1, kernel_.lanes * of_lane / kLineBytes);
  }

  void collect(const Code& code, const Loop& inner, std::vector<Request>& requests) const {
    if (const auto* load = std::get_if<FunctionCall>(&code.kind)) {
      if (auto found = request(*load, inner)) requests.push_back(std::move(*found));
    }
    for_each_child(code, [&](const Code& child) { collect(child, inner, requests); });
  }

  bool writes_results(const Block& block) const {
    return std::ranges::any_of(block, [&](const Stmt& stmt) {
      bool writes = false;
      if (const auto* effect = std::get_if<Effect>(&stmt.kind)) {
        for_each_reference(effect->call, [&](SymbolId symbol) { writes |= points_to_result(symbol); });
      }
      const Block* body = body_of(stmt);
      return writes || (body != nullptr && writes_results(*body));
    });
  }
  bool points_to_result(SymbolId symbol) const {
    return kernel_[symbol].type.shape == CodeShape::Pointer && depends_on(symbol, kBuffers);
  }

  // Outer blocks first.
  void gather(Block& block, const Loop& inner, int64_t copies, std::vector<Site>& sites) const {
    Site site{&block, {}};
    for (const Stmt& stmt : block) {
      for_each_code(stmt, [&](const Code& code) { collect(code, inner, site.requests); });
    }
    for (Request& r : site.requests) r.copies = copies;
    sites.push_back(std::move(site));
    for (Stmt& stmt : block) {
      if (auto* rows = std::get_if<For>(&stmt.kind)) gather(rows->body, inner, copies * rows->unroll, sites);
    }
  }

  void ask(For& loop, const Loop& inner) {
    if (writes_results(loop.body)) return;
    std::vector<Site> sites;
    gather(loop.body, inner, 1, sites);
    std::map<int64_t, int64_t> bytes;  // by slot: that an iteration of the loop around asks for
    for (Site& site : sites) {
      drop_known(site.requests);
      for (const Request& r : site.requests) bytes[r.slot] += r.bytes_in(*inner.iterations);
    }
    for (auto site = sites.rbegin(); site != sites.rend(); ++site) {  // inserting moves the blocks inside
      std::erase_if(site->requests, [&](const Request& r) { return !pays(r, bytes.at(r.slot)); });
      insert(*site, inner, bytes);
    }
  }

  // Lines that are asked for already in this iteration of the loop around.
  void drop_known(std::vector<Request>& requests) {
    std::erase_if(requests, [&](const Request& r) {
      const int64_t line = r.place.constant * r.element_bytes / kLineBytes;
      return !asked_.insert({r.place.coefficients, {*r.place.base, line}}).second;
    });
  }

  bool pays(const Request& r, int64_t bytes_of_iteration) const {
    const auto bytes = bytes_of_slot_(r.slot);
    const bool ends_soon = bytes && *bytes < kLeastIterations * bytes_of_iteration;
    return !ends_soon && kIterationsAhead * bytes_of_iteration <= kMostAhead;
  }

  // ---- statements
  Code ahead_of(const Request& r, int64_t bytes_of_iteration, int64_t line) const {
    const int64_t iterations = std::max(kIterationsAhead, kLeastAhead / bytes_of_iteration);
    const int64_t elements = r.place.along(r.around.index) * r.around.step * iterations;
    const auto [pointer, number] = without_number(r.pointer);
    return add(pointer, integer(number + elements + line * kLineBytes / r.element_bytes));
  }

  void insert(const Site& site, const Loop& inner, const std::map<int64_t, int64_t>& bytes) const {
    std::map<int64_t, Block> by_period;  // once in so many iterations
    for (const Request& r : site.requests) {
      for (int64_t line = 0; line < r.lines; ++line) {
        by_period[r.every].push_back({Effect{call("prefetch", {ahead_of(r, bytes.at(r.slot), line)})}, ""});
      }
    }
    Block asks;
    for (auto& [every, effects] : by_period) {
      if (every == 1) {
        std::move(effects.begin(), effects.end(), std::back_inserter(asks));
        continue;
      }
      const Code within = operate(CodeOperator::Mod, {reference(inner.index), integer(every * inner.step)});
      asks.push_back({If{operate(CodeOperator::Equal, {within, integer(0)}), std::move(effects)}, ""});
    }
    Block& block = *site.block;
    const auto place = block.begin() + behind_definitions(block, site.requests);
    block.insert(place, std::make_move_iterator(asks.begin()), std::make_move_iterator(asks.end()));
  }

  // The first place in a block where all pointers of the requests are defined.
  static std::ptrdiff_t behind_definitions(const Block& block, const std::vector<Request>& requests) {
    std::set<SymbolId> used;
    for (const Request& r : requests) {
      for_each_reference(r.pointer, [&](SymbolId symbol) { used.insert(symbol); });
    }
    std::ptrdiff_t place = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      const auto* let = std::get_if<Let>(&block[i].kind);
      if (let != nullptr && used.contains(let->symbol)) place = static_cast<std::ptrdiff_t>(i) + 1;
    }
    return place;
  }

  const Kernel& kernel_;
  const BytesOfSlot& bytes_of_slot_;
  std::map<SymbolId, Code> values_;
  std::vector<Loop> loops_;
  std::set<LineKey> asked_;  // in the open iteration of the innermost of loops_
};

}  // namespace

Kernel insert_prefetches(Kernel kernel, const BytesOfSlot& bytes_of_slot) {
  Block body = PrefetchInserter(kernel, bytes_of_slot).run(kernel.body);
  kernel.body = std::move(body);
  return kernel;
}

}  // namespace tilefuse
