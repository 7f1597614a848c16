// Scaled dot-product attention, as the framework's CPU kernel defines it: two products around a softmax.
#include <cmath>
#include <limits>

#include "core/import/arguments.h"
#include "core/import/operand.h"
#include "core/import/operator_table.h"
#include "core/import/product.h"
#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = std::numeric_limits<float>::lowest();

// Keys and values [batch, heads, keys, d] with a head for each of the query's: groups of heads share one.
Tensor for_heads(const Tensor& shared, const Expr& heads) {
  const auto few = shared.size(1).constant(), many = heads.constant();
  if (shared.size(1) == heads) return shared;
  if (!few || !many || *few == 0 || *many % *few != 0) decline("heads that are no groups");
  Shape shape = shared.shape();
  shape[1] = heads;
  const Expr head = floordiv(Expr::index(1), Expr(*many / *few));
  return view(shared, {shape, {Expr::index(0), head, Expr::index(2), Expr::index(3)}, {}, 0.0});
}

// Query i sees the keys up to i, however many there are.
Tensor causal(const Tensor& scores) {
  const auto place = [&](int dim) { return positions(scores.builder(), scores.shape(), dim); };
  return where(map(MapFn::Ge, place(2), place(3)), scores, -kInfinity);
}

// A constant, as canonicalize leaves comparisons of positions that their ranges decide.
bool is_all_true(const Tensor& mask) {
  const auto* known = std::get_if<Constant>(&mask.builder().graph().producer(mask.id()).op);
  return known != nullptr && mask.dtype() == DType::Bool && to_bool(known->value);
}

Tensor masked(CapturedOp& op, Tensor scores, std::string_view name = "attn_mask") {
  if (op.flag("is_causal", false)) scores = causal(scores);
  const auto mask = op.optional_tensor(name);
  if (!mask || is_all_true(*mask)) return scores;
  if (mask->dtype() == DType::Bool) return where(expand(*mask, scores.shape()), scores, -kInfinity);
  if (!info(mask->dtype()).is_float) decline("a mask that is no number to add");
  return scores + expand(cast(*mask, scores.dtype()), scores.shape());
}

// The framework's kernel multiplies weights in the type of the values.
Tensor in_precision_of(CapturedOp& op, std::string_view name, const Tensor& weights) {
  const DType narrow = op.tensor(name).dtype();
  return narrow == weights.dtype() ? weights : cast(cast(weights, narrow), weights.dtype());
}

double scale_of(CapturedOp& op, const Tensor& query) {
  const auto width = query.size(3).constant();
  if (!op.has("scale") && !width) decline("a scale by a size that is not known");
  return op.number("scale", 1 / std::sqrt(double(width.value_or(1))));
}

Tensor turned(const Tensor& matrices) { return view(matrices, permute_map(matrices.shape(), {0, 1, 3, 2})); }

// The output, and the logarithm of the sum of exponentials of each query's scores, [batch, heads, queries,
// 1]. Where a mask leaves a query no key, both are 0.
struct Attended {
  Tensor output, spread;
};

Attended attend(CapturedOp& op, std::string_view mask) {
  if (op.number("dropout_p", 0.0) != 0.0) decline("dropout inside of attention");
  op.ignore("enable_gqa");  // the heads of keys and values say as much
  const Tensor query = factor(op, "query");
  if (query.rank() != 4) decline("attention that is not over [batch, heads, length, d]");
  const Tensor key = for_heads(factor(op, "key"), query.size(1)),
               value = for_heads(factor(op, "value"), query.size(1));
  const Tensor scores = masked(op, product(query, turned(key)) * scale_of(op, query), mask);
  const Tensor peak = maximum(max(scores, {3}), kLowest);
  const Tensor weights = exp(scores - peak);
  const Tensor total = sum(weights, {3});
  const Tensor is_empty = compare(MapFn::Eq, total, 0.0);
  const Tensor divisor = where(is_empty, like(total, 1.0), total);
  const Tensor output = product(in_precision_of(op, "value", weights), value) / divisor;
  return {output, where(is_empty, 0.0, peak + log(divisor))};
}

Outputs flash_attention(CapturedOp& op) {
  const Attended attended = attend(op, "attn_mask");
  if (op.result_count() < 2) return {as_result(op, attended.output)};
  return {as_result(op, attended.output), as_result(op, squeeze(attended.spread, 3), 1)};
}

// cuDNN keeps a dim behind the queries. Others may want logarithms for a whole number of blocks of queries,
// of which there are more than that.
Tensor spread_as_recorded(CapturedOp& op, const Tensor& spread) {
  const Tensor logarithms = op.shape(1).size() == 4 ? spread : squeeze(spread, 3);
  if (logarithms.shape() != op.shape(1)) decline("logarithms of sums for more queries than there are");
  return as_result(op, logarithms, 1);
}

