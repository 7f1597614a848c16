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

INSTANTIATE_TEST_SUITE_P(Cuda, CudaNumbers, testing::ValuesIn(cases_of_numbers()),
                         [](const auto& info) { return info.param.region.name; });

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
    const Tensor found = product(",numbers=tf32x3"), expected = exact_product();
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
}

}  // namespace
}  // namespace tilefuse
