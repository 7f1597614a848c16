// Every wrapper of an instruction that kernels use, on a GPU beside its model: the same PTX, the same inputs.
//
//   conformance_test --driver=libcuda.so.1       on this machine's GPU
//   conformance_test                             on what stands in for it, which proves the test itself
//
// A case whose outputs differ by more than the tolerance fails; the largest difference of each is printed.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "codegen/lower_gpu_region.h"
#include "codegen/run_gpu_region.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/fake_cuda.h"
#include "tests/gpu/group_cases.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

// Approximate instructions of the GPU are a few units in the last place off; the model rounds what is exact.
constexpr double kTolerance = 1e-5;

const std::string& driver_library(const std::string& chosen = "") {
  static const std::string library = chosen.empty() ? TILEFUSE_FAKE_CUDA : chosen;
  return library;
}

// What stands in for a GPU stands for one that has all instructions.
void choose_stand_in() {
  if (driver_library() != TILEFUSE_FAKE_CUDA) return;
  if (void* library = dlopen(TILEFUSE_FAKE_CUDA, RTLD_NOW)) {
    if (void* found = dlsym(library, "fake_cuda_capability")) {
      reinterpret_cast<decltype(&fake_cuda_capability)>(found)(9, 0);
    }
  }
}

const Result<FoundGpu>& gpu() {
  static const Result<FoundGpu> found = [] {
    choose_stand_in();
    return find_gpu({0, driver_library(), {TILEFUSE_NVRTC_FOLDER}});
  }();
  return found;
}

void check(const std::optional<Unsupported>& refusal) {
  if (refusal) throw std::runtime_error(refusal->reason);
}

// Buffers on the device, with what is in them.
class DeviceBuffers {
 public:
  explicit DeviceBuffers(const std::vector<GpuBuffer>& buffers) {
    for (const GpuBuffer& buffer : buffers) {
      const auto bytes = static_cast<int64_t>(buffer.bytes.size());
      // On a device a copy of the last few bytes touches all 16 that they are in, as checkers of memory say;
      // allocations there have them. What stands in for one knows where a buffer ends.
      const int64_t granule = driver_library() == TILEFUSE_FAKE_CUDA ? 1 : 16;
      const auto address =
          gpu()->driver.allocate(0, std::max((bytes + granule - 1) / granule * granule, granule));
      if (!address) throw std::runtime_error(address.unsupported().reason);
      addresses_.push_back(*address);
      check(gpu()->driver.to_device(0, *address, buffer.bytes.data(), bytes));
    }
  }
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;
  ~DeviceBuffers() {
    for (const uint64_t address : addresses_) gpu()->driver.free(0, address);
  }
  const std::vector<uint64_t>& addresses() const { return addresses_; }
  void read(std::vector<GpuBuffer>& buffers) const {
    check(gpu()->driver.wait(0));
    for (size_t b = 0; b < buffers.size(); ++b) {
      std::vector<unsigned char>& bytes = buffers[b].bytes;
      check(gpu()->driver.to_host(0, bytes.data(), addresses_[b], static_cast<int64_t>(bytes.size())));
    }
  }

 private:
  std::vector<uint64_t> addresses_;
};

class Conformance : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << gpu().unsupported().reason;
  }
};

// ---------------------------------------------------------------- tile graphs: arithmetic, threads, memory
struct TileCase {
  std::string name, graph;
  std::string pins = "";
};
void PrintTo(const TileCase& kernel, std::ostream* out) { *out << kernel.name; }

// One function, `code` of %x, %w (f32), %h (f16), %b (bf16) and %n (i32).
TileCase of_function(const std::string& name, const std::string& code, const std::string& dtype = "f32") {
  return {name, "tile_graph " + name + R"( {
  axes i: 1000
  buffers %x: f32[1000] in, %w: f32[1000] in, %h: f16[1000] in, %b: bf16[1000] in, %n: i32[1000] in, %y: )" +
                    dtype + R"([1000] out
  %x = load %x[i] : f32[i]
  %w = load %w[i] : f32[i]
  %h = load %h[i] : f16[i]
  %b = load %b[i] : bf16[i]
  %n = load %n[i] : i32[i]
  %e = exp(%x)    : f32[i]
  %s = sigmoid(%x) : f32[i]
  %d = cast(%x)   : f64[i]
  %g = cast(%e)   : f64[i]
  %r = )" + code + " : " +
                    dtype + "[i]\n  store %r -> %y[i]\n}\n"};
}

