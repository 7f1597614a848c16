// Calls of attention in forward passes, whose gradients read what they leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/import/decomposition.h"
#include "fusion/decompose_calls.h"
#include "fusion/rewrite_calls.h"

namespace tilefuse {
namespace {

using testing::HasSubstr;

NodeId the_call(const Graph& graph) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (std::holds_alternative<Call>(graph.nodes[i].op)) return {i};
  }
  throw std::runtime_error("no Call");
}

// A call of a forward pass that keeps what its gradient wants.
std::string attention_of_gpu(const std::string& op, const std::string& more, const std::string& results) {
  return "graph g on \"cuda:0\"(%q: bf16[2, 8, 1024, 64], %k: bf16[2, 8, 1024, 64], %v: bf16[2, 8, 1024, "
         "64]) "
         "{\n  %y, %l, %seed, %offset = call(%q, %k, %v) {op = \"aten._scaled_dot_product_" +
         op + ".default\", query = %q, key = %k, value = %v, " + more + "} : bf16[2, 8, 1024, 64], " +
         results + "\n  return %y, %l, %seed, %offset\n}\n";
}
const std::string kFlash =
    attention_of_gpu("flash_attention", "is_causal = true", "f32[2, 8, 1024], u64[2], u64[]");

TEST(AttentionCalls, on_a_gpu_what_attention_keeps_for_its_gradient_is_made_beside_it) {
  const GpuTarget target = load_gpu_target("cuda-sm90a");
  const auto decided = [&](const std::string& text, ProductChoice choice) {
    RegionPrices prices(target, {});
    return decompose_calls(parse_graph(text), choice, {}, prices);
  };
  const Decomposed own = decided(kFlash, ProductChoice::Own);
  EXPECT_EQ(own.calls, 1);
  ASSERT_EQ(own.seeds.size(),
            1U);  // both results; the state of random numbers is memory, which no kernel makes
  PartitionOptions options;
  options.seeds = own.seeds;
  RegionPrices prices(target, {});
  const Partition parts = partition(own.graph, options, prices);
  ASSERT_EQ(parts.regions.size(), 1U) << to_text(parts, own.graph);
  EXPECT_EQ(parts.regions[0].outputs.size(), 2U) << to_text(own.graph);
  EXPECT_THAT(to_text(own.graph),
              HasSubstr(R"(%seed    = call {op = "aten.empty.memory_format", size = [2], )"
                        R"(dtype = dtype("uint64"), device = device("cuda:0")})"));
  // By default as in inference: attention stays with the library, whatever it leaves behind.
  EXPECT_EQ(decided(kFlash, ProductChoice::Auto).calls, 0);
  EXPECT_EQ(decided(kFlash, ProductChoice::Library).calls, 0);
  const std::string state = ", i64[], i64[]";
  EXPECT_EQ(decided(attention_of_gpu("cudnn_attention", "attn_bias = none, compute_log_sumexp = true",
                                     "f32[2, 8, 1024, 1]" + state),
                    ProductChoice::Own)
                .calls,
            1);
  EXPECT_EQ(decided(attention_of_gpu("efficient_attention", "attn_bias = none, compute_log_sumexp = true",
                                     "f32[2, 8, 1024]" + state),
                    ProductChoice::Own)
                .calls,
            1);
}

// Why the only call of the graph is left.
std::string why_left(const std::string& text) {
  const Graph graph = parse_graph(text);
  const Node& node = graph[the_call(graph)];
  std::vector<TensorType> operands;
  std::vector<aten::TensorRecord> results;
  for (const ValueId operand : node.operands) operands.push_back(graph[operand].type);
  for (const ValueId result : node.results) results.push_back({graph[result].name, graph[result].type, {}});
  EXPECT_FALSE(decomposed_alone(graph, the_call(graph)));
  return why_call(std::get<Call>(node.op), operands, results);
}

TEST(AttentionCalls, why_attention_of_a_forward_pass_is_left) {
  const std::string flash = "no region holds this form of aten._scaled_dot_product_flash_attention.default: ";
  const std::string results = "f32[2, 8, 1024], u64[2], u64[]";
  EXPECT_EQ(why_left(attention_of_gpu("flash_attention", "dropout_p = 0.5", results)),
            flash + "dropout inside of attention");
  EXPECT_EQ(why_left(attention_of_gpu("flash_attention", "return_debug_mask = true",
                                      "f32[2, 8, 1024], u64[2], bf16[2, 8, 1024, 1024]")),
            flash + "weights of attention to look at");
  std::string shorter = kFlash;
  shorter.replace(shorter.find("%k: bf16[2, 8, 1024"), 19, "%k: bf16[2, 8, 1000");
  shorter.replace(shorter.find("%v: bf16[2, 8, 1024"), 19, "%v: bf16[2, 8, 1000");
  EXPECT_EQ(why_left(shorter), flash + "a causal mask over other lengths of queries than of keys");
  EXPECT_EQ(
      why_left(attention_of_gpu("efficient_attention", "attn_bias = none, compute_log_sumexp = true",
                                "f32[2, 8, 1056], i64[], i64[]")),
      "no region holds this form of aten._scaled_dot_product_efficient_attention.default: logarithms of "
      "sums for more queries than there are");
}

}  // namespace
}  // namespace tilefuse
