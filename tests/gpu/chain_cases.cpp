#include "tests/gpu/chain_cases.h"

#include <ostream>

namespace tilefuse {
namespace {

const std::string kScale = "  %c = constant 0.3 : f32[]\n  %t0 = mul(%s, %c) : f32[SCORES]\n";
const std::string kAsScaled = "  %t = copy(%t0) : f32[SCORES]\n";
const std::string kCausal = kScale +
                            "  %i = inside [q - k] : bool[q, k]\n  %z = constant -inf : f32[]\n"
                            "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
const std::string kWindow = kScale +
                            "  %i = inside [q - k, k - q + 24] : bool[q, k]\n  %z = constant -inf : f32[]\n"
                            "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
const std::string kBias = kScale +
                          "  %b = load %b[h*ROWS*KEYS + q*KEYS + k] : bf16[h, q, k]\n"
                          "  %t = add(%t0, %b) : f32[SCORES]\n";
const std::string kMask = kScale +
                          "  %i = load %mask[k] : bool[k]\n  %z = constant -inf : f32[]\n"
                          "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
const std::string kCap = kScale +
                         "  %two = constant 2 : f32[]\n  %t1 = div(%t0, %two) : f32[SCORES]\n"
                         "  %t2 = tanh(%t1) : f32[SCORES]\n  %t = mul(%t2, %two) : f32[SCORES]\n";
// The last rows look at nothing: all of their scores are the same number, at the end of f32.
const std::string kFilled = kScale +
                            "  %i = inside [k - q - 9] : bool[q, k]\n  %z = constant -3.3e38 : f32[]\n"
                            "  %t = where(%i, %t0, %z) : f32[SCORES]\n";
// The same, and scaled behind it.
const std::string kFilledAndScaled =
    "  %i = inside [k - q - 9] : bool[q, k]\n  %z = constant -3.3e38 : f32[]\n"
    "  %t0 = where(%i, %s, %z) : f32[SCORES]\n  %c = constant 0.3 : f32[]\n"
    "  %t = mul(%t0, %c) : f32[SCORES]\n";
// Of each row one decides; products with log2 e are rounded by more than 1.
const std::string kHuge = "  %c = constant 3000000 : f32[]\n  %t = mul(%s, %c) : f32[SCORES]\n";
bool is_before(int64_t q, int64_t k) { return k <= q; }
bool is_in_window(int64_t q, int64_t k) { return k <= q && k >= q - 24; }

std::string bulk(int rows, int walked, int warps, int stages) {
  return "block_rows=" + std::to_string(rows) + ",block_walked=" + std::to_string(walked) +
         ",warps=" + std::to_string(warps) + ",stages=" + std::to_string(stages) +
         ",multiply=wgmma,copies=bulk";
}

}  // namespace

std::string scaled_scores() { return kScale + kAsScaled; }
std::string causal_scores() { return kCausal; }
std::string window_scores() { return kWindow; }
std::string capped_scores() { return kCap; }

void PrintTo(const ChainCase& test, std::ostream* out) { PrintTo(test.region, out); }

std::vector<ChainCase> chain_cases() {
  return {
      {{.name = "whole_blocks"}, "block_rows=64,block_walked=32,warps=4,stages=2"},
      {{.name = "as_solved", .q = "128", .k = "96"}},
      {{.name = "ragged", .q = "37", .k = "83"}},
      {{.name = "f16", .dtype = "f16", .q = "50", .k = "70", .d = 32, .v = 32}},
      {{.name = "long_lines", .q = "32", .k = "48", .d = 128, .v = 128}},
      {{.name = "one_axis_for_both", .q = "40", .k = "50", .shares_axis = true}},
      {{.name = "other_width", .q = "40", .k = "50", .d = 96, .v = 40}},
      {{.name = "short_lines", .q = "40", .k = "50", .d = 24, .v = 8}},
      {{.name = "two_matrices_a_warp", .q = "70", .k = "70"},
       "block_rows=64,block_walked=16,warps=2,stages=3"},
      {{.name = "memory_given_at_the_launch", .q = "130", .k = "300", .d = 128, .v = 128},
       "block_rows=128,block_walked=32,warps=8,stages=4"},
      {{.name = "filled_rows", .q = "40", .k = "40", .scores = kFilled}},
      {{.name = "filled_rows_and_scaled", .q = "40", .k = "40", .scores = kFilledAndScaled}},
      {{.name = "huge_scores", .q = "40", .k = "40", .scores = kHuge}},
      {{.name = "huge_scores_f16", .dtype = "f16", .q = "40", .k = "40", .scores = kHuge}},
      {{.name = "causal", .q = "100", .k = "100", .scores = kCausal, .looks_at = is_before},
       "block_rows=32,block_walked=16,warps=2,stages=2"},
      {{.name = "causal_f16",
        .dtype = "f16",
        .q = "100",
        .k = "100",
        .scores = kCausal,
        .looks_at = is_before}},
      {{.name = "causal_of_few_rows", .q = "33", .k = "100", .scores = kCausal, .looks_at = is_before}},
      {{.name = "window", .q = "130", .k = "130", .scores = kWindow, .looks_at = is_in_window},
       "block_rows=32,block_walked=16,warps=2,stages=3"},
      {{.name = "bias",
        .q = "40",
        .k = "56",
        .buffers = "%b: bf16[HEADS, ROWS, KEYS] in, ",
        .scores = kBias}},
      {{.name = "bias_of_odd_lines",
        .q = "21",
        .k = "35",
        .buffers = "%b: bf16[HEADS, ROWS, KEYS] in, ",
        .scores = kBias}},
      {{.name = "masked_keys", .q = "30", .k = "50", .buffers = "%mask: bool[KEYS] in, ", .scores = kMask}},
      {{.name = "soft_cap", .q = "40", .k = "40", .scores = kCap}},
      {{.name = "shared_keys", .heads = 4, .sharing = 2, .q = "40", .k = "40"}},
      {{.name = "heads_inside", .heads = 4, .sharing = 2, .q = "40", .k = "40", .heads_inside = true}},
      {{.name = "turned_keys", .q = "40", .k = "48", .is_turned = true}},
      {{.name = "odd_lines", .q = "20", .k = "20", .d = 33, .v = 35}},
      {{.name = "divided_weights", .q = "40", .k = "40", .divides_weights = true}},
      {{.name = "two_results", .q = "40", .k = "40", .stores_spread = true, .result_dtype = "f32"}},
      {{.name = "logarithms_causal",
        .q = "100",
        .k = "100",
        .scores = kCausal,
        .stores_spread = true,
        .looks_at = is_before},
       "block_rows=32,block_walked=16,warps=2,stages=2"},
      {{.name = "logarithms_of_shared_keys",
        .dtype = "f16",
        .heads = 4,
        .sharing = 2,
        .q = "37",
        .k = "83",
        .d = 128,
        .v = 128,
        .heads_inside = true,
        .stores_spread = true}},
      {{.name = "logarithms_of_biased_scores",
        .q = "40",
        .k = "56",
        .buffers = "%b: bf16[HEADS, ROWS, KEYS] in, ",
        .scores = kBias,
        .stores_spread = true}},
      {{.name = "logarithms_of_masked_keys",
        .q = "30",
        .k = "50",
        .buffers = "%mask: bool[KEYS] in, ",
        .scores = kMask,
        .stores_spread = true}},
      {{.name = "logarithms_of_huge_scores", .q = "40", .k = "40", .scores = kHuge, .stores_spread = true}},
      {{.name = "logarithms_by_groups",
        .q = "150",
        .k = "150",
        .scores = kCausal,
        .stores_spread = true,
        .looks_at = is_before},
       "multiply=wgmma,block_rows=64,block_walked=32,stages=2"},
      {{.name = "logarithms_in_bulk",
        .q = "200",
        .k = "200",
        .d = 128,
        .v = 128,
        .scores = kCausal,
        .stores_spread = true,
        .looks_at = is_before},
       bulk(128, 64, 8, 2) + ",ahead=1"},
      {{.name = "logarithms_of_unknown_sizes",
        .q = "s0",
        .k = "s0",
        .scores = kCausal,
        .stores_spread = true,
        .looks_at = is_before},
       "",
       {{"s0", 75}}},
      {{.name = "groups"}, "multiply=wgmma,block_rows=64,block_walked=32,stages=2"},
      {{.name = "groups_ragged", .q = "150", .k = "83"},
       "multiply=wgmma,block_rows=128,block_walked=64,stages=3"},
      {{.name = "groups_of_long_lines", .q = "128", .k = "160", .d = 128, .v = 128},
       "multiply=wgmma,block_rows=128,block_walked=128,stages=2"},
      {{.name = "groups_of_short_lines", .q = "70", .k = "50", .d = 24, .v = 8},
       "multiply=wgmma,block_rows=64,block_walked=32,stages=4"},
      {{.name = "groups_of_other_widths", .q = "70", .k = "70", .d = 192, .v = 64},
       "multiply=wgmma,block_rows=64,block_walked=32,stages=2"},
      {{.name = "groups_of_turned_keys", .q = "64", .k = "96", .is_turned = true},
       "multiply=wgmma,block_rows=64,block_walked=64,stages=2"},
      {{.name = "groups_causal", .q = "150", .k = "150", .scores = kCausal, .looks_at = is_before},
       "multiply=wgmma,block_rows=64,block_walked=32,stages=2"},
      {{.name = "groups_f16_window",
        .dtype = "f16",
        .q = "200",
        .k = "200",
        .scores = kWindow,
        .looks_at = is_in_window},
       "multiply=wgmma,block_rows=64,block_walked=16,stages=3"},
      {{.name = "groups_of_run_time_sizes", .q = "s0", .k = "s0", .scores = kCausal, .looks_at = is_before},
       "multiply=wgmma,block_rows=64,block_walked=64,stages=2",
       {{"s0", 75}}},
      {{.name = "run_time_sizes", .q = "s0", .k = "s1"}, "", {{"s0", 45}, {"s1", 70}}},
      {{.name = "run_time_causal", .q = "s0", .k = "s0", .scores = kCausal, .looks_at = is_before},
       "block_rows=32,block_walked=16,warps=2,stages=2",
       {{"s0", 75}}},
      {{.name = "bulk", .q = "128", .k = "256"}, bulk(128, 64, 8, 2)},
      {{.name = "bulk_ahead", .q = "128", .k = "256"}, bulk(128, 64, 8, 2) + ",ahead=1"},
      {{.name = "bulk_ahead_by_one_group", .q = "64", .k = "320", .d = 128, .v = 128},
       bulk(64, 64, 4, 3) + ",ahead=1"},
      {{.name = "bulk_ahead_long", .q = "128", .k = "384", .d = 128, .v = 128},
       bulk(128, 128, 8, 2) + ",ahead=1"},
      {{.name = "bulk_ahead_one_block", .q = "128", .k = "64"}, bulk(128, 64, 8, 2) + ",ahead=1"},
      {{.name = "bulk_ahead_ragged", .q = "200", .k = "216", .shares_axis = true},
       bulk(128, 64, 8, 2) + ",ahead=1"},
      {{.name = "bulk_ahead_causal",
        .heads = 4,
        .sharing = 2,
        .q = "200",
        .k = "200",
        .scores = kCausal,
        .looks_at = is_before},
       bulk(128, 64, 8, 2) + ",ahead=1"},
      {{.name = "bulk_causal", .q = "200", .k = "200", .scores = kCausal, .looks_at = is_before},
       bulk(64, 64, 4, 2)},
      {{.name = "bulk_ahead_window",
        .heads = 4,
        .sharing = 2,
        .q = "300",
        .k = "300",
        .heads_inside = true,
        .scores = kWindow,
        .looks_at = is_in_window},
       bulk(64, 64, 4, 2) + ",ahead=1"},
      {{.name = "bulk_ahead_turned",
        .q = "100",
        .k = "200",
        .is_turned = true,
        .buffers = "%mask: bool[KEYS] in, ",
        .scores = kMask,
        .divides_weights = true,
        .stores_spread = true},
       bulk(64, 64, 4, 2) + ",ahead=1"},
      {{.name = "bulk_ahead_bias_f16",
        .dtype = "f16",
        .q = "100",
        .k = "136",
        .buffers = "%b: bf16[HEADS, ROWS, KEYS] in, ",
        .scores = kBias},
       bulk(128, 64, 8, 3) + ",ahead=1"},
      {{.name = "bulk_ahead_unknown_sizes", .q = "s0", .k = "s1", .scores = kCap},
       bulk(64, 64, 4, 2) + ",ahead=1",
       {{"s0", 75}, {"s1", 150}}},
      {{.name = "ahead", .q = "128", .k = "256"},
       "block_rows=128,block_walked=64,warps=8,stages=3,multiply=wgmma,copies=async,ahead=1"},
      {{.name = "ahead_causal",
        .q = "150",
        .k = "150",
        .d = 32,
        .v = 32,
        .scores = kCausal,
        .looks_at = is_before},
       "block_rows=64,block_walked=32,warps=4,stages=4,multiply=wgmma,copies=async,ahead=1"},
      {{.name = "ahead_window", .q = "300", .k = "300", .scores = kWindow, .looks_at = is_in_window},
       "block_rows=64,block_walked=32,warps=4,stages=3,multiply=wgmma,copies=async,ahead=1"},
  };
}

}  // namespace tilefuse
