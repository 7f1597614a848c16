// Kernels loaded and launched through the driver: here through a library with the driver's functions that
// runs them in the model of a GPU (fake_cuda.cpp).
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "codegen/lower_gpu_region.h"
#include "codegen/run_gpu_region.h"
#include "codegen/temporary_folder.h"
#include "tests/gpu/cuda_run.h"
#include "tests/gpu/fake_cuda.h"
#include "tests/kernel_fixture.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Fake {
  void* library = dlopen(TILEFUSE_FAKE_CUDA, RTLD_NOW);
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
  std::string calls() const { return function<decltype(fake_cuda_calls)>("fake_cuda_calls")(); }
  void fail(const char* call, int status) const {
    function<decltype(fake_cuda_fail)>("fake_cuda_fail")(call, status);
  }
  void capability(int major, int minor) const {
    function<decltype(fake_cuda_capability)>("fake_cuda_capability")(major, minor);
  }
  void shared_bytes(int most, int said) const {
    function<decltype(fake_cuda_shared_bytes)>("fake_cuda_shared_bytes")(most, said);
  }
  void memory_rate(int clock_khz, int bus_bits) const {
    function<decltype(fake_cuda_memory_rate)>("fake_cuda_memory_rate")(clock_khz, bus_bits);
  }
  void devices(int count) const { function<decltype(fake_cuda_devices)>("fake_cuda_devices")(count); }
};

constexpr const char* kSoftmax = R"(tile_graph softmax {
  axes row: s0, col: 300
  buffers %x: f32[s0, 300] in, %y: f32[s0, 300] out
  %x = load %x[row*300 + col]  : f32[row, col]
  %m = reduce.max(%x) over col : f32[row]
  %d = sub(%x, %m)             : f32[row, col]
  %e = exp(%d)                 : f32[row, col]
  %s = reduce.sum(%e) over col : f32[row]
  %y = div(%e, %s)             : f32[row, col]
  store %y -> %y[row*300 + col]
}
)";

constexpr const char* kMean = R"(tile_graph mean {
  axes r: 5000
  buffers %x: f32[5000] in, %y: f32[] out
  %x = load %x[r]            : f32[r]
  %s = reduce.sum(%x) over r : f32[]
  %n = constant 5000         : f32[]
  %y = div(%s, %n)           : f32[]
  store %y -> %y[0]
}
)";

constexpr const char* kProduct = R"(tile_graph product {
  axes i: 128, j: 128, k: 96
  buffers %x: bf16[128, 96] in, %w: bf16[128, 96] in, %y: f32[128, 128] out
  %x = load %x[i*96 + k]     : bf16[i, k]
  %w = load %w[j*96 + k]     : bf16[j, k]
  %p = mul(%x, %w)           : f32[i, j, k]
  %s = reduce.sum(%p) over k : f32[i, j]
  store %s -> %y[i*128 + j]
}
)";
// Pieces of 128 x 64 elements of both factors, twice.
constexpr int kPieces = 4 * 128 * 64 * 2;
constexpr const char* kLargeTiles = "kernel=product,parts=1,block_m=128,block_n=128,step=64,stages=2";
constexpr int kKiB = 1 << 10;

// A region's kernels on the model of a GPU, and the sizes of a launch.
struct Loaded {
  RegionProgram program;
  SizeProgram sizes;
  LoadedGpuRegion region;
  std::vector<int> workspace_bytes;  // registers

  std::vector<int64_t> registers(const SymbolValues& symbols) const {
    std::vector<int64_t> values = sizes.constants();
    for (size_t s = 0; s < sizes.symbols().size(); ++s) values[s] = symbols.at(sizes.symbols()[s]);
    sizes.run(values);
    return values;
  }
  std::optional<Unsupported> run(const std::vector<uint64_t>& buffers, const SymbolValues& symbols,
                                 void* stream = nullptr) const {
    return run_gpu_region(region, registers(symbols).data(), buffers, stream);
  }
};

