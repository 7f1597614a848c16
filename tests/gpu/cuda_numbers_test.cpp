// Products of numbers that are not of 16 bits (matrix_numbers.h), as cuda_product_test.cpp tests those that
// are: exact sums of small whole numbers; and what becomes of floats that are rounded, or taken apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/result.h"
#include "tests/gpu/cuda_product_fixture.h"
#include "tests/gpu/tested_targets.h"
#include "tests/kernel_fixture.h"
#include "tests/sampled.h"
#include "tests/tile_evaluate.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

// tf32 in one product and in three, integers and floats of eight bits: along k and along the rows, ragged, at
// places that are no multiples of 16 bytes, with sizes of run time.
std::vector<ProductCase> cases_of_numbers() {
  const auto region = [](const std::string& name, const std::string& first, const std::string& second,
                         bool first_along_k, bool second_along_k) {
    ProductRegion r{.name = name, .dtype = "f32", .m = "80", .n = "48", .k = "96"};
    r.first_dtype = first, r.second_dtype = second;
    r.first_along_k = first_along_k, r.second_along_k = second_along_k;
    r.epilogue = "  %y = copy(%s) : DTYPE[RESULT]\n";
    r.result_dtype = "f32";
    return r;
  };
  const auto whole = [&](const std::string& name, const std::string& first, const std::string& second,
                         bool first_along_k, bool second_along_k) {
    ProductRegion r = region(name, first, second, first_along_k, second_along_k);
    r.dtype = r.declared = r.result_dtype = "i32";
    return r;
  };
  std::vector<ProductCase> made;
  for (const char* numbers : {"tf32", "tf32x3"}) {
    const std::string name = numbers, pin = "numbers=" + name;
    made.push_back({region(name + "_along_k", "f32", "f32", true, true), pin});
    made.push_back({region(name + "_along_rows", "f32", "f32", false, false), pin});
    made.push_back({region(name + "_second_along_rows", "f32", "bf16", true, false), pin});
    ProductRegion odd = region(name + "_odd", "f32", "f32", true, false);
    odd.m = "37", odd.n = "29", odd.k = "19";
    made.push_back({odd, pin});
    ProductRegion open = region(name + "_run_time_sizes", "f32", "f32", false, true);
    open.m = "s0", open.n = "s1", open.k = "s2";
    made.push_back({open, pin, {{"s0", 45}, {"s1", 50}, {"s2", 33}}});
    made.push_back({region(name + "_narrow_tiles", "f32", "f32", false, false),
                    pin + ",block_m=16,block_n=16,step=8,warps_m=1,warps_n=1,stages=3"});
  }
  made.push_back({region("tf32_of_two_halves", "bf16", "f16", true, true), "numbers=tf32"});
  made.push_back({whole("int8_along_k", "i8", "i8", true, true), "numbers=int8"});
  made.push_back({whole("int8_without_signs", "u8", "i8", true, true), "numbers=int8"});
  made.push_back({whole("int8_along_rows", "i8", "u8", false, false), "numbers=int8"});
  ProductRegion scaled = whole("int8_scaled", "i8", "i8", true, false);
  scaled.m = "37", scaled.n = "44", scaled.k = "50", scaled.result_dtype = "bf16";
  scaled.buffers = "%scale: f32[44] in, ";
  scaled.epilogue =
      "  %scale = load %scale[j] : f32[j]\n  %f = cast(%s) : f32[RESULT]\n"
      "  %v = mul(%f, %scale) : f32[RESULT]\n  %y = cast(%v) : DTYPE[RESULT]\n";
  made.push_back({scaled, "numbers=int8"});
  made.push_back({region("float8_along_k", "f8e4m3fn", "f8e4m3fn", true, true), "numbers=float8"});
  made.push_back({region("float8_of_two_kinds", "f8e5m2", "f8e4m3fn", true, true), "numbers=float8"});
  made.push_back({region("float8_along_rows", "f8e4m3fn", "f8e5m2", false, true), "numbers=float8"});
  ProductRegion batch = region("float8_batch", "f8e5m2", "f8e5m2", true, true);
  batch.m = "72", batch.n = "80", batch.k = "272", batch.batch = 3;
  made.push_back({batch, "numbers=float8"});
  ProductRegion shared = whole("int8_of_one_second", "u8", "u8", true, true);
  shared.m = "24", shared.k = "400", shared.batch = 3, shared.shares_second = true;
  made.push_back({shared, "numbers=int8"});
  ProductRegion apart = region("tf32_lines_apart", "f32", "f32", true, true);
  apart.m = "72", apart.k = "148", apart.gap = 8, apart.batch = 2;
  apart.buffers = "%r: f32[2, 72, 48] in, ";
  apart.epilogue = "  %r = load %r[b*72*48 + i*48 + j] : f32[b, i, j]\n  %y = add(%s, %r) : DTYPE[RESULT]\n";
  made.push_back({apart, "numbers=tf32"});
  ProductRegion open = region("float8_run_time_sizes", "f8e4m3fn", "f8e4m3fn", true, true);
  open.m = "s0", open.n = "s1", open.k = "s2";
  made.push_back({open, "numbers=float8", {{"s0", 45}, {"s1", 50}, {"s2", 321}}});
  made.push_back({region("float8_widened", "f8e4m3fn", "f8e4m3fn", true, true), "numbers=half"});
  return made;
}

