// Asks the second-level cache for what the loops read next.
//
// Runs after inline_values, before name_values. What a reduction, or a pack, reads of an input in one
// iteration of the loop around it is asked for `kIterationsAhead` iterations before, line by line, beside the
// loads of the same places; where the loop around reads the same a few times, as rows of a product do, in the
// loop around that. Processors follow few streams, none of which jumps from row to row of a block, and begin
// anew at every page: a product whose rows share weights from beyond the caches computes, and waits for the
// weights of its next block, in turn. Asked for, they come while it computes.
//
//   for j step 8 {                                for j step 8 {
//     let w_j = w + j * 384                         let w_j = w + j * 384
//     for r step 16 {                      =>       for r step 16 {
//                                                     prefetch(w_j + r + 6144)
//       sum += load(x + r) * load(w_j + r)            sum += load(x + r) * load(w_j + r)
//
// Not asked for: small buffers, what loops around read many times, what would not stay until it is used, and
// places that are no sums of multiples of loop indices.
#pragma once
#include <functional>
#include <optional>

#include "codegen/kernel_ir.h"

namespace tilefuse {

// Bytes of the buffer in a slot; absent: they depend on sizes of the call.
using BytesOfSlot = std::function<std::optional<int64_t>(int64_t slot)>;

Kernel insert_prefetches(Kernel kernel, const BytesOfSlot& bytes_of_slot);

}  // namespace tilefuse