std::vector<TileCase> function_kernels() {
  std::vector<TileCase> kernels;
  for (const char* name : {"exp", "exp2", "abs", "tanh", "erf", "sigmoid", "floor", "ceil", "round", "trunc",
                           "sign", "square", "neg"}) {
    kernels.push_back(of_function(name, std::string(name) + "(%x)"));
  }
  for (const char* name : {"expm1", "sin", "cos", "atan", "sinh", "cosh", "erfc"}) {
    kernels.push_back(of_function(name, std::string(name) + "(%x)"));
  }
  kernels.push_back(of_function("tan", "tan(%s)"));
  for (const char* name : {"asin", "acos"}) kernels.push_back(of_function(name, std::string(name) + "(%s)"));
  for (const char* name : {"log10", "log1p"})
    kernels.push_back(of_function(name, std::string(name) + "(%e)"));
  for (const char* name : {"floor_div", "trunc_div", "fmod", "remainder"}) {
    kernels.push_back(of_function(name, std::string(name) + "(%x, %e)"));
    kernels.push_back(of_function("whole_" + std::string(name), std::string(name) + "(%n, %n)", "i32"));
  }
  kernels.push_back(of_function("pow", "pow(%e, %w)"));
  kernels.push_back(of_function("atan2", "atan2(%x, %w)"));
  kernels.push_back(of_function("copysign", "copysign(%x, %w)"));
  for (const char* name : {"pow", "shift_left", "shift_right"})
    kernels.push_back(of_function("whole_" + std::string(name), std::string(name) + "(%n, %n)", "i32"));
  for (const char* name : {"exp", "expm1", "tanh", "erf", "erfc", "atan", "sinh", "square"}) {
    kernels.push_back(of_function("f64_" + std::string(name), std::string(name) + "(%d)", "f64"));
  }
  for (const char* name : {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"}) {
    kernels.push_back(of_function("f64_" + std::string(name), std::string(name) + "(%g)", "f64"));
  }
  for (const char* name : {"log", "log2", "sqrt", "rsqrt", "reciprocal"}) {
    kernels.push_back(of_function(name, std::string(name) + "(%e)"));  // of what is positive
  }
  for (const char* name : {"add", "sub", "mul", "max", "min"}) {
    kernels.push_back(of_function(name, std::string(name) + "(%x, %w)"));
  }
  kernels.push_back(of_function("div", "div(%x, %e)"));
  kernels.push_back(of_function("fma", "fma(%x, %w, %e)"));
  kernels.push_back(of_function("lt", "lt(%x, %w)", "bool"));
  kernels.push_back(of_function("isnan", "isnan(%x)", "bool"));
  for (const char* dtype : {"f16", "bf16", "f8e4m3fn", "f8e5m2", "i32", "i64", "i8", "u8", "bool"}) {
    kernels.push_back(of_function(std::string("to_") + dtype, "cast(%w)", dtype));
  }
  for (const char* from : {"h", "b", "n"}) {
    kernels.push_back(of_function(std::string("from_") + from, std::string("cast(%") + from + ")"));
  }
  return kernels;
}

std::string sums(const std::string& name, const std::string& columns) {
  return "tile_graph " + name + " {\n  axes row: 6, col: " + columns + "\n  buffers %x: f32[6, " + columns +
         R"(] in, %y: f32[6] out, %z: f32[6] out
  %x = load %x[row*)" +
         columns + R"( + col] : f32[row, col]
  %s = reduce.sum(%x) over col : f32[row]
  %m = reduce.max(%x) over col : f32[row]
  store %s -> %y[row]
  store %m -> %z[row]
}
)";
}