class CudaNumbers : public CudaProducts, public testing::WithParamInterface<ProductCase> {};

TEST_P(CudaNumbers, are_multiplied_on_every_device_that_has_them) {
  const ProductCase& test = GetParam();
  const TileGraph graph = parse_tile_graph(text_of(test.region));
  Pins pins = pins_of(test.pins);
  pins.decisions["parts"] = "1";
  for (const std::string& name : tested_targets()) {
    GpuTarget target = load_gpu_target(name);
    target.rounds_to_tf32 = true;
    const Result<GpuPlan> plan = plan_gpu(graph, target, pins);
    if (test.pins == "numbers=float8" && target.float8_flops_per_cycle == 0) {
      ASSERT_FALSE(plan);
      EXPECT_THAT(plan.unsupported().reason, HasSubstr("does not multiply float8"));
      continue;
    }
    ASSERT_TRUE(plan) << plan.unsupported().reason << to_text(graph);
    const GpuNest& nest = plan->nests.at(0);
    EXPECT_EQ(info(std::get<GpuProductSchedule>(nest.schedule).numbers).name, pins.decisions.at("numbers"));
    const GpuNest read = parse_gpu_nest(to_text(nest), graph);
    EXPECT_EQ(std::get<GpuProductSchedule>(read.schedule).numbers,
              std::get<GpuProductSchedule>(nest.schedule).numbers);
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, 7, test.sizes);
    if (HasFailure()) return;
  }
}

// Only the numbers of a case, by warpgroups of the one device that has them, and how copies are made.
struct ByGroups {
  explicit ByGroups(const ProductCase& test, const std::string& copies)
      : graph(parse_tile_graph(text_of(test.region))) {
    target.rounds_to_tf32 = true;
    const std::string numbers = test.pins.substr(0, test.pins.find(','));
    for (const MatrixNumbersInfo& known : kMatrixNumbers) {
      if (numbers == "numbers=" + std::string(known.name))
        product = analyze_gpu_product(graph, known.numbers);
    }
    plan = plan_gpu(graph, target, pins_of(numbers + ",parts=1,multiply=wgmma,copies=" + copies));
  }
  TileGraph graph;
  GpuTarget target = load_gpu_target("cuda-sm90a");
  Result<GpuProduct> product = Unsupported{""};
  Result<GpuPlan> plan = Unsupported{""};
};

TEST_P(CudaNumbers, are_multiplied_by_warpgroups) {
  const ByGroups by(GetParam(), "async");
  ASSERT_TRUE(by.product) << by.product.unsupported().reason;
  if (!by.product->why_not_groups.empty()) {
    ASSERT_FALSE(by.plan);
    EXPECT_THAT(by.plan.unsupported().reason, HasSubstr(by.product->why_not_groups));
    return;
  }
  ASSERT_TRUE(by.plan) << by.plan.unsupported().reason;
  const GpuNest& nest = by.plan->nests.at(0);
  EXPECT_TRUE(std::get<GpuProductSchedule>(nest.schedule).is_in_groups());
  const CudaKernel kernel = compile_cuda(*nvrtc(), nest, by.target);
  expect_lean(kernel);
  expect_right(nest, kernel, 7, GetParam().sizes);
}

