# Two commands: `make demo` and `make test`. Both set up what they need first: system packages, a virtual
# environment in .venv with torch, and the build. `make help` lists the rest.
SHELL := /bin/bash
VENV ?= .venv
PYTHON := $(VENV)/bin/python
STAMPS := build/stamps
JOBS ?= $(shell nproc)
SOURCES := $(shell git ls-files -co --exclude-standard -- '*.cpp' '*.h' '*.txt' '*.cmake' '*.json' '*.py' '*.toml' '*.js' '*.css' '*.html')
BENCH_PARTS := bench-memory bench-products bench-compute bench-convolutions bench-models bench-models-bf16 bench-ops bench-costs

.PHONY: help demo demo-offline gpu test test-quick test-full test-gpu-full fuzz fuzz-fixed fuzz-build bench $(BENCH_PARTS) bench-offline bench-solver calibrate build package setup check check-layout cpp-test cpp-test-quick asan-test-full python-test python-test-only format tidy clean
help:
	@grep -E '^##' Makefile | sed 's/^## //'

## make demo          embed sentences with a real model: results, speed beside eager and Inductor, explain
demo: $(STAMPS)/installed
	$(VENV)/bin/tilefuse demo

## make demo-offline  export the demo's model, fuse the file, run it from C++ with no compiler and no Python in reach
demo-offline: $(STAMPS)/installed
	$(PYTHON) examples/offline_demo.py

## make test          everything CI checks: style, C++ tests, Python tests, size table
test: check cpp-test python-test
	$(PYTHON) tools/size_table.py

## make test-quick    a sample of it, always the same one, without clang-tidy: one Python test in twelve; of the C++
##                    tests a dozen programs, with one kernel in six
test-quick: export TILEFUSE_TESTS := quick
test-quick: check-layout cpp-test-quick python-test-only

## make test-full     the same over all sources, with sanitizers throughout, fuzzers, the slow tests, and OpInfo in every dtype
##                    (hours on two cores)
SLOW_TESTS := $(addprefix test_,$(addsuffix .py,capture_import cli models offline op_library opinfo pages repeated_layers same_regions))
test-full: test tidy fuzz-fixed asan-test-full
	cd tests/python && TILEFUSE_OPINFO_SAMPLES=4 $(abspath $(PYTHON)) -m pytest --rootdir $(CURDIR) -c $(CURDIR)/pyproject.toml -n $(JOBS) --dist worksteal $(SLOW_TESTS)

## make test-gpu-full OpInfo in every dtype on the model of a GPU, and the GPU tiers of the C++ tests (an hour on two cores)
test-gpu-full: build
	TILEFUSE_TESTS=full ctest --test-dir build/release/tests/gpu --output-on-failure -j $(JOBS)
	cd tests/python && TILEFUSE_OPINFO_SAMPLES=4 $(abspath $(PYTHON)) -m pytest --rootdir $(CURDIR) -c $(CURDIR)/pyproject.toml -n $(JOBS) --dist worksteal test_gpu_opinfo.py test_gpu_host.py test_gpu_capture.py

## make bench         eager, Inductor and TileFuse side by side on all benchmark cases, OpenVINO on whole models; the ready
##                    operators in docs/ops.md. One to three hours; bench-memory, bench-products, bench-compute (what
##                    multiplications bound, with weights packed once and without), bench-convolutions, bench-models,
##                    bench-models-bf16, bench-ops and bench-costs (compiling, calling, memory, planning) run a part of it
bench:
	for part in $(BENCH_PARTS); do $(MAKE) --no-print-directory $$part || exit 1; done
bench-products bench-convolutions bench-models bench-ops: CASES = --$(@:bench-%=%)
bench-models-bf16: CASES := --models --dtype bf16
$(filter-out bench-costs bench-compute,$(BENCH_PARTS)): $(STAMPS)/installed $(STAMPS)/benchmarks
	$(PYTHON) benchmarks/run.py $(CASES)
bench-compute: $(STAMPS)/installed $(STAMPS)/benchmarks
	$(PYTHON) benchmarks/run.py --compute --freeze
	$(PYTHON) benchmarks/run.py --compute
bench-costs: $(STAMPS)/installed
	$(PYTHON) benchmarks/costs.py

## make bench-offline fused files beside AOTInductor's packages: time to make, size, time to load, speed, from C++
bench-offline: build
	$(PYTHON) benchmarks/offline/run.py

## make bench-solver  regret of the chosen schedules against a measured sweep
bench-solver: build
	$(PYTHON) benchmarks/solver/run.py

## make gpu           on a machine with an NVIDIA GPU, PART=tests, conformance, sanitize, bench-memory, bench-rows, bench-contract,
##                    bench-attention, bench-models or all of them (the default): tests on CUDA tensors, kernels beside
##                    their model and under compute-sanitizer, speed beside eager, Inductor, cuBLAS, SDPA, FlexAttention
##                    and a copy
PART ?= all
gpu:
	python3 tools/gpu.py --check
	$(MAKE) build
	$(PYTHON) tools/gpu.py --part $(PART)

## make build         the C++ libraries, the tests, and the Python package installed in .venv; make package: that alone
build: $(STAMPS)/cpp $(STAMPS)/installed
package: $(STAMPS)/installed
setup: $(STAMPS)/python

