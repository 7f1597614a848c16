// Functions of kernels for GPUs: how far they are from the C library's, over all exponents and where they
// vary, and special values; on the model of a GPU, for one architecture. Both compile them without local
// memory.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "core/reference_map.h"
#include "core/result.h"
#include "fusion/gpu_region.h"
#include "tests/gpu/cuda_run.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// Elements of one type of one or two inputs: %r = name(%x) or name(%x, %y).
TileGraph graph_of(const std::string& name, const std::string& dtype, size_t count, int arity) {
  const std::string n = std::to_string(count);
  const std::string buffer = dtype + "[" + n + "]";
  std::string text = "tile_graph function {\n  axes i: " + n + "\n  buffers %x: " + buffer + " in, ";
  if (arity == 2) text += "%y: " + buffer + " in, ";
  text += "%r: " + buffer + " out\n  %x = load %x[i] : " + dtype + "[i]\n";
  if (arity == 2) text += "  %y = load %y[i] : " + dtype + "[i]\n";
  text +=
      "  %r = " + name + (arity == 2 ? "(%x, %y)" : "(%x)") + " : " + dtype + "[i]\n  store %r -> %r[i]\n}\n";
  return parse_tile_graph(text);
}

class CudaFunctions : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }

  Tensor computed(const std::string& name, const std::string& dtype, const std::vector<Tensor>& inputs) {
    const TileGraph graph = graph_of(name, dtype, size_t(inputs[0].count()), int(inputs.size()));
    Tensor result;
    for (const std::string& target_name : gpu_target_names()) {
      const GpuTarget target = load_gpu_target(target_name);
      const Result<GpuSchedule> schedule = solve_gpu(graph, target, {});
      if (!schedule) throw UserError(schedule.unsupported().reason);
      const CudaKernel kernel = compile_cuda(*nvrtc(), graph, *schedule, target);
      EXPECT_EQ(kernel.binary.resources.at(0).spill_bytes, 0) << name;
      EXPECT_EQ(kernel.binary.resources.at(0).stack_bytes, 0) << name;
      if (target_name != gpu_target_names().front()) continue;
      result = run_cuda(kernel.program.launch, kernel.binary.ptx, graph, inputs, {}).outputs.at(0);
    }
    return result;
  }
};

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// All exponents, both signs, subnormals, infinities, NaN; and evenly between two numbers.
std::vector<double> floats_of(double low, double high) {
  std::vector<double> values = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, -0.5, 2, -2};
  constexpr int kCount = 7000;
  for (uint64_t i = 0; i < kCount; ++i)
    values.push_back(double(from_bits(uint32_t(i * (uint64_t{1} << 32) / kCount))));
  for (int i = 0; i < kCount; ++i) values.push_back(double(float(low + (high - low) * i / kCount)));
  while (values.size() % 4 != 0) values.push_back(1);
  return values;
}
std::vector<double> doubles_of(double low, double high) {
  std::vector<double> values = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, -0.5, 2, -2};
  constexpr uint64_t kCount = 3000;
  for (uint64_t i = 0; i < kCount; ++i)
    values.push_back(std::bit_cast<double>(i * (std::numeric_limits<uint64_t>::max() / kCount)));
  for (uint64_t i = 0; i < kCount; ++i) values.push_back(low + (high - low) * double(i) / kCount);
  while (values.size() % 4 != 0) values.push_back(1);
  return values;
}

// In units of the last place of the type around what is right.
template <class T>
double error_of(double got, long double right) {
  const T rounded = static_cast<T>(right);
  if (std::isnan(rounded) || std::isinf(rounded) || !std::isfinite(got)) {
    const bool is_same = std::isnan(rounded) ? std::isnan(got) : got == double(rounded);
    const long double edge = std::numeric_limits<T>::max();
    const bool is_at_edge = std::fabs(right) > edge * 0.999999L && std::fabs(right) < edge * 1.000001L;
    return is_same || is_at_edge ? 0 : INFINITY;
  }
  if (right == 0 && got == 0) return 0;
  const T size = std::fabs(rounded);
  const T above = std::nextafter(size, std::numeric_limits<T>::infinity());
  const long double unit =
      std::isinf(above) ? (long double)(size)-std::nextafter(size, T(0)) : (long double)(above)-size;
  return double(std::fabs(got - right) / unit);
}

using One = long double (*)(long double);
struct FunctionOfOne {
  const char* name;
  double most_ulp;
  double low, high;  // where it is not trivial
  One right;
};
void PrintTo(const FunctionOfOne& function, std::ostream* out) { *out << function.name; }

