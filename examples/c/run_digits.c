/* Runs a bundled model from C, with nothing but the C library:
 *
 *   python export_digits.py digits.pt2
 *   tilefuse bundle digits.pt2 -o libdigits.so --header digits.h
 *   cc -std=c11 -O2 -fopenmp run_digits.c -o run_digits -L. -ldigits -Wl,-rpath,. -lm
 *   ./run_digits 5
 *
 * Prints the most likely class of each of five rows. Without -fopenmp it runs on one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

#ifdef _OPENMP
#include <omp.h>

static void with_openmp(void* pool, int64_t tasks, digits_task task, void* context) {
  (void)pool;
#pragma omp parallel for schedule(static, 1)
  for (int64_t i = 0; i < tasks; ++i) task(context, i);
}
static digits_threads openmp_threads(void) {
  return (digits_threads){.count = omp_get_max_threads(), .parallel_for = with_openmp};
}
#endif

static int stop(int status) {
  fprintf(stderr, "run_digits: %s\n", digits_error_text(status));
  return 1;
}

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? atoll(argv[1]) : 5, width = 64;
  float* pixels = malloc((size_t)(rows * width) * sizeof *pixels);
  for (int64_t i = 0; i < rows * width; ++i) pixels[i] = sinf(0.37F * (float)i);

  const int64_t input_sizes[] = {rows, width};
  const digits_tensor input = {.data = pixels, .sizes = input_sizes, .rank = 2, .dtype = DIGITS_F32};

  /* What the sizes of this call ask for. A caller with one size, or a largest one, does this once. */
  const digits_threads* threads = NULL;
#ifdef _OPENMP
  const digits_threads openmp = openmp_threads();
  threads = &openmp;
#endif
  int64_t sizes[DIGITS_SIZES], output_sizes[2];
  int status = digits_read_sizes(&input, sizes);
  if (status == DIGITS_OK) status = digits_output_sizes(0, sizes, output_sizes);
  if (status != DIGITS_OK) return stop(status);
  const size_t workspace_bytes = digits_workspace_bytes(sizes, threads);
  void* workspace = aligned_alloc(64, workspace_bytes);
  float* scores = malloc((size_t)(output_sizes[0] * output_sizes[1]) * sizeof *scores);
  const digits_tensor output = {.data = scores, .sizes = output_sizes, .rank = 2, .dtype = DIGITS_F32};

  status = digits_run(&input, &output, workspace, workspace_bytes, threads);
  if (status != DIGITS_OK) return stop(status);
  for (int64_t row = 0; row < rows; ++row) {
    const float* of_row = scores + row * output_sizes[1];
    int64_t best = 0;
    for (int64_t i = 1; i < output_sizes[1]; ++i) best = of_row[i] > of_row[best] ? i : best;
    printf("row %lld: class %lld, %.4f\n", (long long)row, (long long)best, (double)of_row[best]);
  }
  free(scores);
  free(workspace);
  free(pixels);
  return 0;
}
