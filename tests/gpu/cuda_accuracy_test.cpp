// Short forms of functions on GPUs: where a tile graph lets a kernel take them, and how right they are.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "core/rounding.h"
#include "fusion/wanted_accuracy.h"
#include "tests/gpu/cuda_run.h"

namespace tilefuse {
namespace {

std::string name_of(WantedAccuracy wanted) {
  return wanted == WantedAccuracy::Full ? "full" : wanted == WantedAccuracy::Absolute ? "absolute" : "narrow";
}

// ---------------------------------------------------------------- what is wanted
// The body of a graph over %x: f32[8], %b: bf16[8], with outputs %y: f32[8], %z: bf16[8], %k: i32[8].
std::map<std::string, std::string> wanted_in(const std::string& body) {
  const TileGraph graph = parse_tile_graph(R"(tile_graph wanted {
  axes i: 8
  buffers %x: f32[8] in, %b: bf16[8] in, %y: f32[8] out, %z: bf16[8] out, %k: i32[8] out, %s: bf16[] out
  %x = load %x[i] : f32[i]
  %b = load %b[i] : bf16[i]
  %one = constant 1 : f32[]
  %tenth = constant 0.1 : f32[]
)" + body + "}\n");
  const std::vector<WantedAccuracy> wanted = wanted_accuracies(graph);
  std::map<std::string, std::string> named;
  for (size_t v = 0; v < graph.values.size(); ++v) named[graph.values[v].name] = name_of(wanted[v]);
  return named;
}

struct WantedCase {
  std::string name, body, value, wanted;
};
void PrintTo(const WantedCase& test, std::ostream* out) { *out << test.name; }

class Wanted : public testing::TestWithParam<WantedCase> {};

TEST_P(Wanted, is_what_is_seen) {
  EXPECT_EQ(wanted_in(GetParam().body)[GetParam().value], GetParam().wanted);
}

const WantedCase kWanted[] = {
    {"stored_as_it_is", "%v = exp(%x) : f32[i]\n  store %v -> %y[i]\n", "v", "full"},
    {"rounded_by_a_store", "%v = exp(%x) : f32[i]\n  %w = copy(%v) : bf16[i]\n  store %w -> %z[i]\n", "v",
     "narrow"},
    {"rounded_by_a_cast",
     "%v = exp(%x) : f32[i]\n  %w = cast(%v) : bf16[i]\n  %u = cast(%w) : f32[i]\n  %f = floor(%u) : "
     "f32[i]\n  "
     "store %f -> %y[i]\n",
     "v", "narrow"},
    {"one_of_two_ways",
     "%v = exp(%x) : f32[i]\n  %w = copy(%v) : bf16[i]\n  store %w -> %z[i]\n  store %v -> %y[i]\n", "v",
     "full"},
    {"a_factor",
     "%v = exp(%x) : f32[i]\n  %m = mul(%v, %x) : f32[i]\n  %w = copy(%m) : bf16[i]\n  store %w -> %z[i]\n",
     "v", "narrow"},
    {"an_addend",  // that may be taken away again but for its last bits
     "%v = exp(%x) : f32[i]\n  %m = sub(%v, %x) : f32[i]\n  %w = copy(%m) : bf16[i]\n  store %w -> %z[i]\n",
     "v", "full"},
    {"an_addend_of_16_bits", "%v = exp(%b) : bf16[i]\n  %m = sub(%v, %b) : bf16[i]\n  store %m -> %z[i]\n",
     "v", "narrow"},
    {"an_exponent",
     "%v = div(%x, %x) : f32[i]\n  %m = exp(%v) : f32[i]\n  %w = copy(%m) : bf16[i]\n  store %w -> %z[i]\n",
     "v", "full"},
    {"what_jumps", "%v = div(%b, %b) : bf16[i]\n  %m = floor(%v) : bf16[i]\n  store %m -> %z[i]\n", "v",
     "full"},
    {"an_integer", "%v = div(%b, %b) : bf16[i]\n  %m = cast(%v) : i32[i]\n  store %m -> %k[i]\n", "v",
     "full"},
    {"a_condition",
     "%v = div(%b, %b) : bf16[i]\n  %c = gt(%v, %b) : bool[i]\n  %m = where(%c, %b, %b) : bf16[i]\n  "
     "store %m -> %z[i]\n",
     "v", "full"},
    {"a_sum_of_positive_numbers",
     "%v = exp(%x) : f32[i]\n  %m = reduce.sum(%v) over i : f32[]\n  %w = copy(%m) : bf16[]\n  store %w -> "
     "%s[0]\n",
     "v", "narrow"},
    {"a_sum_of_any",
     "%v = div(%x, %x) : f32[i]\n  %m = reduce.sum(%v) over i : f32[]\n  %w = copy(%m) : bf16[]\n  store %w "
     "-> %s[0]\n",
     "v", "full"},
    {"beside_one", "%v = erf(%x) : f32[i]\n  %m = add(%v, %one) : f32[i]\n  store %m -> %y[i]\n", "v",
     "absolute"},
    {"beside_one_and_alone",
     "%v = erf(%x) : f32[i]\n  %m = add(%v, %one) : f32[i]\n  store %m -> %y[i]\n  %w = cast(%v) : i32[i]\n  "
     "store %w -> %k[i]\n",
     "v", "full"},
    {"beside_a_tenth", "%v = erf(%x) : f32[i]\n  %m = add(%v, %tenth) : f32[i]\n  store %m -> %y[i]\n", "v",
     "full"},
};

INSTANTIATE_TEST_SUITE_P(Accuracy, Wanted, testing::ValuesIn(kWanted),
                         [](const auto& info) { return info.param.name; });

// ---------------------------------------------------------------- how right they are
class CudaAccuracy : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
  }

  // %y of inputs %a and %b, `code` of elements %a and %b that all lie on axes i and j.
  Tensor run(const std::string& code, const std::string& dtype, const std::vector<double>& a,
             const std::string& a_axes, const std::vector<double>& b, const std::string& b_axes,
             const std::string& contains) {
    const std::string n = std::to_string(a.size() / (a_axes == "i, j" ? 4 : 1));
    const auto place = [](const std::string& axes) { return axes == "i" ? "i" : "i*4 + j"; };
    const auto shape = [&](const std::string& axes) { return axes == "i" ? n : n + ", 4"; };
    const TileGraph graph = parse_tile_graph(
        "tile_graph accuracy {\n  axes i: " + n + ", j: 4\n  buffers %a: f32[" + shape(a_axes) +
        "] in, %b: f32[" + shape(b_axes) + "] in, %y: " + dtype + "[" + n + ", 4] out\n  %a = load %a[" +
        place(a_axes) + "] : f32[" + a_axes + "]\n  %b = load %b[" + place(b_axes) + "] : f32[" + b_axes +
        "]\n" + code + "  store %y -> %y[i*4 + j]\n}\n");
    const GpuTarget target = load_gpu_target("cuda-sm90a");
    const CudaKernel kernel = compile_cuda(*nvrtc(), graph, *solve_gpu(graph, target, {}), target);
    EXPECT_NE(kernel.source.find(contains), std::string::npos) << kernel.source;
    const auto tensor = [&](const std::vector<double>& values, const std::string& axes) {
      const int64_t lines = std::stoll(n);
      return Tensor::floats(
          DType::F32, axes == "i" ? std::vector<int64_t>{lines} : std::vector<int64_t>{lines, 4}, values);
    };
    return run_cuda(kernel.program.launch, kernel.binary.ptx, graph, {tensor(a, a_axes), tensor(b, b_axes)},
                    {})
        .outputs[0];
  }
};