// In more tiles than one, whole and in turns, with results as they are held and gathered.
TEST_P(CudaNumbers, are_multiplied_in_bulk) {
  const ByGroups by(GetParam(), "bulk,block_m=64,block_n=64");
  ASSERT_TRUE(by.product) << by.product.unsupported().reason;
  const bool is_possible = by.product->why_not_groups.empty() && by.product->why_not_bulk.empty();
  ASSERT_EQ(bool(by.plan), is_possible) << to_text(by.graph);
  if (!by.plan) return;
  GpuNest nest = by.plan->nests.at(0);
  auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
  EXPECT_TRUE(schedule.is_bulk());
  const bool reads = !by.product->element_loads.empty();
  schedule.warps_m = kGroupWarps;
  using enum ProductGroups;
  for (const ProductGroups groups : {Together, Turns}) {
    for (const ProductResults results :
         {ProductResults::Held, reads ? ProductResults::Fetched : ProductResults::Gathered}) {
      schedule.groups = groups;
      schedule.results = results;
      schedule.blocks = 2;
      ASSERT_THAT(check_gpu_product_schedule(*by.product, schedule, by.target), testing::IsEmpty());
      const CudaKernel kernel = compile_cuda(*nvrtc(), nest, by.target);
      expect_lean(kernel);
      EXPECT_FALSE(kernel.program.launch.tensor_maps.empty());
      expect_right(nest, kernel, 7, GetParam().sizes);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaNumbers, testing::ValuesIn(cases_of_numbers()),
                         [](const auto& info) { return info.param.region.name; });

// The first kernel leaves sums of parts of k, the second one adds them.
TEST_P(CudaNumbers, are_summed_in_parts_by_warpgroups) {
  ProductCase test = GetParam();
  if (!test.sizes.empty() || test.region.batch > 0) return;
  test.region.k = "1024";
  ByGroups by(test, "async");
  if (!by.plan) return;
  const bool is_bulk = by.product->why_not_bulk.empty();
  const std::string numbers(info(by.product->numbers).name);
  by.plan = plan_gpu(by.graph, by.target,
                     pins_of("kernel=product,parts=8,multiply=wgmma,numbers=" + numbers +
                             (is_bulk ? ",copies=bulk" : ",copies=async")));
  ASSERT_TRUE(by.plan) << by.plan.unsupported().reason;
  ASSERT_EQ(by.plan->nests.size(), 2U);
  const auto& schedule = std::get<GpuProductSchedule>(by.plan->nests[0].schedule);
  EXPECT_TRUE(schedule.is_in_groups());
  EXPECT_EQ(schedule.numbers, by.product->numbers);
  const std::vector<Tensor> inputs = whole_numbers(by.graph, 5, {});
  const std::vector<Tensor> expected = evaluate(by.graph, inputs, {{}, {.rounds_floats = false}});
  const CudaPlanRun found =
      run_plan(compile_plan(*nvrtc(), *by.plan, by.target), *by.plan, by.graph, inputs, {});
  EXPECT_EQ(first_difference(found.outputs.at(0), expected.at(0), 0), "") << to_text(by.plan->nests[0]);
  EXPECT_GT(found.runs.at(0).group_products, 0);
  EXPECT_EQ(found.runs.at(0).bank_conflicts, 0);
}

// ---------------------------------------------------------------- laws
ProductRegion random_region_of_numbers(MatrixNumbers numbers, uint64_t seed) {
  RandomSource random(seed);
  ProductRegion r = random_product_region(seed);
  const auto size = [&](int64_t most) {
    return std::to_string(random.once_in(2) ? 16 * random.between(1, most / 16) : random.between(1, most));
  };
  r.dtype = r.declared = r.result_dtype = numbers == MatrixNumbers::Int8 ? "i32" : "f32";
  r.m = size(96), r.n = size(96);
  r.k = random.once_in(4) ? size(320) : std::to_string(16 * random.between(1, 20));  // of whole chunks
  r.gap = random.once_in(4) ? random.pick<int>({1, 16}) : 0;
  r.first_along_k = !random.once_in(6), r.second_along_k = !random.once_in(6);
  r.buffers = "", r.epilogue = "  %y = copy(%s) : DTYPE[RESULT]\n";
  if (random.once_in(2)) {
    r.buffers = "%bias: " + r.result_dtype + "[COLS] in, ";
    r.epilogue = "  %bias = load %bias[j] : DTYPE[j]\n  %y = add(%s, %bias) : DTYPE[RESULT]\n";
  }
  const auto drawn = [&]() -> std::string {
    if (numbers == MatrixNumbers::Int8) return random.pick<std::string>({"i8", "u8"});
    if (numbers == MatrixNumbers::Float8) return random.pick<std::string>({"f8e4m3fn", "f8e5m2"});
    return "f32";
  };
  r.first_dtype = drawn(), r.second_dtype = drawn();
  return r;
}

class CudaRandomNumbers : public CudaProducts, public testing::WithParamInterface<MatrixNumbers> {};

TEST_P(CudaRandomNumbers, are_right_under_random_schedules) {
  GpuTarget target = load_gpu_target("cuda-sm90a");
  target.rounds_to_tf32 = true;
  int groups = 0, bulk = 0, turns = 0;
  const int seeds = sampled(16, 40);
  for (int seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TileGraph graph = parse_tile_graph(text_of(random_region_of_numbers(GetParam(), seed)));
    const Result<GpuProduct> product = analyze_gpu_product(graph, GetParam());
    if (!product) continue;  // a matrix of one row has no lines
    RandomSource random(seed);
    const GpuNest nest{graph, random_product_schedule(graph, *product, target, random), ""};
    const auto& schedule = std::get<GpuProductSchedule>(nest.schedule);
    const CudaKernel kernel = compile_cuda(*nvrtc(), nest, target);
    expect_lean(kernel);
    expect_right(nest, kernel, seed, {}, /*is_whole=*/false);
    groups += schedule.is_in_groups() ? 1 : 0;
    bulk += schedule.is_bulk() ? 1 : 0;
    turns += schedule.takes_turns() ? 1 : 0;
  }
  EXPECT_GT(groups, sampled(4, 10));
  EXPECT_EQ(bulk > sampled(0, 2), GetParam() != MatrixNumbers::Tf32x3) << bulk;
  RecordProperty("turns", turns);
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaRandomNumbers,
                         testing::Values(MatrixNumbers::Tf32, MatrixNumbers::Tf32x3, MatrixNumbers::Int8,
                                         MatrixNumbers::Float8),
                         [](const auto& drawn) { return std::string(tilefuse::info(drawn.param).name); });

// What the solver chooses for large ones fits the registers.
TEST_F(CudaProducts, schedules_of_large_products_of_other_numbers_do_not_spill) {
  for (const ProductCase& test : cases_of_numbers()) {
    ProductRegion region = test.region;
    if (test.pins.find(',') != std::string::npos || !test.sizes.empty() || region.m != "80") continue;
    region.m = region.k = "4096", region.n = "4096";
    const TileGraph graph = parse_tile_graph(text_of(region));
    for (const std::string& name : tested_targets()) {
      GpuTarget target = load_gpu_target(name);
      target.rounds_to_tf32 = true;
      const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(test.pins + ",parts=1"));
      if (!plan) continue;
      SCOPED_TRACE(region.name + to_text(plan->nests.at(0)));
      expect_lean(compile_cuda(*nvrtc(), plan->nests.at(0), target));
    }
  }
}

// ---------------------------------------------------------------- floats
// y = x * w of f32, x and w along k; element (i, j) of the result, or (line, k) of a factor, by a function.
using Elements = std::function<double(int, int)>;

class CudaFloats : public CudaProducts {
 protected:
  static constexpr int kRows = 16, kColumns = 16;

  CudaFloats() { region_.epilogue = "  %y = copy(%s) : f32[RESULT]\n"; }

  void fill(int depth, const Elements& x, const Elements& w) {
    region_.k = std::to_string(depth);
    graph_ = parse_tile_graph(text_of(region_));
    inputs_ = random_buffers(graph_, 1, {});
    for (const auto& [tensor, elements] : {std::pair{&inputs_.at(0), x}, std::pair{&inputs_.at(1), w}}) {
      for (int i = 0; i < kRows * depth; ++i) tensor->set_float(i, elements(i / depth, i % depth));
    }
  }
  Tensor product(const std::string& pins) const {
    const Result<GpuPlan> plan = plan_gpu(graph_, target_, pins_of("parts=1,kernel=product" + pins));
    if (!plan) throw UserError(plan.unsupported().reason);
    const CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target_);
    return run_cuda(kernel.program.launch, kernel.binary.ptx, graph_, inputs_, {}).outputs.at(0);
  }
  Tensor exact_product() const { return evaluate(graph_, inputs_, {{}, {.rounds_floats = false}}).at(0); }
  double largest_error(const Tensor& found) const {
    const Tensor expected = exact_product();
    double largest = 0;
    for (int64_t i = 0; i < expected.count(); ++i)
      largest = std::max(largest, std::abs(found.float_at(i) - expected.float_at(i)));
    return largest;
  }

  static void expect_same_specials(const Tensor& found, const Tensor& expected) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kMost = std::numeric_limits<float>::max();
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double right = expected.float_at(i), is = found.float_at(i);
      SCOPED_TRACE(testing::Message() << "row " << i / kColumns << ", column " << i % kColumns);
      if (std::isnan(right)) {
        EXPECT_TRUE(std::isnan(is)) << is;
      } else if (std::abs(right) > kMost) {
        EXPECT_EQ(is, std::copysign(kInfinity, right));
      } else {
        EXPECT_NEAR(is, right, std::abs(right) * 1e-6);
      }
    }
  }

  ProductRegion region_{.name = "floats", .dtype = "f32", .m = "16", .n = "16", .k = "8"};
  TileGraph graph_;
  std::vector<Tensor> inputs_;
  GpuTarget target_ = load_gpu_target("cuda-sm80");
};