class Launch : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc()) GTEST_SKIP() << "SKIPPED, no CUDA kernel is tested: " << nvrtc().unsupported().reason;
    fake_.capability(8, 0);
    fake_.shared_bytes(163 * kKiB, 163 * kKiB);
    fake_.devices(1);
    const Result<CudaDriver> driver = CudaDriver::load(TILEFUSE_FAKE_CUDA);
    ASSERT_TRUE(driver) << driver.unsupported().reason;
    driver_ = *driver;
    fake_.calls();
  }
  void TearDown() override {
    if (driver_) {
      for (const uint64_t address : memory_) driver_->free(0, address);
    }
  }

  Result<Loaded> made(const std::string& text, const std::string& pins = "") const {
    const TileGraph graph = parse_tile_graph(text);
    const Result<GpuTarget> target = gpu_target_for(*driver_->device(0));
    if (!target) return target.unsupported();
    const Result<GpuPlan> plan = plan_gpu(graph, *target, pins_of(pins));
    if (!plan) return plan.unsupported();
    Loaded loaded{*gpu_program(graph, *plan), SizeProgram({"s0"}), {*driver_, {}}, {}};
    KernelCache no_cache("", 0);
    const auto kernels = build_gpu(loaded.program, {*nvrtc(), *driver_, 0, *target, ""}, {}, no_cache);
    if (!kernels) return kernels.unsupported();
    loaded.region = load_gpu_region(loaded.program, loaded.sizes, *kernels);
    for (const Workspace& workspace : loaded.program.workspaces) {
      const int64_t bytes = size_in_bytes(workspace.dtype);
      loaded.workspace_bytes.push_back(loaded.sizes.add(workspace.elements * bytes));
    }
    return loaded;
  }

  uint64_t allocated(int64_t bytes) {
    memory_.push_back(*driver_->allocate(0, bytes));
    return memory_.back();
  }

  // All in one: random f32 inputs in buffer 0, the result of buffer 1 compared with the interpreter's.
  std::optional<Unsupported> run(const Loaded& loaded, const std::string& text, const SymbolValues& symbols,
                                 void* stream = nullptr) {
    const TileGraph graph = parse_tile_graph(text);
    const std::vector<Tensor> inputs = random_buffers(graph, 7, symbols);
    const Tensor expected = evaluate(graph, inputs, {symbols, {.rounds_floats = false}}).front();
    std::vector<float> x;
    for (int64_t i = 0; i < element_count(inputs[0].shape()); ++i) x.push_back(float(inputs[0].float_at(i)));
    std::vector<float> y(static_cast<size_t>(element_count(expected.shape())));
    std::vector<uint64_t> buffers = {allocated(int64_t(x.size() * 4)), allocated(int64_t(y.size() * 4))};
    SymbolValues all = {{"s0", 1}};
    for (const auto& [name, value] : symbols) all[name] = value;
    const std::vector<int64_t> registers = loaded.registers(all);
    for (const int bytes : loaded.workspace_bytes) buffers.push_back(allocated(registers[size_t(bytes)]));
    if (auto refusal = driver_->to_device(0, buffers[0], x.data(), int64_t(x.size() * 4))) return refusal;
    if (auto refusal = loaded.run(buffers, all, stream)) return refusal;
    if (auto refusal = driver_->wait(0)) return refusal;
    if (auto refusal = driver_->to_host(0, y.data(), buffers[1], int64_t(y.size() * 4))) return refusal;
    Tensor found(DType::F32, expected.shape());
    for (size_t i = 0; i < y.size(); ++i) found.set_float(int64_t(i), double(y[i]));
    EXPECT_EQ(first_difference(found, expected, tolerance_of(graph)), "");
    return std::nullopt;
  }

  Fake fake_;
  std::optional<CudaDriver> driver_;
  std::vector<uint64_t> memory_;
};

TEST_F(Launch, runs_a_kernel_at_several_sizes) {
  const Result<Loaded> softmax = made(kSoftmax);
  ASSERT_TRUE(softmax) << softmax.unsupported().reason;
  EXPECT_TRUE(softmax->program.workspaces.empty());
  for (const int64_t rows : {1, 9, 4}) {
    const auto refusal = run(*softmax, kSoftmax, {{"s0", rows}}, &fake_);
    EXPECT_FALSE(refusal) << refusal->reason << fake_.calls();
    EXPECT_THAT(fake_.calls(), HasSubstr("cuLaunchKernel softmax_kernel: "));
  }
}

TEST_F(Launch, hands_partial_results_on_in_the_workspace) {
  const Result<Loaded> mean = made(kMean, "parts=8");
  ASSERT_TRUE(mean) << mean.unsupported().reason;
  ASSERT_EQ(mean->workspace_bytes.size(), 1U);
  EXPECT_EQ(mean->registers({{"s0", 1}})[size_t(mean->workspace_bytes[0])], 8 * 4);
  const auto refusal = run(*mean, kMean, {});
  EXPECT_FALSE(refusal) << refusal->reason << fake_.calls();
  const std::string calls = fake_.calls();
  EXPECT_LT(calls.find("cuLaunchKernel mean_parts_kernel"), calls.find("cuLaunchKernel mean_kernel"));
}