#define ONE(name, most_ulp, low, high)                                     \
  FunctionOfOne {                                                          \
    #name, most_ulp, low, high, [](long double x) { return std::name(x); } \
  }
const FunctionOfOne kOfOne[] = {
    ONE(exp, 2, -104, 89),
    ONE(exp2, 2, -150, 128),
    ONE(expm1, 2, -18, 89),
    ONE(log, 2, 0.25, 4),
    ONE(log2, 2, 0.25, 4),
    ONE(log10, 2, 0.25, 4),
    ONE(log1p, 2, -0.9999, 3),
    ONE(tanh, 2, -10, 10),
    ONE(sinh, 4, -10, 10),
    ONE(cosh, 4, -10, 10),
    ONE(erf, 2, -4, 4),
    ONE(erfc, 4, -4, 10),
    ONE(sin, 2, -300, 300),
    ONE(cos, 2, -300, 300),
    ONE(tan, 4, -300, 300),
    ONE(asin, 4, -1, 1),
    ONE(acos, 4, -1, 1),
    ONE(atan, 4, -10, 10),
    ONE(sqrt, 0.5, 0, 10),
    ONE(floor, 0, -10, 10),
    ONE(ceil, 0, -10, 10),
    ONE(trunc, 0, -10, 10),
    {"rsqrt", 1.5, 0.1, 10, [](long double x) { return 1 / std::sqrt(x); }},
    {"round", 0, -10, 10, [](long double x) { return std::nearbyint(x); }},
    {"reciprocal", 0.5, 0.1, 10, [](long double x) { return 1 / x; }},
};

class CudaFunctionOfOne : public CudaFunctions, public testing::WithParamInterface<FunctionOfOne> {
 protected:
  template <class T>
  void expect_near(const std::string& dtype, const std::vector<double>& values) {
    const FunctionOfOne& function = GetParam();
    const Tensor x =
        Tensor::floats(std::is_same_v<T, float> ? DType::F32 : DType::F64, {int64_t(values.size())}, values);
    const Tensor found = computed(function.name, dtype, {x});
    double worst = 0, at = 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      const double error = error_of<T>(found.float_at(i), function.right(x.float_at(i)));
      if (error > worst) worst = error, at = x.float_at(i);
      if (x.float_at(i) == 0 && found.float_at(i) == 0) {
        EXPECT_EQ(std::signbit(found.float_at(i)), std::signbit(function.right(x.float_at(i))));
      }
    }
    EXPECT_LE(worst, function.most_ulp) << "at " << at;
    RecordProperty("ulp_" + dtype, std::to_string(worst));
  }
};

TEST_P(CudaFunctionOfOne, stays_within_its_bound_in_f32) {
  expect_near<float>("f32", floats_of(GetParam().low, GetParam().high));
}

TEST_P(CudaFunctionOfOne, stays_within_its_bound_in_f64_or_is_refused) {
  const Result<GpuRegion> region = analyze_gpu_region(graph_of(GetParam().name, "f64", 8, 1));
  const std::string name = GetParam().name;
  if (name == "sin" || name == "cos" || name == "tan") {
    ASSERT_FALSE(region);
    EXPECT_EQ(region.unsupported().reason,
              "cannot compute %r in a GPU kernel: there is no " + name + " of f64 for GPUs yet");
    return;
  }
  const double wider = name == "exp" || name == "expm1" ? 7 : 1;
  expect_near<double>("f64", doubles_of(GetParam().low * wider, GetParam().high * wider));
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaFunctionOfOne, testing::ValuesIn(kOfOne),
                         [](const auto& info) { return std::string(info.param.name); });

// ---------------------------------------------------------------- of two
const std::vector<double> kSpecials = {0.0,  -0.0,  1,        -1,       0.5,      -0.5,      2,      -2,
                                       3,    -3,    2.5,      -2.5,     1e-40,    -1e-40,    3.4e38, -3.4e38,
                                       1e30, -1e30, 16777216, 16777217, INFINITY, -INFINITY, NAN};

void pair_up(const std::vector<double>& xs, const std::vector<double>& ys, std::vector<double>& x,
             std::vector<double>& y) {
  for (const double a : xs) {
    for (const double b : ys) x.push_back(a), y.push_back(b);
  }
}