Elements drawn(uint64_t seed, double least, double most) {
  return [random = std::mt19937_64(seed), draw = std::uniform_real_distribution<>(least, most)](
             int, int) mutable { return draw(random); };
}

TEST_F(CudaFloats, are_rounded_only_where_that_is_allowed) {
  fill(64, drawn(11, -1, 1), drawn(12, -1, 1));
  EXPECT_THROW(product(",numbers=tf32"), UserError);
  EXPECT_LT(largest_error(product("")), 4e-6);
  target_.rounds_to_tf32 = true;
  EXPECT_GT(largest_error(product("")), 2e-4);
  EXPECT_LT(largest_error(product("")), 2e-2);
}

// By warpgroups they are rounded on the way to shared memory, by threads or by the machine, to nearest: not
// cut off, which a sum of one sign would show.
TEST_F(CudaFloats, are_rounded_for_warpgroups_too) {
  target_ = load_gpu_target("cuda-sm90a");
  target_.rounds_to_tf32 = true;
  region_.k = "512";
  fill(512, drawn(31, 1, 2), drawn(32, 1, 2));
  const double by_warps = largest_error(product(",numbers=tf32,multiply=mma.sync"));
  for (const char* copies : {"async", "bulk"}) {
    const double found = largest_error(product(",numbers=tf32,multiply=wgmma,copies=" + std::string(copies)));
    EXPECT_GT(found, 1e-3) << copies;
    EXPECT_LT(found, 1.5 * by_warps) << copies;  // cut off: 512 * 1.5 * 2^-11 and more
  }
}

