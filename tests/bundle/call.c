/* Calls a bundled model, knowing of it only what its header says:
 *
 *   call REPEAT THREADS WEIGHTS f32:8,64:x.bin ... = f32:2:y.bin ...
 *
 * Inputs with dtype, sizes and file; outputs with dtype, rank and file. WEIGHTS: a file, or "-". THREADS 0: no
 * threads. Inputs are written back to their files. Fails if the run allocates, or writes behind what it was given.
 *
 * Compiled with -DLOWER_NAME=mlp -DUPPER_NAME=MLP -DHEADER='"mlp.h"', and -DSTATE, -DWEIGHTS where the model has them. */
#include HEADER

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(word) JOIN(LOWER_NAME, word)
#define NUMBER(word) JOIN(UPPER_NAME, word)

typedef NAME(tensor) tensor;
typedef NAME(threads) threads;
typedef NAME(task) task;

enum { MAX_TENSORS = 16, MAX_RANK = 8, GUARD = 64 };

/* ---------------------------------------------------------------- counted allocations */
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* memory, size_t bytes);
extern void* __libc_memalign(size_t align, size_t bytes);
static int allocations = 0;
void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t align, size_t bytes) {
  ++allocations;
  return __libc_memalign(align, bytes);
}

static void fail(const char* what, const char* about) {
  fprintf(stderr, "call: %s%s\n", what, about);
  exit(1);
}
static void check(int status) {
  if (status != NUMBER(OK)) fail("error: ", NAME(error_text)(status));
}

/* ---------------------------------------------------------------- memory with a guard behind it */
static char* guarded(size_t bytes) {
  const size_t whole = (bytes + GUARD + 63) / 64 * 64;
  char* memory = aligned_alloc(64, whole);
  memset(memory, 0x5a, whole);
  return memory;
}
static void check_guard(const char* memory, size_t bytes, const char* what) {
  int i;
  for (i = 0; i < GUARD; ++i) {
    if (memory[bytes + (size_t)i] != 0x5a) fail("the run wrote behind ", what);
  }
}

/* ---------------------------------------------------------------- threads: one for each task */
struct job {
  task run;
  void* context;
  int64_t number;
};
static void* run_job(void* opaque) {
  struct job* job = opaque;
  job->run(job->context, job->number);
  return NULL;
}
static void parallel_for(void* pool, int64_t tasks, task run, void* context) {
  pthread_t started[64];
  struct job jobs[64];
  int64_t i;
  ++*(int*)pool;
  if (tasks > 64) fail("more tasks than threads", "");
  for (i = 0; i < tasks; ++i) {
    jobs[i].run = run;
    jobs[i].context = context;
    jobs[i].number = i;
    if (pthread_create(&started[i], NULL, run_job, &jobs[i]) != 0) fail("no thread", "");
  }
  for (i = 0; i < tasks; ++i) pthread_join(started[i], NULL);
}

/* ---------------------------------------------------------------- tensors */
struct held {
  tensor given;
  int64_t sizes[MAX_RANK];
  size_t bytes;
  const char* file;
};

static const char* const dtype_names[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
static const int dtype_bytes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};

static int dtype_of(const char* text, size_t length) {
  int i;
  for (i = 0; i < 10; ++i) {
    if (strlen(dtype_names[i]) == length && strncmp(dtype_names[i], text, length) == 0) return i;
  }
  fail("no dtype: ", text);
  return -1;
}

static void allocate(struct held* tensor_of) {
  int d;
  tensor_of->bytes = (size_t)dtype_bytes[tensor_of->given.dtype];
  for (d = 0; d < tensor_of->given.rank; ++d) tensor_of->bytes *= (size_t)tensor_of->sizes[d];
  tensor_of->given.data = guarded(tensor_of->bytes);
  tensor_of->given.sizes = tensor_of->sizes;
}

static void read_bytes(const char* path, char* data, size_t bytes) {
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(data, 1, bytes, file) != bytes) fail("cannot read ", path);
  fclose(file);
}
static void write_bytes(const char* path, const char* data, size_t bytes) {
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) fail("cannot write ", path);
}

