#include "core/import/addend.h"

#include <algorithm>
#include <string_view>

#include "core/import/call_argument.h"

namespace tilefuse {
namespace {

struct Row {
  std::string_view sum, addend, left, right;              // the Call, and names of its arguments
  std::string_view product, product_left, product_right;  // the same for the product alone
};
constexpr Row kRows[] = {
    {"aten::addmm", "self", "mat1", "mat2", "aten::mm", "self", "mat2"},
    {"aten::addmv", "self", "mat", "vec", "aten::mv", "self", "vec"},
    {"aten::baddbmm", "self", "batch1", "batch2", "aten::bmm", "self", "mat2"},
    {"aten::linear", "bias", "input", "weight", "aten::linear", "input", "weight"},
};

std::optional<int> operand(const Call& call, std::string_view name) {
  const CallArgument* argument = find_argument(call, name);
  const auto* given = argument == nullptr ? nullptr : std::get_if<OperandArgument>(&argument->value);
  return given == nullptr ? std::nullopt : std::optional(given->operand);
}

bool is_one(const Call& call, std::string_view name) {
  const CallArgument* argument = find_argument(call, name);
  if (argument == nullptr) return true;
  const auto* size = std::get_if<Expr>(&argument->value);
  const auto* number = std::get_if<double>(&argument->value);
  return (size != nullptr && size->is_constant(1)) || (number != nullptr && *number == 1.0);
}

}  // namespace

std::optional<ProductAndAddend> take_addend_apart(const Call& call) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& candidate) { return candidate.sum == call.op; });
  if (row == std::end(kRows) || !call.overload.empty()) return std::nullopt;
  const auto addend = operand(call, row->addend), left = operand(call, row->left),
             right = operand(call, row->right);
  if (!addend || !left || !right || !is_one(call, "alpha") || !is_one(call, "beta")) return std::nullopt;
  Call product{std::string(row->product), "", {}};
  product.arguments.push_back({std::string(row->product_left), OperandArgument{0}});
  product.arguments.push_back({std::string(row->product_right), OperandArgument{1}});
  return ProductAndAddend{std::move(product), {*left, *right}, *addend};
}

}  // namespace tilefuse