// A tensor map that does not round, or a thread.
TEST_F(CudaFloats, that_nobody_rounds_for_warpgroups_are_found) {
  target_ = load_gpu_target("cuda-sm90a");
  target_.rounds_to_tf32 = true;
  fill(64, drawn(31, 1, 2), drawn(32, 1, 2));
  for (const std::string copies : {"async", "bulk"}) {
    const Result<GpuPlan> plan =
        plan_gpu(graph_, target_, pins_of("parts=1,numbers=tf32,multiply=wgmma,copies=" + copies));
    ASSERT_TRUE(plan) << plan.unsupported().reason;
    CudaKernel kernel = compile_cuda(*nvrtc(), plan->nests.at(0), target_);
    for (GpuTensorMap& map : kernel.program.launch.tensor_maps) map.dtype = DType::I32;  // as it lies
    std::string& ptx = kernel.binary.ptx;
    const std::string round = "cvt.rna.tf32.f32", copy = "mov.b32";
    for (size_t at = ptx.find(round); at != std::string::npos; at = ptx.find(round))
      ptx.replace(at, round.size(), copy);
    try {
      run_cuda(kernel.program.launch, ptx, graph_, inputs_, {});
      ADD_FAILURE() << copies;
    } catch (const GpuFault& fault) {
      EXPECT_THAT(fault.what(), HasSubstr("was not rounded to tf32")) << copies;
    }
  }
}