// Special values with each other, and random ones of many sizes.
template <class T>
std::pair<Tensor, Tensor> pairs(DType dtype) {
  std::vector<double> x, y;
  pair_up(kSpecials, kSpecials, x, y);
  std::mt19937 draw(11);
  std::uniform_real_distribution<double> small(-3, 3), power(-40, 40), exponent(-30, 30);
  for (int i = 0; i < 3000; ++i) {
    const double a = i % 2 == 0 ? small(draw) : std::ldexp(small(draw), int(exponent(draw)));
    const double b = i % 3 == 0 ? double(i % 19 - 9) : i % 3 == 1 ? power(draw) : small(draw);
    x.push_back(a), y.push_back(b);
  }
  while (x.size() % 4 != 0) x.push_back(1), y.push_back(1);
  for (double& v : x) v = double(T(v));
  for (double& v : y) v = double(T(v));
  const auto count = int64_t(x.size());
  return {Tensor::floats(dtype, {count}, x), Tensor::floats(dtype, {count}, y)};
}

struct FunctionOfTwo {
  MapFn fn;
  double most_ulp;
  bool has_doubles = true;
};
const FunctionOfTwo kOfTwo[] = {{MapFn::Pow, 2, false}, {MapFn::Atan2, 3},       {MapFn::CopySign, 0},
                                {MapFn::Fmod, 0},       {MapFn::Remainder, 0.5}, {MapFn::FloorDiv, 0},
                                {MapFn::TruncDiv, 0},   {MapFn::Max, 0},         {MapFn::Min, 0}};

template <class T>
void expect_near(const FunctionOfTwo& function, DType dtype, const Tensor& x, const Tensor& y,
                 const Tensor& found) {
  double worst = 0, at = 0, and_at = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    const double a = x.float_at(i), b = y.float_at(i);
    const double right = float_map(function.fn, dtype, {a, b, 0});
    const double error = error_of<T>(found.float_at(i), right);
    if (error > worst) worst = error, at = a, and_at = b;
    const bool has_sign = right == 0 && function.fn != MapFn::Max && function.fn != MapFn::Min;
    if (has_sign && found.float_at(i) == 0) {
      EXPECT_EQ(std::signbit(found.float_at(i)), std::signbit(right)) << info(function.fn).name << a << b;
    }
  }
  EXPECT_LE(worst, function.most_ulp) << info(function.fn).name << " at " << at << ", " << and_at;
}

TEST_F(CudaFunctions, of_two_floats_are_those_of_the_c_library) {
  const auto [x, y] = pairs<float>(DType::F32);
  for (const FunctionOfTwo& function : kOfTwo)
    expect_near<float>(function, DType::F32, x, y, computed(info(function.fn).name, "f32", {x, y}));
}

TEST_F(CudaFunctions, of_two_doubles_are_those_of_the_c_library) {
  const auto [x, y] = pairs<double>(DType::F64);
  for (const FunctionOfTwo& function : kOfTwo) {
    if (!function.has_doubles) continue;
    expect_near<double>(function, DType::F64, x, y, computed(info(function.fn).name, "f64", {x, y}));
  }
}

TEST_F(CudaFunctions, of_two_integers_wrap_and_round_as_they_should) {
  for (const DType dtype : {DType::I8, DType::U8, DType::I16, DType::I32, DType::I64}) {
    const int bits = 8 * size_in_bytes(dtype);
    const bool has_sign = info(dtype).is_signed;
    const int64_t high = has_sign ? (int64_t{1} << (bits - 2)) - 1 + (int64_t{1} << (bits - 2)) : 255;
    std::vector<int64_t> some = {1, 2, 3, 5, 7, 100, high, high - 1};
    if (has_sign) some.insert(some.end(), {-1, -2, -3, -7, -100, -high - 1, -high});
    std::vector<int64_t> x, y;
    for (const int64_t a : some) {
      for (const int64_t b : some) x.push_back(a), y.push_back(b);
    }
    while (x.size() % 8 != 0) x.push_back(1), y.push_back(1);
    Tensor first(dtype, {int64_t(x.size())}), second(dtype, {int64_t(x.size())});
    for (size_t i = 0; i < x.size(); ++i) first.set(int64_t(i), x[i]), second.set(int64_t(i), y[i]);
    for (const MapFn fn : {MapFn::FloorDiv, MapFn::TruncDiv, MapFn::Fmod, MapFn::Remainder, MapFn::Pow,
                           MapFn::ShiftLeft, MapFn::ShiftRight}) {
      const Tensor found = computed(info(fn).name, info(dtype).name, {first, second});
      for (size_t i = 0; i < x.size(); ++i) {
        const auto right = static_cast<uint64_t>(int_map(fn, dtype, {x[i], y[i], 0}));
        const uint64_t apart = (right - static_cast<uint64_t>(found.int_at(int64_t(i)))) << (64 - bits);
        ASSERT_EQ(apart, 0U) << info(fn).name << " of " << info(dtype).name << ": " << x[i] << ", " << y[i];
      }
    }
  }
}

}  // namespace
}  // namespace tilefuse
