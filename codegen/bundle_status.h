// What the functions of a bundle answer: one table for the header, the driver and the texts.
//
// A status is its kind, plus 256 times the number of the input, output or size that it is about.
#pragma once
#include <array>
#include <cstdint>

namespace tilefuse {

enum class StatusSubject : uint8_t { Call, Size, Input, Output };

struct BundleStatus {
  const char* name;  // MLP_<name> in the header, k<name> in the driver's runtime
  int kind;
  StatusSubject subject;
  const char* text;  // of a Call: the whole text; of the rest: what follows "input x: "
};

constexpr std::array kBundleStatuses = {
    BundleStatus{"OK", 0, StatusSubject::Call, "no error"},
    BundleStatus{"BAD_ARGUMENT", 1, StatusSubject::Call, "an argument that must not be NULL is NULL"},
    BundleStatus{"BAD_WORKSPACE", 2, StatusSubject::Call,
                 "the workspace is not aligned to 64 bytes, or smaller than workspace_bytes says"},
    BundleStatus{"BAD_WEIGHTS", 3, StatusSubject::Call, "the weights are not those of this library"},
    BundleStatus{"BAD_PROCESSOR", 4, StatusSubject::Call,
                 "this processor lacks instructions that the library was compiled for"},
    BundleStatus{"BAD_THREADS", 5, StatusSubject::Call,
                 "threads: count must be from 1 to 1024, and parallel_for must not be NULL"},
    BundleStatus{"BAD_INDEX", 6, StatusSubject::Call, "an index that is read from an input is out of range"},
    BundleStatus{"BAD_RANGE", 7, StatusSubject::Size, "is out of its range"},
    BundleStatus{"BAD_INPUT_DTYPE", 8, StatusSubject::Input, "has another dtype"},
    BundleStatus{"BAD_INPUT_RANK", 9, StatusSubject::Input, "has another rank"},
    BundleStatus{"BAD_INPUT_SIZES", 10, StatusSubject::Input, "has other sizes"},
    BundleStatus{"BAD_INPUT_STRIDES", 11, StatusSubject::Input, "has other strides"},
    BundleStatus{"BAD_INPUT_DATA", 12, StatusSubject::Input, "has no data"},
    BundleStatus{"BAD_OUTPUT_DTYPE", 13, StatusSubject::Output, "has another dtype"},
    BundleStatus{"BAD_OUTPUT_RANK", 14, StatusSubject::Output, "has another rank"},
    BundleStatus{"BAD_OUTPUT_SIZES", 15, StatusSubject::Output, "has other sizes"},
    BundleStatus{"BAD_OUTPUT_STRIDES", 16, StatusSubject::Output, "has other strides"},
    BundleStatus{"BAD_OUTPUT_DATA", 17, StatusSubject::Output, "has no data"},
};
constexpr int kStatusNumber = 256;  // times the number

}  // namespace tilefuse