TEST_F(Launch, goes_to_the_stream_that_is_given) {
  const Result<Loaded> softmax = made(kSoftmax);
  ASSERT_TRUE(softmax);
  EXPECT_FALSE(run(*softmax, kSoftmax, {{"s0", 3}}, &fake_));
  EXPECT_THAT(fake_.calls(), HasSubstr(", on a stream"));
}

TEST_F(Launch, leaves_out_what_has_no_elements) {
  const Result<Loaded> softmax = made(kSoftmax);
  ASSERT_TRUE(softmax);
  fake_.calls();
  EXPECT_FALSE(softmax->run({256, 512}, {{"s0", 0}}));
  EXPECT_EQ(fake_.calls(), "");
}

TEST_F(Launch, unloads_what_is_gone) {
  EXPECT_TRUE(made(kSoftmax));
  EXPECT_THAT(fake_.calls(), HasSubstr("cuModuleUnload"));
}

TEST_F(Launch, refuses_memory_that_is_not_aligned) {
  const Result<Loaded> softmax = made(kSoftmax);
  ASSERT_TRUE(softmax);
  const auto refusal = softmax->run({256, 520}, {{"s0", 3}});
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->reason, HasSubstr("multiple of 16 bytes"));
}

// ---------------------------------------------------------------- shared memory that the launch gives
TEST_F(Launch, gives_kernels_the_memory_that_they_want_beyond_what_one_may_declare) {
  const Result<Loaded> product = made(kProduct, kLargeTiles);
  ASSERT_TRUE(product) << product.unsupported().reason;
  EXPECT_EQ(product->program.gpu.at(0).shared_bytes, kPieces);
  EXPECT_THAT(fake_.calls(), HasSubstr("cuFuncSetAttribute product_kernel: attribute 8 = 65536\n"));
  const std::vector<uint64_t> buffers = {allocated(128 * 96 * 2), allocated(128 * 96 * 2),
                                         allocated(128 * 128 * 4)};
  const std::vector<float> zeros(128 * 96 / 2);
  std::vector<float> result(128 * 128, 1);
  for (const uint64_t buffer : {buffers[0], buffers[1]})
    ASSERT_FALSE(driver_->to_device(0, buffer, zeros.data(), 128 * 96 * 2));
  const auto refusal = product->run(buffers, {{"s0", 1}});
  ASSERT_FALSE(refusal) << refusal->reason << fake_.calls();
  EXPECT_THAT(fake_.calls(), HasSubstr(" with 65536 bytes\n"));
  ASSERT_FALSE(driver_->to_host(0, result.data(), buffers[2], 128 * 128 * 4));
  EXPECT_EQ(result, std::vector<float>(128 * 128, 0));
}

TEST_F(Launch, plans_with_the_shared_memory_that_the_driver_says_a_device_has) {
  fake_.shared_bytes(99 * kKiB, 99 * kKiB);
  const Result<GpuTarget> target = gpu_target_for(*driver_->device(0));
  ASSERT_TRUE(target);
  EXPECT_EQ(target->shared_bytes_per_block, 99 * kKiB);
  EXPECT_EQ(target->shared_bytes_per_multiprocessor, 100 * kKiB);
  EXPECT_EQ(target->shared_bytes_reserved, 1 * kKiB);
  EXPECT_TRUE(made(kProduct, kLargeTiles));
  const Result<Loaded> too_large = made(kProduct, std::string(kLargeTiles) + ",stages=4");
  ASSERT_FALSE(too_large);
  EXPECT_THAT(too_large.unsupported().reason,
              HasSubstr("the pieces of both factors take at most the 101376 bytes of shared memory"));
  EXPECT_TRUE(made(kProduct));
  fake_.shared_bytes(99 * kKiB, 0);
  EXPECT_EQ(gpu_target_for(*driver_->device(0))->shared_bytes_per_block, 163 * kKiB) << "the profile's";
}

TEST_F(Launch, says_that_a_device_has_less_shared_memory_than_its_profile) {
  fake_.shared_bytes(48 * kKiB, 0);
  const Result<Loaded> product = made(kProduct, kLargeTiles);
  ASSERT_FALSE(product);
  EXPECT_THAT(
      product.unsupported().reason,
      StartsWith("cannot give a block of product_kernel 65536 bytes of shared memory on GPU 0: CUDA_"));
  EXPECT_TRUE(made(kSoftmax)) << "others are not affected";
}