std::vector<TileCase> thread_kernels() {
  return {
      {"within_a_warp", sums("within_a_warp", "96")},
      {"across_warps", sums("across_warps", "2048"), "threads=256"},
      {"in_several_passes", sums("in_several_passes", "700"), "walk=multi_pass"},
      {"down_columns", R"(tile_graph down_columns {
  axes row: 300, col: 40
  buffers %x: f32[300, 40] in, %y: f32[40] out
  %x = load %x[row*40 + col]   : f32[row, col]
  %s = reduce.sum(%x) over row : f32[col]
  store %s -> %y[col]
}
)"},
      {"in_parts", R"(tile_graph in_parts {
  axes r: 5000
  buffers %x: f32[5000] in, %y: f32[] out
  %x = load %x[r]            : f32[r]
  %s = reduce.sum(%x) over r : f32[]
  store %s -> %y[0]
}
)",
       "parts=8"},
      {"turned_in_shared_memory", R"(tile_graph turned {
  axes i: 70, j: 90
  buffers %x: f32[90, 70] in, %y: f32[70, 90] out
  %x = load %x[j*70 + i] : f32[i, j]
  %e = exp(%x)           : f32[i, j]
  store %e -> %y[i*90 + j]
}
)"},
  };
}

// Of matrix instructions of other numbers (matrix_numbers.h); integers differ nowhere, and floats as sums of
// 32 products that are rounded in another order.
TileCase product_of(const std::string& name, const std::string& types, const std::string& pins) {
  const auto word = [&](size_t number) {  // "i8 u8 i32": of the factors, and of products
    std::istringstream words(types);
    std::string found;
    for (size_t i = 0; i <= number; ++i) words >> found;
    return found;
  };
  const std::string x = word(0), w = word(1), products = word(2);
  return {"product_of_" + name,
          R"(tile_graph product {
  axes i: 72, j: 48, k: 160
  buffers %x: )" +
              x + R"([72, 160] in, %w: )" + w + R"([48, 160] in, %y: )" + products + R"([72, 48] out
  %x = load %x[i*160 + k] : )" +
              x + R"([i, k]
  %w = load %w[j*160 + k] : )" +
              w + R"([j, k]
  %a = cast(%x) : )" +
              products + R"([i, k]
  %b = cast(%w) : )" +
              products + R"([j, k]
  %p = mul(%a, %b) : )" +
              products + R"([i, j, k]
  %s = reduce.sum(%p) over k : )" +
              products + R"([i, j]
  store %s -> %y[i*48 + j]
}
)",
          pins + ",parts=1"};
}

constexpr const char* kByGroups = ",multiply=wgmma";

// By warps, and by warpgroups with both kinds of copies; floats are rounded on both ways.
std::vector<TileCase> number_kernels() {
  std::vector<TileCase> kernels = {product_of("tf32", "bf16 f16 f32", "numbers=tf32"),
                                   product_of("tf32x3", "f32 f32 f32", "numbers=tf32x3"),
                                   product_of("int8", "i8 u8 i32", "numbers=int8"),
                                   product_of("float8", "f8e4m3fn f8e5m2 f32", "numbers=float8")};
  for (const auto& [numbers, types] :
       {std::pair{"tf32", "f32 f32 f32"}, std::pair{"tf32x3", "f32 f32 f32"}, std::pair{"int8", "i8 u8 i32"},
        std::pair{"float8", "f8e4m3fn f8e5m2 f32"}}) {
    for (const std::string how :
         {"copies=async", "copies=bulk,results=held", "copies=bulk,results=gathered"}) {
      if (how != "copies=async" && std::string(numbers) == "tf32x3") continue;  // threads take floats apart
      const std::string name =
          std::string(numbers) + (how == "copies=async" ? "_by_groups" : "_in_bulk_" + how.substr(20));
      kernels.push_back(product_of(name, types, "numbers=" + std::string(numbers) + kByGroups + "," + how));
    }
  }
  return kernels;
}

