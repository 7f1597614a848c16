#include "torch_ext/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/core/TensorOptions.h>

#include <array>
#include <memory>
#include <utility>

#include "core/enum_order.h"
#include "torch_ext/pool.h"

namespace tilefuse {
namespace {

constexpr std::array<std::pair<DType, c10::ScalarType>, 21> kTypes = {{
    {DType::Bool, c10::ScalarType::Bool},
    {DType::U8, c10::ScalarType::Byte},
    {DType::I8, c10::ScalarType::Char},
    {DType::I16, c10::ScalarType::Short},
    {DType::I32, c10::ScalarType::Int},
    {DType::I64, c10::ScalarType::Long},
    {DType::F16, c10::ScalarType::Half},
    {DType::BF16, c10::ScalarType::BFloat16},
    {DType::F32, c10::ScalarType::Float},
    {DType::F64, c10::ScalarType::Double},
    {DType::F8E4M3FN, c10::ScalarType::Float8_e4m3fn},
    {DType::F8E5M2, c10::ScalarType::Float8_e5m2},
    {DType::U16, c10::ScalarType::UInt16},
    {DType::U32, c10::ScalarType::UInt32},
    {DType::U64, c10::ScalarType::UInt64},
    {DType::C32, c10::ScalarType::ComplexHalf},
    {DType::C64, c10::ScalarType::ComplexFloat},
    {DType::C128, c10::ScalarType::ComplexDouble},
    {DType::F8E4M3FNUZ, c10::ScalarType::Float8_e4m3fnuz},
    {DType::F8E5M2FNUZ, c10::ScalarType::Float8_e5m2fnuz},
    {DType::F8E8M0FNU, c10::ScalarType::Float8_e8m0fnu},
}};

static_assert(is_in_enum_order(kTypes, &std::pair<DType, c10::ScalarType>::first, DType::F8E8M0FNU),
              "kTypes: one row per DType, in the order of the enum");

c10::DispatchKeySet dense_keys(const c10::Storage& storage) {
  if (storage.device_type() == c10::DeviceType::CPU) return c10::DispatchKeySet(c10::DispatchKey::CPU);
  return c10::DispatchKeySet(c10::computeDispatchKey(std::nullopt, std::nullopt, storage.device()));
}

}  // namespace

c10::ScalarType to_scalar_type(DType dtype) { return kTypes[size_t(dtype)].second; }

std::optional<DType> to_dtype(c10::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

at::Tensor framework_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type,
                            c10::Device device) {
  static const auto empty =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("aten::empty_strided", "")
          .typed<at::Tensor(c10::SymIntArrayRef, c10::SymIntArrayRef, std::optional<c10::ScalarType>,
                            std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>)>();
  return empty.call(c10::fromIntArrayRefSlow(sizes), c10::fromIntArrayRefSlow(strides), type, std::nullopt,
                    device, std::nullopt);
}

at::Tensor pooled_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type) {
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, pool_allocator(),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU), type));
}

c10::Storage pooled_storage(size_t bytes) {
  return {c10::Storage::use_byte_size_t(), bytes, pool_allocator()->allocate(bytes), nullptr, false};
}

at::Tensor tensor_over(const c10::Storage& storage, at::IntArrayRef sizes, at::IntArrayRef strides,
                       int64_t offset, c10::ScalarType type) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), dense_keys(storage),
                                                   c10::scalarTypeToTypeMeta(type));
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

at::Tensor tensor_within(const c10::Storage& storage, int64_t first_byte, at::IntArrayRef sizes,
                         at::IntArrayRef strides, c10::ScalarType type) {
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  auto whole = std::make_unique<c10::Storage>(storage);  // lives as long as its part
  c10::DataPtr part(
      static_cast<char*>(storage.mutable_data()) + first_byte, whole.release(),
      [](void* held) { std::default_delete<c10::Storage>()(static_cast<c10::Storage*>(held)); },
      c10::DeviceType::CPU);
  return tensor_over({c10::Storage::use_byte_size_t(), bytes, std::move(part), nullptr, false}, sizes,
                     strides, 0, type);
}

bool is_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % tensor.element_size() == 0;
}

bool has_layout(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const at::IntArrayRef have = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && have[d] != strides[d]) return false;
  }
  return true;
}

void copy_into(const at::Tensor& target, const at::Tensor& source) {
  static const auto copy = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("aten::copy_", "")
                               .typed<at::Tensor&(at::Tensor&, const at::Tensor&, bool)>();
  at::Tensor written = target;
  copy.call(written, source, false);
}

at::Tensor with_layout(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (has_layout(source, sizes, strides) && is_aligned(source)) return source;
  // Memory of the input's strides may overlap itself: then the copy has to be dense, by our own strides.
  at::Tensor copy = pooled_tensor(sizes, strides, source.scalar_type());
  copy_into(copy, source);
  return copy;
}

}  // namespace tilefuse
