# The commands of daily work; each sets up what it needs first. The build itself is CMake's.
#
#   make run      build, serve the model that ships with rose, ask it a question
#   make test     build and pass all tests
#   make build    leave the program at build/rose
#   make check    before a commit: format, includes, headers, texts, tests
#   make asan     build and test with AddressSanitizer and UndefinedBehaviorSanitizer
#   make tsan     build and test with ThreadSanitizer
#   make fuzz     each fuzz target for SECONDS_EACH seconds (60)
#   make cuda     compile the CUDA sources (no GPU needed)
#   make quality  how well the shipped model answers, and how often its draft agrees
#   make schemas  whether answers to random JSON schemas fit them, and hostile schemas are refused
#   make overload whether the server keeps its goodput for a minute at three times its capacity
#   make clients  the OpenAI clients for Python and Node.js, and recorded requests of others, against it
#   make reference   prompts, answers and token ids against the reference libraries, at random
#   make format   lay out all sources
#
# JOBS=N bounds how many compilers and tests run side by side.

export PATH := $(CURDIR)/.cache/bin:$(PATH)
JOBS ?= $(shell nproc)
SECONDS_EACH ?= 60
SCHEMAS ?= 1000

.PHONY: run test build check asan tsan fuzz cuda quality schemas overload clients format setup setup-dev headers
.DEFAULT_GOAL := build

setup:
	@scripts/setup.sh

setup-dev:
	@scripts/setup.sh --dev

# configure-and-build(preset[,arguments])
define configure-and-build
@cmake --preset $(1) --log-level=NOTICE
@cmake --build --preset $(1) -j $(JOBS) $(2)
endef

build: setup
	$(call configure-and-build,release,--target rose)
	@ln -sfn build/compile_commands.json compile_commands.json

test: setup
	$(call configure-and-build,release)
	@ctest --preset release -j $(JOBS)

run: build
	@build/rose serve --demo

# GCC's ThreadSanitizer does not start where addresses are spread over more bits than it knows.
tsan: FIXED_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)
asan tsan: setup
	@cmake --preset $@ --log-level=NOTICE
	@$(FIXED_ADDRESSES) cmake --build --preset $@ -j $(JOBS)
	@$(FIXED_ADDRESSES) ctest --preset $@ -j $(JOBS)

quality: build
	@scripts/quality.sh

schemas: build
	@scripts/setup.sh --clients
	@scripts/schemas.sh $(SCHEMAS)

overload: build
	@scripts/overload.sh

clients: build
	@scripts/setup.sh --clients
	@.cache/clients/venv/bin/python3 tests/clients/run.py build/rose

reference: build
	@scripts/setup.sh --reference
	@tests/quality/harmony_reference.py build/rose \
	  .cache/reference-venv/lib/python3*/site-packages/openai_harmony/openai_harmony*.so
	@.cache/reference-venv/bin/python3 tests/quality/qwen_reference.py build/rose

fuzz: setup-dev
	$(call configure-and-build,fuzz)
	@scripts/fuzz.sh build-fuzz $(SECONDS_EACH)

cuda: setup
	@scripts/setup.sh --cuda
	$(call configure-and-build,cuda)

headers: setup
	$(call configure-and-build,release,--target rose_headers)

format: setup-dev
	@tools/check_format.sh --fix

check: setup-dev headers
	@tools/check_format.sh
	@tools/check_includes.py
	@tools/check_texts.py
	@tools/check_cases.py
	@$(MAKE) --no-print-directory test
	@tools/check_binary.sh build/rose
