#include "core/import/storage_views.h"

#include <algorithm>
#include <array>

#include "core/import/refusal.h"

namespace tilefuse::aten {
namespace {

// Without namespace and overload.
constexpr std::array<std::string_view, 37> kViewOperators = {
    "alias",    "as_strided",       "atleast_1d", "broadcast_to", "chunk",      "contiguous", "detach",
    "diagonal", "expand",           "expand_as",  "flatten",      "lift_fresh", "movedim",    "mT",
    "narrow",   "permute",          "ravel",      "reshape",      "reshape_as", "select",     "slice",
    "split",    "split_with_sizes", "squeeze",    "swapaxes",     "swapdims",   "t",          "tensor_split",
    "to",       "transpose",        "type_as",    "unbind",       "unflatten",  "unfold",     "unsqueeze",
    "view",     "view_as"};

std::string_view operator_name(std::string_view overload) {
  const size_t first = overload.find('.') + 1;
  return overload.substr(first, overload.rfind('.') - first);
}

// Where the elements of a view lie in its base, dimension by dimension.
struct Inverse {
  std::vector<Expr> coordinates, conditions;  // of the view, over the indices of the base
};

// nullopt: some coordinate is no sum of a constant and a multiple of one index that no other coordinate has.
std::optional<Inverse> inverse_of(const IndexMap& map) {
  std::vector<std::optional<Expr>> place(map.extents.size());
  Inverse inverse;
  for (size_t dim = 0; dim < map.coordinates.size(); ++dim) {
    const Expr& coordinate = map.coordinates[dim];
    const Expr along = Expr::index(int(dim));
    const std::vector<int> indices = indices_of(coordinate);
    if (indices.empty()) {
      inverse.conditions.insert(inverse.conditions.end(), {along - coordinate, coordinate - along});
      continue;
    }
    const auto affine = affine_in(coordinate, indices[0]);
    const auto step = affine ? affine->coefficient.constant() : std::nullopt;
    if (indices.size() != 1 || !step || *step <= 0 || place[size_t(indices[0])]) return std::nullopt;
    const Expr distance = along - affine->rest;
    place[size_t(indices[0])] = floordiv(distance, Expr(*step));
    const Expr last = (map.extents[size_t(indices[0])] - 1) * *step;
    inverse.conditions.insert(inverse.conditions.end(), {distance, last - distance});
    if (*step != 1) inverse.conditions.push_back(-mod(distance, Expr(*step)));
  }
  for (size_t i = 0; i < place.size(); ++i) {
    if (!place[i] && !map.extents[i].is_constant(1)) return std::nullopt;
    inverse.coordinates.push_back(place[i].value_or(Expr(0)));
  }
  return inverse;
}

}  // namespace

std::optional<std::string> functional_form(std::string_view overload) {
  if (overload.find('.') == overload.rfind('.')) return std::nullopt;
  const std::string_view name = operator_name(overload);
  const size_t start = size_t(name.data() - overload.data());
  std::string result(overload);
  if (name.starts_with("__i") && name.ends_with("__") && name != "__invert__") {
    return result.erase(start + 2, 1);
  }
  if (!name.ends_with('_') || name.ends_with("__")) return std::nullopt;
  return result.erase(start + name.size() - 1, 1);
}

bool makes_views(std::string_view overload) {
  const std::string_view name = operator_name(overload);
  return overload.starts_with("aten.") &&
         std::find(kViewOperators.begin(), kViewOperators.end(), name) != kViewOperators.end();
}

void StorageViews::add(const std::string& name, const std::string& base) {
  std::vector<IndexMap> maps;
  const ValueId end = values_->at(base);
  for (ValueId at = values_->at(name); at != end;) {
    const Node& node = builder_->graph().producer(at);
    const auto* view = std::get_if<View>(&node.op);
    if (view == nullptr) return;
    maps.push_back(view->map);
    at = node.operands[0];
  }
  std::reverse(maps.begin(), maps.end());
  views_.push_back({name, base, std::move(maps)});
}

const StorageViews::SharedView* StorageViews::find(const std::string& name) const {
  const auto found =
      std::find_if(views_.begin(), views_.end(), [&](const SharedView& view) { return view.name == name; });
  return found == views_.end() ? nullptr : &*found;
}

ValueId StorageViews::applied(ValueId base, const std::vector<IndexMap>& maps) {
  for (const IndexMap& map : maps) base = builder_->view(base, map);
  return base;
}

Tensor StorageViews::scattered(const Tensor& base, const Tensor& part, const IndexMap& map,
                               const std::string& name) {
  const bool is_all =
      element_count(base.shape(), all_dims(base)) == element_count(part.shape(), all_dims(part));
  if (is_all && map == reshape_map(base.shape(), part.shape())) return reshape(part, base.shape());
  auto inverse = inverse_of(map);
  if (!inverse || !map.conditions.empty()) {
    refuse("cannot take a graph that writes into '" + name +
           "': its elements are no plain part of the memory that it is a view of");
  }
  const Shape shape = base.shape();
  std::erase_if(inverse->conditions, [&](const Expr& e) { return proves_nonnegative(e, shape); });
  if (inverse->conditions.empty()) return view(part, {shape, inverse->coordinates, {}, 0.0});
  const Tensor everywhere = constant(*builder_, true, DType::Bool, part.shape());
  const Tensor is_part = view(everywhere, {shape, inverse->coordinates, inverse->conditions, false});
  const Scalar fill = is_float(base.dtype()) ? Scalar(0.0) : Scalar(int64_t{0});
  return where(is_part, view(part, {shape, inverse->coordinates, inverse->conditions, fill}), base);
}

ValueId StorageViews::written_through(ValueId base, ValueId part, const SharedView& view) {
  std::vector<ValueId> steps{base};
  for (const IndexMap& map : view.maps) steps.push_back(builder_->view(steps.back(), map));
  Tensor written(*builder_, part);
  for (size_t i = view.maps.size(); i-- > 0;) {
    written = scattered({*builder_, steps[i]}, written, view.maps[i], view.name);
  }
  return written.id();
}

// With the strides that were recorded for the name.
void StorageViews::set(const std::string& name, ValueId value) {
  const auto strides = builder_->graph()[values_->at(name)].strides;
  const auto& known = builder_->graph()[value].strides;
  if (strides && known && *strides != *known) value = builder_->map(MapFn::Copy, {value});
  if (strides) builder_->set_strides(value, *strides);
  values_->insert_or_assign(name, value);
}

std::string StorageViews::write(const std::string& name, ValueId value) {
  std::set<std::string> written{name};
  std::string root = name;
  set(name, value);
  while (const SharedView* view = find(root)) {
    const ValueId base = written_through(values_->at(view->base), values_->at(root), *view);
    root = view->base;
    set(root, base);
    written.insert(root);
  }
  for (const SharedView& view : views_) {
    if (!written.contains(view.base) || !written.insert(view.name).second) continue;
    set(view.name, applied(values_->at(view.base), view.maps));
  }
  return root;
}

}  // namespace tilefuse::aten