// What stands for random numbers that were not drawn, as the framework leaves it: memory of no value.
Tensor unwritten(CapturedOp& op, size_t i) {
  const TensorRecord& record = op.result(i);
  if (info(record.type.dtype).is_float) decline("weights of attention to look at");
  ArgumentList sizes;
  for (const Expr& extent : record.type.shape) sizes.push_back({"", extent, 0});
  const std::string dtype(dtype_name(record.type.dtype));
  const ValueId made = add_call(op.builder(), "aten.empty.memory_format",
                                {{"size", std::move(sizes), 0},
                                 {"dtype", EnumArgument{"dtype", dtype}, 0},
                                 {"device", EnumArgument{"device", record.device}, 0}},
                                {record})
                           .front();
  op.builder().set_elsewhere(made, record.device);
  return {op.builder(), made};
}

// GPUs leave behind what only gradients read: the logarithms, and of dropout's random numbers what draws them
// again. Of what nobody reads, no matter what stands for it.
Outputs attention_of_gpu(CapturedOp& op) {
  op.ignore("compute_log_sumexp");
  op.ignore("return_debug_mask");
  const Attended attended = attend(op, "attn_bias");
  Outputs outputs{as_result(op, attended.output)};
  for (size_t i = 1; i < op.result_count(); ++i) {
    if (!op.is_used(i))
      outputs.push_back(outputs.front());
    else
      outputs.push_back(i == 1 ? spread_as_recorded(op, attended.spread) : unwritten(op, i));
  }
  return outputs;
}

// Its mask begins at the last query and the last key.
Outputs flash_attention_of_gpu(CapturedOp& op) {
  if (op.flag("is_causal", false) && op.tensor("query").size(2) != op.tensor("key").size(2))
    decline("a causal mask over other lengths of queries than of keys");
  return attention_of_gpu(op);
}

// What a query makes of a key, and how the result changes with its score.
struct Weighed {
  Tensor weights, slopes;  // [batch, heads, queries, keys]
};

// From the logarithms that the forward pass has left: weights = exp(scores - spread), and through the softmax
// slopes = weights (change value^T - sum(change output)).
Weighed weigh_again(CapturedOp& op) {
  const Tensor query = factor(op, "query"), change = factor(op, "grad_out");
  const Tensor scores = masked(op, product(query, turned(factor(op, "key"))) * scale_of(op, query));
  const Tensor weights = exp(scores - unsqueeze(factor(op, "logsumexp"), 3));
  const Tensor mean = sum(change * factor(op, "out"), {3});
  return {weights, weights * (product(change, turned(factor(op, "value"))) - mean) * scale_of(op, query)};
}

// Results: the gradients of queries, keys and values. Those of queries are sums over keys, the others over
// queries: no task has all of both, so each of the two makes weights of its own.
Outputs flash_attention_backward(CapturedOp& op) {
  if (op.number("dropout_p", 0.0) != 0.0) decline("dropout inside of attention");
  const Shape shape = op.tensor("query").shape();
  if (shape.size() != 4) decline("attention that is not over [batch, heads, length, d]");
  if (op.tensor("key").size(1) != shape[1]) decline("gradients of heads that several share");
  const Weighed by_query = weigh_again(op);
  const Tensor of_query = product(in_precision_of(op, "key", by_query.slopes), factor(op, "key"));
  const Weighed by_key = weigh_again(op);
  const Tensor of_key = product(turned(in_precision_of(op, "query", by_key.slopes)), factor(op, "query"));
  const Tensor of_value =
      product(turned(in_precision_of(op, "value", by_key.weights)), factor(op, "grad_out"));
  return {as_result(op, of_query), as_result(op, of_key, 1), as_result(op, of_value, 2)};
}

// Of a call without dropout, which has drawn no random numbers; all sequences are of one length.
Outputs flash_attention_backward_of_gpu(CapturedOp& op) {
  for (const char* of_others : {"cum_seq_q", "cum_seq_k", "max_q", "max_k", "philox_seed", "philox_offset"})
    op.ignore(of_others);
  return flash_attention_backward(op);
}

}  // namespace

OperatorFamily attention_operators() {
  static constexpr OperatorRow kRows[] = {
      {"aten._scaled_dot_product_cudnn_attention.default", attention_of_gpu},
      {"aten._scaled_dot_product_efficient_attention.default", attention_of_gpu},
      {"aten._scaled_dot_product_flash_attention.default", flash_attention_of_gpu},
      {"aten._scaled_dot_product_flash_attention_backward.default", flash_attention_backward_of_gpu},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default", flash_attention},
      {"aten.scaled_dot_product_attention.default", flash_attention},
      {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", flash_attention_backward},
  };
  return kRows;
}

}  // namespace tilefuse::aten