TEST_F(Launch, of_memory_that_was_not_asked_for_is_refused) {
  const RegionProgram program =
      *gpu_program(parse_tile_graph(kProduct),
                   *plan_gpu(parse_tile_graph(kProduct), load_gpu_target("cuda-sm80"), pins_of(kLargeTiles)));
  const Result<GpuBinary> binary = nvrtc()->compile(program.gpu.at(0).source, "sm_80");
  ASSERT_TRUE(binary);
  const Result<CudaFunction> without = driver_->load_function(0, binary->ptx, "product_kernel");
  ASSERT_TRUE(without);
  const std::vector<uint64_t> buffers = {allocated(128 * 96 * 2), allocated(128 * 96 * 2),
                                         allocated(128 * 128 * 4)};
  const CudaGrid grid{.blocks = 1, .threads = program.gpu[0].threads, .shared_bytes = kPieces};
  const auto refusal = driver_->launch(*without, grid, buffers);
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->reason, StartsWith("cannot launch a kernel: CUDA_"));
  EXPECT_THAT(fake_.calls(), HasSubstr("65536 bytes of shared memory, and the function was set to take 0"));
  const auto allowed = [&](int64_t bytes) {
    return !driver_->allow_shared_bytes(*without, "product_kernel", bytes);
  };
  EXPECT_TRUE(allowed(kPieces - 4));
  EXPECT_TRUE(driver_->launch(*without, grid, buffers));
  EXPECT_FALSE(allowed(163 * kKiB + 4));
}

// ---------------------------------------------------------------- tensor maps
constexpr const char* kRowsByColumns = R"(tile_graph product {
  axes i: s0, j: 72, k: 96
  buffers %x: bf16[s0, 104] in, %w: bf16[72, 96] in, %y: f32[s0, 72] out
  %x = load %x[i*104 + k + 8] : bf16[i, k]
  %w = load %w[j*96 + k]      : bf16[j, k]
  %p = mul(%x, %w)            : f32[i, j, k]
  %s = reduce.sum(%p) over k  : f32[i, j]
  store %s -> %y[i*72 + j]
}
)";

TEST_F(Launch, makes_tensor_maps_of_the_sizes_at_hand) {
  fake_.capability(9, 0);
  fake_.shared_bytes(227 * kKiB, 227 * kKiB);
  const Result<Loaded> product = made(kRowsByColumns, "copies=bulk,block_m=64,block_n=64,parts=1");
  ASSERT_TRUE(product) << product.unsupported().reason;
  ASSERT_EQ(product->program.gpu.at(0).tensor_maps.size(), 2U);
  for (const int64_t rows : {70, 3}) {
    const auto count = static_cast<size_t>(rows);
    // Ones, behind eight elements of each line that are not multiplied.
    std::vector<uint16_t> x(count * 104, 0x3f80);
    for (size_t i = 0; i < x.size(); i += 104) std::fill_n(x.begin() + std::ptrdiff_t(i), 8, 0x4000);
    const std::vector<uint16_t> w(72 * 96, 0x3f80);
    std::vector<float> y(count * 72);
    const std::vector<uint64_t> buffers = {allocated(rows * 104 * 2), allocated(72 * 96 * 2),
                                           allocated(rows * 72 * 4)};
    ASSERT_FALSE(driver_->to_device(0, buffers[0], x.data(), rows * 104 * 2));
    ASSERT_FALSE(driver_->to_device(0, buffers[1], w.data(), 72 * 96 * 2));
    const auto refusal = product->run(buffers, {{"s0", rows}});
    ASSERT_FALSE(refusal) << refusal->reason << fake_.calls();
    EXPECT_THAT(fake_.calls(), HasSubstr("cuTensorMapEncodeTiled\ncuTensorMapEncodeTiled\ncuLaunchKernel"));
    ASSERT_FALSE(driver_->to_host(0, y.data(), buffers[2], rows * 72 * 4));
    EXPECT_EQ(y, std::vector<float>(count * 72, 96));
    fake_.fail("cuTensorMapEncodeTiled", 1);
    const auto no_map = product->run(buffers, {{"s0", rows}});
    ASSERT_TRUE(no_map);
    EXPECT_EQ(no_map->reason, "cannot make a tensor map: CUDA_ERROR_OF_THE_TEST, as the test wants it");
  }
  const auto refusal = product->run({256, 512, 1024}, {{"s0", int64_t{1} << 31}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "cannot make a tensor map: an axis of 2147483648 elements is too long");
}

// Elements of eight bits as they lie. (Floats, which the copy rounds: conformance_test.)
TEST_F(Launch, makes_tensor_maps_of_other_numbers) {
  fake_.capability(9, 0);
  fake_.shared_bytes(227 * kKiB, 227 * kKiB);
  const std::string bytes = R"(tile_graph product {
  axes i: 64, j: 64, k: 128
  buffers %x: u8[64, 128] in, %w: i8[64, 128] in, %y: i32[64, 64] out
  %x = load %x[i*128 + k]    : u8[i, k]
  %w = load %w[j*128 + k]    : i8[j, k]
  %a = cast(%x)              : i32[i, k]
  %b = cast(%w)              : i32[j, k]
  %p = mul(%a, %b)           : i32[i, j, k]
  %s = reduce.sum(%p) over k : i32[i, j]
  store %s -> %y[i*64 + j]
}
)";
  const Result<Loaded> product = made(bytes, "numbers=int8,copies=bulk,block_m=64,block_n=64,parts=1");
  ASSERT_TRUE(product) << product.unsupported().reason;
  const std::vector<uint8_t> x(64 * 128, 200), w(64 * 128, 0xfd);  // 200 and -3
  std::vector<int32_t> y(64 * 64);
  const std::vector<uint64_t> buffers = {allocated(64 * 128), allocated(64 * 128), allocated(64 * 64 * 4)};
  ASSERT_FALSE(driver_->to_device(0, buffers[0], x.data(), 64 * 128));
  ASSERT_FALSE(driver_->to_device(0, buffers[1], w.data(), 64 * 128));
  const auto refusal = product->run(buffers, {{"s0", 1}});
  ASSERT_FALSE(refusal) << refusal->reason << fake_.calls();
  ASSERT_FALSE(driver_->to_host(0, y.data(), buffers[2], 64 * 64 * 4));
  EXPECT_EQ(y, std::vector<int32_t>(64 * 64, -3 * 200 * 128));
}