// Sums of floats of eight bits are begun anew in each step of 128, where instructions keep few bits of them.
TEST_F(CudaProducts, of_eight_bit_floats_are_summed_a_step_at_a_time) {
  ProductRegion region{.name = "steps", .dtype = "f32", .m = "64", .n = "64", .k = "1024"};
  region.first_dtype = region.second_dtype = "f8e4m3fn";
  region.epilogue = "  %y = copy(%s) : f32[RESULT]\n";
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const TileGraph graph = parse_tile_graph(text_of(region));
  for (const char* copies : {"async", "bulk"}) {
    const Result<GpuPlan> plan = plan_gpu(
        graph, target, pins_of("numbers=float8,parts=1,multiply=wgmma,copies=" + std::string(copies)));
    ASSERT_TRUE(plan) << plan.unsupported().reason;
    const std::string ptx = compile_cuda(*nvrtc(), plan->nests.at(0), target).binary.ptx;
    int products = 0, begun = 0;
    for (size_t at = ptx.find("wgmma.mma_async"); at != std::string::npos;
         at = ptx.find("wgmma.mma_async", at + 1)) {
      const std::string instruction = ptx.substr(at, ptx.find(';', at) - at);
      ++products;
      begun += instruction.ends_with(", 0, 1, 1") ? 1 : 0;
    }
    EXPECT_GT(begun, 0);
    EXPECT_EQ(products, 4 * begun) << "of 32 each";
  }
}

// Of sums of one sign, of which tensor cores would cut off more with each instruction.
TEST_F(CudaFloats, in_three_products_are_as_near_as_sums_of_f32) {
  constexpr int kDepth = 2048;
  fill(kDepth, drawn(21, 1, 2), drawn(22, 1, 2));
  Tensor one_by_one = exact_product();
  for (int i = 0; i < kRows * kColumns; ++i) {
    float sum = 0;
    for (int k = 0; k < kDepth; ++k) {
      const auto at = [&](size_t factor, int line) {
        return static_cast<float>(inputs_.at(factor).float_at(line * kDepth + k));
      };
      sum = std::fma(at(0, i / kColumns), at(1, i % kColumns), sum);
    }
    one_by_one.set_float(i, sum);
  }
  EXPECT_LT(largest_error(product(",numbers=tf32x3")), largest_error(one_by_one));
  target_ = load_gpu_target("cuda-sm90a");
  EXPECT_LT(largest_error(product(",numbers=tf32x3,multiply=wgmma")), largest_error(one_by_one));
}

// Infinities, what is no number, and the largest ones. Of two numbers whose product is beyond those, the
// rests may be, too, with other signs: that is left out.
TEST_F(CudaFloats, in_three_products_keep_what_is_no_finite_number) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNone = std::nan("");
  constexpr double kMost = std::numeric_limits<float>::max();
  const std::vector<double> special = {kInfinity, -kInfinity, kNone,        0,          -0.0,  1e-30F,
                                       1,         0x1.0002p0, 0x1.fffffep0, -0x1.ffep0, kMost, -kMost};
  constexpr int kLarge = 10;  // from here on
  const auto with_specials = [&](int place, int count) {
    return [&special, place, count](int line, int k) {
      return k == place && line < count ? special[size_t(line)] : (line + k) % 5 * 0x1.0004p-3;
    };
  };
  for (const int second : {3, 5}) {  // the specials of both meet each other, or those of one ordinary numbers
    fill(8, with_specials(3, int(special.size())),
         with_specials(second, second == 3 ? kLarge : int(special.size())));
    const Tensor expected = exact_product();
    for (const bool is_in_groups : {false, true}) {
      target_ = load_gpu_target(is_in_groups ? "cuda-sm90a" : "cuda-sm80");
      expect_same_specials(product(is_in_groups ? ",numbers=tf32x3,multiply=wgmma" : ",numbers=tf32x3"),
                           expected);
    }
  }
}

}  // namespace
}  // namespace tilefuse