static void parse_input(struct held* input, const char* text) {
  const char* sizes = strchr(text, ':');
  const char* file = strchr(sizes + 1, ':');
  input->given.dtype = dtype_of(text, (size_t)(sizes - text));
  for (++sizes; sizes < file; ++input->given.rank) {
    char* end;
    input->sizes[input->given.rank] = strtoll(sizes, &end, 10);
    sizes = end + 1;
  }
  input->file = file + 1;
  allocate(input);
  read_bytes(input->file, input->given.data, input->bytes);
}

static void parse_output(struct held* output, const char* text) {
  const char* rank = strchr(text, ':');
  output->given.dtype = dtype_of(text, (size_t)(rank - text));
  output->given.rank = (int32_t)strtol(rank + 1, NULL, 10);
  output->file = strchr(rank + 1, ':') + 1;
}

static struct held inputs[MAX_TENSORS], outputs[MAX_TENSORS];

int main(int argc, char** argv) {
  tensor given[MAX_TENSORS], wanted[MAX_TENSORS];
  int64_t sizes[MAX_TENSORS];
  int parallel_calls = 0, input_count = 0, output_count = 0, i, repeat, calls;
  threads pool, *used = NULL;
  char* workspace;
  size_t workspace_bytes;
#ifdef STATE
  char* state = guarded(NUMBER(STATE_BYTES));
#endif
#ifdef WEIGHTS
  char* weights = guarded(NUMBER(WEIGHTS_BYTES));
#endif
  if (argc < 4) fail("usage: see call.c", "");
  repeat = atoi(argv[1]);
  pool.count = atoi(argv[2]);
  pool.parallel_for = parallel_for;
  pool.pool = &parallel_calls;
  if (pool.count > 0) used = &pool;
  for (i = 4; i < argc && strcmp(argv[i], "=") != 0; ++i) parse_input(&inputs[input_count++], argv[i]);
  for (++i; i < argc; ++i) parse_output(&outputs[output_count++], argv[i]);
  if (input_count != NUMBER(INPUTS) || output_count != NUMBER(OUTPUTS)) fail("the model takes other tensors", "");

  for (i = 0; i < input_count; ++i) given[i] = inputs[i].given;
  check(NAME(read_sizes)(given, sizes));
  for (i = 0; i < output_count; ++i) {
    check(NAME(output_sizes)(i, sizes, outputs[i].sizes));
    allocate(&outputs[i]);
    wanted[i] = outputs[i].given;
  }
  workspace_bytes = NAME(workspace_bytes)(sizes, used);
  if (workspace_bytes == 0) fail("no workspace fits", "");
  workspace = guarded(workspace_bytes);
#ifdef WEIGHTS
  read_bytes(argv[3], weights, NUMBER(WEIGHTS_BYTES));
#endif
#ifdef STATE
#ifdef WEIGHTS
  check(NAME(init_state)(state, weights));
#else
  check(NAME(init_state)(state));
#endif
#endif
  for (calls = 0; calls < repeat; ++calls) {
    const int before = allocations;
    check(NAME(run)(given, wanted, workspace, workspace_bytes,
#ifdef STATE
                    state,
#endif
#ifdef WEIGHTS
                    weights,
#endif
                    used));
    if (used == NULL && allocations != before) fail("the run allocates memory", "");
  }
  check_guard(workspace, workspace_bytes, "the workspace");
#ifdef STATE
  check_guard(state, NUMBER(STATE_BYTES), "the state");
#endif
  for (i = 0; i < input_count; ++i) {
    check_guard(inputs[i].given.data, inputs[i].bytes, "an input");
    write_bytes(inputs[i].file, inputs[i].given.data, inputs[i].bytes);
  }
  for (i = 0; i < output_count; ++i) {
    int d;
    check_guard(outputs[i].given.data, outputs[i].bytes, "an output");
    write_bytes(outputs[i].file, outputs[i].given.data, outputs[i].bytes);
    printf("output");
    for (d = 0; d < outputs[i].given.rank; ++d) printf(" %lld", (long long)outputs[i].sizes[d]);
    printf("\n");
  }
  printf("workspace %lu bytes, %d parallel calls\n", (unsigned long)workspace_bytes, parallel_calls);
  return 0;
}