std::vector<double> dividends() {
  std::vector<double> numbers;
  for (const double x : {0.0, 1.0, 3.0, 7.0, 1e-3, 1.17549435e-38, 1e-40, 1.4e-45, 3.4e38, 1e38, 2e-30, 5e29,
                         127.0, double(INFINITY)}) {
    numbers.push_back(double(float(x)));
    numbers.push_back(-double(float(x)));
  }
  numbers.push_back(NAN);
  std::mt19937 random(3);
  std::normal_distribution<float> any(0, 10);
  while (numbers.size() < 48) numbers.push_back(any(random));
  return numbers;
}

int64_t steps_apart(float a, float b) {
  const auto place = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return int64_t{bits < 0 ? INT32_MIN - bits : bits};
  };
  return std::abs(place(a) - place(b));
}

// All pairs; subnormal quotients, infinities and zeros, too.
TEST_F(CudaAccuracy, quotients_are_rounded_as_they_should_be) {
  const std::vector<double> all = dividends();
  for (const bool shares_divisor : {false, true}) {
    std::vector<double> a, b;
    for (const double y : all) {
      for (size_t x = 0; x < all.size(); ++x) {
        a.push_back(all[x]);
        if (!shares_divisor || x % 4 == 0) b.push_back(y);
      }
    }
    const Tensor found =
        run("  %y = div(%a, %b) : f32[i, j]\n", "f32", a, "i, j", b, shares_divisor ? "i" : "i, j", "/");
    int64_t wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const float x = float(a[i]), y = float(b[shares_divisor ? i / 4 : i]),
                  got = float(found.float_at(int64_t(i)));
      const float expected = x / y;
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << x << " / " << y << " = " << got;
        continue;
      }
      EXPECT_LE(steps_apart(got, expected), 1) << x << " / " << y << " = " << got << ", not " << expected;
      wrong += got != expected;
    }
    EXPECT_LE(double(wrong), 0.01 * double(a.size()));
  }
}

