# The targets for users. Each one installs the packages it needs (scripts/packages), builds what changed, and reports an
# error in one line. QUERY=OFF builds without SQL.
QUERY ?= ON
TIME ?= 60
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export QUERY JOBS DESTDIR
MAKEFLAGS += --no-print-directory

.PHONY: help build install wheel tarball deb demo test check fuzz bench format clean
.DEFAULT_GOAL := help

help:
	@echo "make build           builds build/bin/tracesmith and the libraries it loads"
	@echo "make install         builds and installs into PREFIX (/usr/local); DESTDIR is put before it"
	@echo "make wheel           builds build/wheel/tracesmith-*.whl, which pip installs: the Python package with all it needs"
	@echo "make tarball         builds build/tracesmith-*-linux-*.tar.gz, which runs wherever it is unpacked"
	@echo "make deb             builds build/tracesmith_*.deb, a Debian package with services for systemd"
	@echo "make demo            builds, then shows TraceSmith on a simulated cluster (no GPU needed)"
	@echo "make test            builds and runs the tests"
	@echo "make check           runs the slower checks: gcc and clang with warnings as errors, tests with"
	@echo "                     address, undefined-behaviour and thread sanitizers, format, layers, every benchmark once"
	@echo "make fuzz TIME=60    fuzzes each decoder for TIME seconds"
	@echo "make bench           runs the benchmarks"
	@echo "make format          formats the C++ files"
	@echo "make clean           removes what was built; keeps the fetched DuckDB (rm -r build removes it too)"
	@echo
	@echo "QUERY=OFF            builds without SQL, which needs no DuckDB"
	@echo "JOBS=n               number of parallel jobs (default: all cores)"
	@echo "Other builds: scripts/build debug|tsan|... [target]; CMakePresets.json has the presets"

build:
	@scripts/build release product

install:
	@scripts/build release product library documents
	@cmake --install build --prefix $(PREFIX) >build/install.log || { tail -1 build/install.log; exit 1; }
	@echo "installed in $(DESTDIR)$(PREFIX); build/install_manifest.txt lists the files"

wheel: build
	@python3 python/wheel_backend.py build/wheel build

tarball:
	@scripts/build release product documents tracesmith_portable
	@scripts/package tarball build

deb:
	@scripts/setup package
	@scripts/build release product library documents
	@scripts/package deb build

demo: build
	@scripts/demo

test:
	@scripts/build release product tests
	@ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS)

check:
	@scripts/setup build test check
	scripts/check-layers --self-test
	scripts/check-layers
	scripts/check-format
	scripts/build asan product tests
	ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS) -E '^(capture|cli|cluster|jobs|process|server|web)\.'
	@# The leak check sometimes crashes the sanitizer itself while gRPC's threads end. Some of these start jobs with the probe in them.
	ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 \
	  ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS) -R '^(cluster|server|web)\.'
	@# These tests bring the probe into programs and check how the programs die, so the sanitizer must not interfere.
	ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:handle_segv=0:handle_abort=0 \
	  ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS) -R '^(capture|cli|jobs|process)\.'
	scripts/build tsan thread-tests
	@# tests/CMakeLists.txt says which tests these are; tests/tsan.supp names the libraries that the sanitizer cannot look into.
	TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/tests/tsan.supp \
	  ctest --test-dir build/tsan --output-on-failure --no-tests=error -j $(JOBS) -R '^(base|trace|model|capture|sync|hardware|analysis|cluster|server)\.'
	scripts/build clang product benches
	scripts/run-benches --smoke
	@echo "check: all passed"

fuzz:
	@scripts/fuzz $(TIME)

bench:
	@scripts/run-benches

format:
	@scripts/setup check
	@scripts/check-format --fix

clean:
	@if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name duckdb -exec rm -rf {} +; fi
