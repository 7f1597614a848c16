// Reductions to the position of an extreme: every accumulator has a variable for the best element and one for
// its place, which change together (codegen/runtime/cuda_extremes.h).
#include "codegen/gpu_lowering.h"

namespace tilefuse {

// Behind every element, so that any that is as good goes before it.
void GpuLowering::begin_position(Accumulator& accumulator) {
  const bool is_vector = schedule_.vector > 1;
  const DType dtype = index_type_.dtype;
  const Code behind = call("highest", {}, {dtype});
  accumulator.position = scopes_.var(name_of(accumulator.reduction) + (is_vector ? "_places" : "_place"),
                                     {dtype, is_vector ? CodeShape::Vector : CodeShape::Scalar},
                                     is_vector ? call("splat", {behind}, {dtype}) : behind);
}

void GpuLowering::take_in_position(const Accumulator& accumulator, const Code& element) {
  Code place = column();
  if (region_.is_across() && schedule_.vector > 1) place = call("splat", {place}, {index_type_.dtype});
  scopes_.add(
      {Effect{call(accumulator.spelling.update, {accumulator.code, *accumulator.position, element, place})},
       ""});
}

// A row that does not exist has found nothing; what it looks up there must be somewhere.
Code GpuLowering::position_of(const Code& place, bool is_vector) const {
  Code position = call("convert", {place}, {DType::I64});
  if (!row_exists_) return position;
  const Code first = literal(int64_t{0}, DType::I64);
  return operate(CodeOperator::Choose,
                 {*row_exists_, position, is_vector ? call("splat", {first}, {DType::I64}) : first});
}

Code GpuLowering::position_along_lanes(const Accumulator& accumulator) {
  Code best = accumulator.code, place = *accumulator.position;
  if (schedule_.vector > 1) {
    const std::string name = name_of(accumulator.reduction);
    const DType dtype = accumulator.spelling.types[0];
    best = scopes_.var(name + "_part", {dtype, CodeShape::Scalar}, accumulator.spelling.identity);
    place = scopes_.var(name + "_place", index_type_, integer(0));
    scopes_.add(
        {Effect{call(accumulator.spelling.across, {accumulator.code, *accumulator.position, best, place})},
         ""});
  }
  if (schedule_.threads > 1) {
    std::vector<Code> arguments = {best, place, integer(schedule_.threads)};
    if (schedule_.threads > kWarpThreads) add_parts(accumulator, parts_along_lanes(), arguments);
    scopes_.add({Effect{call(named_across(accumulator.spelling, "row_"), std::move(arguments))}, ""});
  }
  return position_of(place, false);
}

Code GpuLowering::position_across_rows(const Accumulator& accumulator) {
  if (schedule_.threads > 1) {
    std::vector<Code> arguments = {accumulator.code, *accumulator.position, integer(schedule_.threads),
                                   integer(schedule_.rows)};
    add_parts(accumulator, parts_across_rows(), arguments);
    scopes_.add({Effect{call(named_across(accumulator.spelling, "rows_"), std::move(arguments))}, ""});
  }
  return position_of(*accumulator.position, schedule_.vector > 1);
}

// Of elements and of places.
void GpuLowering::add_parts(const Accumulator& accumulator, int count, std::vector<Code>& arguments) {
  arguments.push_back(parts_of(accumulator.reduction, accumulator.spelling.types[0], count));
  arguments.push_back(parts_of(accumulator.reduction, index_type_.dtype, count));
}

}  // namespace tilefuse