// ---------------------------------------------------------------- bad input
TEST_F(Launch, says_what_the_driver_says) {
  fake_.fail("cuModuleGetFunction", 500);
  const Result<Loaded> refused = made(kSoftmax);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.unsupported().reason,
              StartsWith("cannot load the kernel softmax_kernel on GPU 0: CUDA_ERROR"));

  const Result<Loaded> softmax = made(kSoftmax);
  ASSERT_TRUE(softmax);
  fake_.fail("cuLaunchKernel", 2);
  const auto no_memory = run(*softmax, kSoftmax, {{"s0", 3}});
  ASSERT_TRUE(no_memory);
  EXPECT_EQ(no_memory->reason, "cannot launch a kernel: CUDA_ERROR_OUT_OF_MEMORY, as the test wants it");
  EXPECT_FALSE(run(*softmax, kSoftmax, {{"s0", 3}})) << "the next call is not spoiled";
  fake_.fail("cuMemAlloc", 2);
  EXPECT_THAT(driver_->allocate(0, 64).unsupported().reason, HasSubstr("cannot allocate 64 bytes"));
}

TEST_F(Launch, takes_the_nearest_profile_and_the_device_s_own_architecture) {
  const auto target = [&](int major, int minor) {
    return gpu_target_for({.number = 0, .name = "GPU", .major = major, .minor = minor, .multiprocessors = 7});
  };
  EXPECT_EQ(target(8, 0)->architecture, "sm_80");
  EXPECT_EQ(target(8, 6)->name, "cuda-sm80");
  EXPECT_EQ(target(8, 6)->architecture, "sm_86");
  EXPECT_EQ(target(8, 9)->name, "cuda-sm89");
  EXPECT_EQ(target(9, 0)->architecture, "sm_90a");
  EXPECT_EQ(target(12, 0)->name, "cuda-sm100a");
  EXPECT_EQ(target(12, 0)->architecture, "sm_120");
  EXPECT_EQ(target(12, 0)->multiprocessors, 7);
  EXPECT_GT(target(9, 0)->warpgroup_flops_per_cycle, 0);
  EXPECT_EQ(target(10, 0)->architecture, "sm_100a");
  EXPECT_EQ(target(10, 0)->warpgroup_flops_per_cycle, 0) << "no other device has the instructions of sm_90a";
  EXPECT_GT(target(9, 0)->bulk_copy_gbs, 0);
  EXPECT_EQ(target(10, 0)->bulk_copy_gbs, 0);
  EXPECT_GT(target(10, 0)->most_cluster_blocks, 1);
  EXPECT_EQ(target(12, 0)->most_cluster_blocks, 1) << "which clusters others have is not said";
  EXPECT_THAT(target(7, 5).unsupported().reason, HasSubstr("cannot make kernels for GPU (sm_75)"));
  fake_.capability(7, 5);
  EXPECT_THAT(made(kSoftmax).unsupported().reason, HasSubstr("sm_75"));
}