// Of a factor that is computed on the way to shared memory, by warps and by warpgroups.
std::vector<TileCase> computed_kernels() {
  TileCase by_warps = product_of("computed", "bf16 bf16 bf16", "numbers=half");
  const std::string right = "cast(%x)", wrong = "neg(%x)";
  by_warps.graph.replace(by_warps.graph.find(right), right.size(), wrong);
  TileCase by_groups = by_warps;
  by_groups.name += "_by_groups";
  by_groups.pins += kByGroups;
  return {by_warps, by_groups};
}

// By blocks that run together and copy to each other.
std::vector<TileCase> cluster_kernels() {
  std::vector<TileCase> kernels;
  for (const std::string cluster : {"down", "across"})
    kernels.push_back(product_of("clusters_" + cluster, "bf16 bf16 f32",
                                 "numbers=half,block_m=64,block_n=64" + std::string(kByGroups) +
                                     ",copies=bulk,results=held,pair=" + cluster));
  return kernels;
}

std::vector<TileCase> all_kernels() {
  std::vector<TileCase> kernels;
  for (auto* made : {function_kernels, thread_kernels, number_kernels, computed_kernels, cluster_kernels}) {
    for (TileCase& kernel : made()) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

double largest_difference(const Tensor& found, const Tensor& expected) {
  double largest = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const bool is_float_type = is_float(expected.dtype());
    const double want = is_float_type ? expected.float_at(i) : static_cast<double>(expected.int_at(i));
    const double got = is_float_type ? found.float_at(i) : static_cast<double>(found.int_at(i));
    const double difference = std::abs(got - want) / std::max(1.0, std::abs(want));
    if (!(difference <= largest) && !(std::isnan(got) && std::isnan(want))) largest = difference;
  }
  return largest;
}

class ConformanceKernel : public Conformance, public testing::WithParamInterface<TileCase> {};

TEST_P(ConformanceKernel, computes_what_its_model_computes) {
  const TileGraph graph = parse_tile_graph(GetParam().graph);
  const std::string& pins = GetParam().pins;
  if (pins.starts_with("numbers=float8") && gpu()->target.float8_flops_per_cycle == 0)
    GTEST_SKIP() << "SKIPPED, floats of eight bits are multiplied from sm_89 on";
  if (pins.find(kByGroups) != std::string::npos && gpu()->target.architecture != "sm_90a")
    GTEST_SKIP() << "SKIPPED, products of warpgroups are of sm_90a";
  GpuTarget target = gpu()->target;
  target.rounds_to_tf32 = true;
  const Result<GpuPlan> plan = plan_gpu(graph, target, pins_of(pins));
  ASSERT_TRUE(plan) << plan.unsupported().reason;
  const std::vector<Tensor> inputs = random_buffers(graph, 7, {});
  const CudaPlanRun expected =
      run_plan(compile_plan(gpu()->nvrtc, *plan, gpu()->target), *plan, graph, inputs, {});

  const RegionProgram program = *gpu_program(graph, *plan);
  KernelCache no_cache("", 0);
  const Result<GpuKernels> kernels = build_gpu(program, *gpu(), {}, no_cache);
  ASSERT_TRUE(kernels) << kernels.unsupported().reason;
  SizeProgram sizes({});
  const LoadedGpuRegion region = load_gpu_region(program, sizes, *kernels);
  std::vector<GpuBuffer> buffers = buffers_of(graph, inputs, {});
  for (const Workspace& workspace : program.workspaces) {
    buffers.emplace_back().bytes.resize(
        static_cast<size_t>(*workspace.elements.constant() * size_in_bytes(workspace.dtype)));
  }
  const DeviceBuffers memory(buffers);
  check(run_gpu_region(region, sizes.constants().data(), memory.addresses(), nullptr));
  memory.read(buffers);
  size_t output = 0;
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].role != Buffer::Role::Output) continue;
    const double difference =
        largest_difference(tensor_of(graph.buffers[b], buffers[b], {}), expected.outputs.at(output++));
    std::printf("%-26s %.1e\n", GetParam().name.c_str(), difference);
    EXPECT_LE(difference, kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, ConformanceKernel, testing::ValuesIn(all_kernels()),
                         [](const auto& info) { return info.param.name; });