TEST_F(CudaAccuracy, whole_quotients_are_exact) {
  std::vector<double> a, b;
  for (int y = 1; y <= 200; ++y) {
    for (int x = 0; x < 8; ++x) {
      a.push_back(double(x * 97 + 1) * y);
      b.push_back(y);
    }
  }
  const Tensor found = run("  %y = div(%a, %b) : f32[i, j]\n", "f32", a, "i, j", b, "i, j", "/");
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(found.float_at(int64_t(i)), a[i] / b[i]) << a[i] << " / " << b[i];
}

std::vector<double> ramp(double low, double high, size_t count) {
  std::vector<double> numbers;
  for (size_t i = 0; i < count; ++i)
    numbers.push_back(double(float(low + (high - low) * double(i) / double(count - 1))));
  return numbers;
}

// What is rounded to 16 bits has those of the exact result, or, of one next to the middle of two, the other
// ones.
TEST_F(CudaAccuracy, what_is_rounded_to_16_bits_is_that_of_the_exact_result) {
  struct Form {
    std::string code, contains;
    double (*exact)(double, double);
  };
  const Form forms[] = {
      {"exp(%a)", "exp_narrow", [](double a, double) { return std::exp(a); }},
      {"sigmoid(%a)", "sigmoid_narrow", [](double a, double) { return 1 / (1 + std::exp(-a)); }},
      {"div(%a, %b)", "quotient_narrow", [](double a, double b) { return a / b; }},
  };
  const std::vector<double> a = ramp(-80, 80, 1024), b = ramp(0.3, 7, 1024);
  for (const Form& form : forms) {
    for (const char* dtype : {"bf16", "f16"}) {
      const Tensor found =
          run("  %q = " + form.code +
                  " : f32[i, j]\n  %u = mul(%q, %b) : f32[i, j]\n  %y = copy(%u) : " + dtype + "[i, j]\n",
              dtype, a, "i, j", b, "i, j", form.contains);
      for (size_t i = 0; i < a.size(); ++i) {
        const double exact = form.exact(a[i], b[i]) * b[i], got = found.float_at(int64_t(i));
        if (std::abs(exact) < 0x1p-14 || std::abs(exact) > 65504) continue;
        const DType to = found.dtype();
        EXPECT_GE(std::abs(got), round_to(to, std::abs(exact) * (1 - 0x1p-17)))
            << form.code << " " << a[i] << " " << b[i];
        EXPECT_LE(std::abs(got), round_to(to, std::abs(exact) * (1 + 0x1p-17)))
            << form.code << " " << a[i] << " " << b[i];
      }
    }
  }
}

TEST_F(CudaAccuracy, what_is_added_to_one_is_right_beside_it) {
  std::vector<double> a = ramp(-6, 6, 2040);
  for (const double x : {0.0, -0.0, 1e-30, double(INFINITY), -double(INFINITY), 1e30, double(NAN), -100.0})
    a.push_back(x);
  struct Form {
    std::string function;
    double (*exact)(double);
    double error;
  };
  const Form forms[] = {{"erf", [](double x) { return std::erf(x); }, 1e-7},
                        {"tanh", [](double x) { return std::tanh(x); }, 1.5e-7}};
  for (const Form& form : forms) {
    const Tensor found =
        run("  %q = " + form.function +
                "(%a) : f32[i, j]\n  %o = constant 1.0 : f32[]\n  %y = add(%q, %o) : f32[i, j]\n",
            "f32", a, "i, j", a, "i, j", form.function + "_absolute");
    for (size_t i = 0; i < a.size(); ++i) {
      const double exact = 1 + form.exact(a[i]), got = found.float_at(int64_t(i));
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(got));
      } else {
        EXPECT_NEAR(got, exact, form.error + 0x1p-24 * std::abs(exact)) << form.function << " " << a[i];
      }
    }
  }
}

}  // namespace
}  // namespace tilefuse