TEST_F(Launch, refuses_a_device_that_is_not_there) {
  EXPECT_EQ(driver_->device(3).unsupported().reason, "cannot use GPU 3: there are 1");
}

// An H100, an H200, a device with half of an H100's memory, and one of which the driver says nothing.
TEST_F(Launch, takes_the_profile_whose_memory_is_the_nearest_and_a_copy_s_share_of_the_device_s) {
  fake_.capability(9, 0);
  const auto found = [&](int clock_khz, int bus_bits) {
    fake_.memory_rate(clock_khz, bus_bits);
    return *gpu_target_for(*driver_->device(0));
  };
  EXPECT_EQ(found(2619000, 5120).name, "cuda-sm90a");
  EXPECT_NEAR(found(2619000, 5120).memory_gbs, 3000, 1);
  EXPECT_EQ(found(3201000, 6144).name, "cuda-sm90a-h200");
  EXPECT_NEAR(found(3201000, 6144).memory_gbs, 4200, 1);
  EXPECT_EQ(found(2619000, 2560).name, "cuda-sm90a");
  EXPECT_NEAR(found(2619000, 2560).memory_gbs, 1500, 1);
  EXPECT_EQ(found(2619000, 2560).l2_bytes, 50 << 20);
  EXPECT_EQ(found(0, 0).name, "cuda-sm90a");
  EXPECT_EQ(found(0, 0).memory_gbs, 3000);
}

// In a process of its own: a library that was loaded once is found by its name.
TEST(FindGpu, says_that_there_is_no_compiler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto look = [] {
    const Result<FoundGpu> gpu = find_gpu({0, TILEFUSE_FAKE_CUDA, {"/no_such_folder"}});
    std::fputs(gpu ? "there is one beside the system's libraries" : gpu.unsupported().reason.c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(0),
              "there is no NVRTC; tried /no_such_folder/libnvrtc.so.13|there is one beside");
}

// ---------------------------------------------------------------- machine code from the cache
TEST_F(Launch, compiles_once_for_all_processes) {
  const TemporaryFolder folder;
  KernelCache cache(folder.file("cache"), 1 << 20);
  const FoundGpu gpu{*nvrtc(), *driver_, 0, *gpu_target_for(*driver_->device(0)), ""};
  const TileGraph graph = parse_tile_graph(kSoftmax);
  const RegionProgram program = *gpu_program(graph, *plan_gpu(graph, gpu.target));
  ASSERT_TRUE(build_gpu(program, gpu, {}, cache));
  EXPECT_EQ(cache.stats().entries, 1);
  ASSERT_TRUE(build_gpu(program, gpu, {}, cache));
  EXPECT_EQ(cache.stats().entries, 1);
  FoundGpu other = gpu;
  other.target.architecture = "sm_90a";
  ASSERT_TRUE(build_gpu(program, other, {}, cache));
  ASSERT_TRUE(build_gpu(program, gpu, {.eager_numerics = true}, cache));
  EXPECT_EQ(cache.stats().entries, 3);
}

TEST(CudaDriver, says_why_there_is_no_gpu) {
  EXPECT_EQ(CudaDriver::load("libno_such_driver.so").unsupported().reason,
            "cannot use a GPU: there is no NVIDIA driver; tried libno_such_driver.so");
  EXPECT_THAT(CudaDriver::load("libm.so.6").unsupported().reason, HasSubstr("has no cuInit"));
  const Fake fake;
  fake.fail("cuInit", 100);
  EXPECT_THAT(CudaDriver::load(TILEFUSE_FAKE_CUDA).unsupported().reason,
              HasSubstr("the driver does not start"));
  fake.devices(0);
  EXPECT_EQ(CudaDriver::load(TILEFUSE_FAKE_CUDA).unsupported().reason,
            "cannot use a GPU: the driver finds none");
  fake.devices(1);
}

}  // namespace
}  // namespace tilefuse
