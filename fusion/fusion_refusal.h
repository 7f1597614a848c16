// Why an edge between two nodes lies inside no region: a kind, and the numbers behind it.
#pragma once
#include <string>
#include <variant>

namespace tilefuse {

struct OpaqueProducer {
  std::string op;
};
struct OpaqueConsumer {
  std::string op;
};
// The Call could be part of a region. Both prices are of all that the region would hold.
struct LibraryIsFaster {
  std::string op;
  double library_us, own_us;
};
struct WouldCycle {
  std::string through;
};  // a value on the path that leaves and comes back
struct NotSchedulable {
  std::string why;
};  // the sentence of analyze_structure / lower_to_tiles
struct NoGain {
  double apart_us, fused_us;  // fused no less: nobody asks how much too dear it is
};
struct RegionTooLarge {
  int nodes, limit;
};
struct FuseLimitReached {
  int limit;
};  // options: fuse_limit
struct Refused {
  std::string why;
};  // by the full solver, after the fact
using FusionRefusal = std::variant<OpaqueProducer, OpaqueConsumer, LibraryIsFaster, WouldCycle,
                                   NotSchedulable, NoGain, RegionTooLarge, FuseLimitReached, Refused>;
std::string kind_of(const FusionRefusal& refusal);  // "NoGain"
std::string to_text(const FusionRefusal& refusal);  // a sentence with the numbers

}  // namespace tilefuse