// ---------------------------------------------------------------- tensor cores and copies
// The kernel `product` on the device and in the model; both outputs are the last buffer.
void expect_same_product(const std::string& source, const GpuGrid& grid, std::vector<GpuBuffer> buffers,
                         const std::vector<int64_t>& sizes, const std::vector<TensorMapLayout>& maps = {}) {
  const Result<GpuBinary> binary = gpu()->nvrtc.compile(source, gpu()->target.architecture);
  ASSERT_TRUE(binary) << binary.unsupported().reason;
  const GpuRun expected = run_ptx(parse_ptx(binary->ptx), grid, buffers, sizes, maps);
  Result<CudaFunction> function = gpu()->driver.load_function(0, binary->cubin, "product");
  if (!function) function = gpu()->driver.load_function(0, binary->ptx, "product");
  ASSERT_TRUE(function) << function.unsupported().reason;
  const int64_t given = grid.shared_bytes;
  if (given > 0) check(gpu()->driver.allow_shared_bytes(*function, "product", given));
  const DeviceBuffers memory(buffers);
  std::vector<uint64_t> arguments = memory.addresses();
  for (const int64_t size : sizes) arguments.push_back(static_cast<uint64_t>(size));
  std::vector<CudaTensorMap> tensor_maps;
  for (const TensorMapLayout& map : maps) {
    const auto list = [](const std::vector<uint64_t>& values) {
      return std::vector<int64_t>(values.begin(), values.end());
    };
    tensor_maps.push_back({memory.addresses().at(map.buffer) + map.address, DType::BF16, list(map.extents),
                           list(map.strides), list(map.box)});
  }
  check(gpu()->driver.launch(*function,
                             {.blocks = grid.blocks, .threads = grid.threads, .shared_bytes = given},
                             arguments, tensor_maps));
  memory.read(buffers);
  EXPECT_EQ(buffers.back().bytes, expected.buffers.back().bytes);  // whole numbers: no rounding
}

class ConformanceProduct : public Conformance, public testing::WithParamInterface<MatrixProduct> {};

TEST_P(ConformanceProduct, computes_what_its_model_computes) {
  const MatrixProduct& product = GetParam();
  if (product.group_rows > 0 && gpu()->target.architecture != "sm_90a")
    GTEST_SKIP() << "SKIPPED, products of warpgroups are of sm_90a";
  expect_same_product(source_of(product), product.grid(), product.buffers(), product.sizes(), product.maps());
}

INSTANTIATE_TEST_SUITE_P(Gpu, ConformanceProduct, testing::ValuesIn(product_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(GpuGroups, ConformanceProduct, testing::ValuesIn(group_product_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(GpuBulk, ConformanceProduct, testing::ValuesIn(bulk_product_cases()),
                         [](const auto& info) { return info.param.name; });

class ConformanceGroupProduct : public Conformance, public testing::WithParamInterface<GroupCase> {};

TEST_P(ConformanceGroupProduct, computes_what_its_model_computes) {
  if (gpu()->target.architecture != "sm_90a") GTEST_SKIP() << "SKIPPED, products of warpgroups are of sm_90a";
  expect_same_product(source_of(GetParam()), {.blocks = 1, .threads = GroupCase::kThreads},
                      GetParam().buffers(), {});
}

INSTANTIATE_TEST_SUITE_P(Gpu, ConformanceGroupProduct, testing::ValuesIn(group_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilefuse

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  constexpr std::string_view kDriver = "--driver=";
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with(kDriver)) tilefuse::driver_library(std::string(argument.substr(kDriver.size())));
  }
  return RUN_ALL_TESTS();
}