$(STAMPS)/system: tools/system_packages.txt tools/install_system_packages.sh
	@mkdir -p $(STAMPS)
	bash tools/install_system_packages.sh
	@touch $@

$(STAMPS)/python: $(STAMPS)/system tools/python_packages.txt
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip
	$(PYTHON) -m pip install --quiet -r tools/python_packages.txt
	@touch $@

# Releases of NVIDIA's compiler that users have, beside the one that came with torch: tests compile kernels with all of them.
$(STAMPS)/older_nvrtc: $(STAMPS)/python tools/older_nvrtc.txt
	while read package; do $(PYTHON) -m pip install --quiet --no-deps --upgrade --target build/nvrtc/$${package##*=} $$package \
	  || echo "not installed: $$package"; done < tools/older_nvrtc.txt
	@touch $@

# What only benchmarks want. Without it they say so, and leave that contestant out.
$(STAMPS)/benchmarks: $(STAMPS)/python tools/benchmark_packages.txt
	$(PYTHON) -m pip install --quiet -r tools/benchmark_packages.txt && touch $@ || echo "not installed: $$(cat tools/benchmark_packages.txt)"

$(STAMPS)/configured: $(STAMPS)/python $(STAMPS)/older_nvrtc CMakePresets.json
	cmake --preset release -DPython_EXECUTABLE=$(abspath $(PYTHON)) > build/configure.log || (cat build/configure.log; false)
	@touch $@

$(STAMPS)/cpp: $(STAMPS)/configured $(SOURCES)
	cmake --build build/release -j $(JOBS)
	@touch $@

# By the name that CMake calls the compiler by above, so that ccache finds what was compiled there.
$(STAMPS)/installed: $(STAMPS)/python $(SOURCES)
	@echo "compiling the package: some minutes, in which nothing is printed"
	CXX=$${CXX:-c++} $(PYTHON) -m pip install --quiet --no-build-isolation --no-deps -C cmake.define.TILEFUSE_WARNINGS_AS_ERRORS=ON .
	@touch $@

# Without two of the laws of GPU kernels, which take minutes: every type that is multiplied, and kernels beside their model.
# `make test-gpu-full` asks them.
cpp-test: $(STAMPS)/cpp
	ctest --test-dir build/release --output-on-failure -j $(JOBS) --timeout 600 -E '/(CudaNumbers|CudaRandomNumbers|Conformance)'

# Programs of a build, side by side: $(call run_tests,folder,names)
run_tests = printf "%s\n" $(2) | xargs -P $(JOBS) -I{} env $(1)/tests/{} --gtest_brief=1

# Golden files of all stages, laws of the graph, the partition and the solver, kernels of one nest and of chains.
QUICK_TESTS := golden_test graph_test expr_test import_test index_map_test tile_graph_test partition_test solver_test \
  cost_model_test pipeline_test kernel_test chain_test
cpp-test-quick: $(STAMPS)/configured
	cmake --build build/release -j $(JOBS) --target $(QUICK_TESTS) import_eval
	$(call run_tests,build/release,$(QUICK_TESTS))

asan-test-full: $(STAMPS)/python
	cmake --preset asan > build/configure-asan.log || (cat build/configure-asan.log; false)
	cmake --build build/asan -j $(JOBS)
	ctest --test-dir build/asan --output-on-failure -j $(JOBS) --timeout 3000

# With sanitizers, as the fuzzers: what needs no kernel compiled (graphs, expressions, import, partition, tile graphs, the
# cost model), and what reads files.
SANITIZED_TESTS := bad_files_test graph_test expr_test import_test index_map_test reference_test text_output_test \
  tile_graph_test partition_test cost_model_test fuzz_regressions_test offline_test
fuzz-build: $(STAMPS)/python
	cmake --preset fuzz > build/configure-fuzz.log || (cat build/configure-fuzz.log; false)
	cmake --build build/fuzz -j $(JOBS) --target fuzzers $(SANITIZED_TESTS)
	$(call run_tests,build/fuzz,$(SANITIZED_TESTS))

## make fuzz          tests of graphs and files with sanitizers, and parsers under libFuzzer, FUZZ_SECONDS each (default 60)
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
fuzz: fuzz-build
	$(PYTHON) tools/fuzz.py --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --jobs $(JOBS)

## make fuzz-fixed    the same with executions that are the same each time
fuzz-fixed: fuzz-build
	$(PYTHON) tools/fuzz.py --fixed --jobs $(JOBS)

python-test: build python-test-only
python-test-only: $(STAMPS)/installed
	cd tests/python && $(abspath $(PYTHON)) -m pytest --rootdir $(CURDIR) -c $(CURDIR)/pyproject.toml -n $(JOBS) --dist worksteal . -m "not slow" $(PYTEST_ARGS)

check-layout: $(STAMPS)/python
	$(PYTHON) tools/check_format.py
	$(PYTHON) tools/check_includes.py

## make check         formatting, include directions, clang-tidy over what the last commits touch
check: $(STAMPS)/cpp check-layout
	$(PYTHON) tools/check_tidy.py -j $(JOBS) --commits 8

tidy: $(STAMPS)/cpp
	$(PYTHON) tools/check_tidy.py -j $(JOBS)

## make format        reformat the C++ sources
format: $(STAMPS)/system
	git ls-files -- '*.cpp' '*.h' | xargs clang-format-19 -i

clean:
	rm -rf build
