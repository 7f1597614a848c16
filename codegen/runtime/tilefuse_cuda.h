// clang-format off
// The preamble of every generated CUDA kernel. It includes nothing but its own parts (embed.cmake joins them into
// one text), no header of CUDA: those take longer to compile than a kernel does.
//
//   #define TILEFUSE_LANES 4       1, 2, 4 or 8; before this text
//
// Kernels stand in namespace tile, where exp(x) is ours. Every function that takes a Vec also takes the number.
//
// types      Vec<T>: kLanes elements of a thread, next to each other in memory; + - * / & | ^ ~, also with a T;
//            Mask = Vec<bool>; bf16, f16 {unsigned short bits}, f8e4m3fn, f8e5m2 {unsigned char bits}, which compute as float
// memory     load(p), store(p, v): in accesses of at most 16 bytes, each at a multiple of its size; load_one,
//            store_one; storing rounds to nearest even
// fill       splat<T>(x); kInfinity; lowest<T>(), highest<T>(): the identities of max and min
// masks      eq ne lt le gt ge (a, b); mask_and mask_or mask_xor mask_not; select(m, yes, no)
// convert    convert<To>(v): to bool is != 0, float to integer cuts off; round_to<bf16>(v), kept as float
// functions  fma(a, b, c); max_nan, min_nan (a, b): NaN of either; max_num(number, x), min_num: NaN of x; abs, neg,
//            sign, square, sqrt, rsqrt, reciprocal, floor, ceil, round (half even), trunc, is_nan, is_inf, exp, exp2,
//            log, log2, sigmoid, tanh, erf: those of CUDA in their exact forms, at most 2 ulp by its manual, sigmoid 4; longer
//            ones, those of f64 and of integers in cuda_functions.h
// short      quotient_narrow(a, b), exp_narrow, sigmoid_narrow: of what ends in 16 bits; erf_absolute, tanh_absolute: of
//            what is added to one (cuda_division.h)
// across     reduce_add, _mul, _max, _min (NaN wins), _any, _all (Vec) -> T: over a thread's lanes;
//            row_add(x, threads), row_add(x, threads, parts) and so on: over the threads of a row
//            cluster_add(x, blocks, slot) and so on: over the blocks of a cluster (cuda_cluster_rows.h)
//            update_, reduce_, row_, rows_max_index, _min_index (best, at, ..): the same of an element and its place,
//            both by reference (cuda_extremes.h)
// scans      scan_add, _mul, _max, _min, _any, _all (x, carried, threads), (.., parts): in place, by all threads of a row
//            together (cuda_scans.h)
// threads    thread_number(): in its block; block_number<T>()
// products   multiply_tiles: of two matrices on tensor cores (cuda_product.h), from what cuda_matrix.h has:
//            load_matrices, multiply_bf16, _f16, _tf32, begin_copy, commit_copies, wait_for_copies
// groups     multiply_tiles_in_groups: the same by warpgroups of sm_90a (cuda_group_product.h), from multiply_group and
//            what stands around it (cuda_warpgroup.h), or multiply_group_of, of other numbers
//            (cuda_warpgroup_numbers.h), floats of which are rounded or taken apart on the way (cuda_float_pieces.h)
// copies     copy_in_bulk, multiply_in_bulk: the same with a warpgroup that copies by tensor maps of sm_90a
//            (cuda_bulk_product.h), from copy_box and the barriers that count it (cuda_bulk_copy.h)
// results    gather_sums, gathered_sums: through shared memory, so that threads have whole lines (cuda_gathered_sums.h)
// chains     begin_piece, multiply_pieces, add_product: two products, the first one's results in registers (cuda_chain.h)
//            multiply_pieces_in_groups, add_product_in_groups: the same by warpgroups (cuda_group_chain.h)
//            begin_scores, begin_product: in parts; copy_chain_in_bulk: with a warpgroup that copies (cuda_bulk_chain.h)
// clusters   rank_in_cluster, meet_cluster, load_from, arrive_in: blocks that run at the same time (cuda_cluster.h)
// indices    floor_div, remainder (a, b): towards minus infinity; 0 by zero
// clang-format on
#pragma once

#include "cuda_bulk_chain.h"  // both include the other parts, each after the one it needs
#include "cuda_cluster_rows.h"
#include "cuda_extremes.h"
#include "cuda_gathered_sums.h"
#include "cuda_scans.h"
