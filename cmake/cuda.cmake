# The CUDA half of rose: src/**/*.cu, if a compiler is at hand. One comes from an installed toolkit or
# from `scripts/setup.sh --cuda`, which needs neither GPU nor driver.
if(ROSE_CUDA STREQUAL "OFF")
  unset(ROSE_NVCC CACHE)
  target_sources(rose_core PRIVATE ${CMAKE_SOURCE_DIR}/src/ops/cuda/no_cuda.cc)
  return()
endif()
file(GLOB_RECURSE ROSE_CUDA_SOURCES CONFIGURE_DEPENDS src/*.cu src/ops/cuda/*.cc)
list(FILTER ROSE_CUDA_SOURCES EXCLUDE REGEX /no_cuda[.]cc$)
find_program(ROSE_NVCC nvcc HINTS ENV CUDA_HOME
  PATHS ${CMAKE_SOURCE_DIR}/.cache/cuda/bin /usr/local/cuda/bin)
if(NOT ROSE_NVCC)
  if(ROSE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ROSE_CUDA=ON, but no nvcc was found in PATH, /usr/local/cuda or .cache/cuda. "
      "Run scripts/setup.sh --cuda, which installs one, or configure with -DROSE_CUDA=OFF.")
  endif()
  message(STATUS "CUDA: no compiler found; building for the CPU alone (scripts/setup.sh --cuda brings one)")
  target_sources(rose_core PRIVATE ${CMAKE_SOURCE_DIR}/src/ops/cuda/no_cuda.cc)
  return()
endif()

file(REAL_PATH ${ROSE_NVCC} nvcc)
cmake_path(GET nvcc PARENT_PATH nvcc_folder)
cmake_path(GET nvcc_folder PARENT_PATH CUDAToolkit_ROOT)
set(CMAKE_CUDA_COMPILER ${nvcc})
set(CMAKE_CUDA_ARCHITECTURES 90a-real)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo")
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)
message(STATUS "CUDA: ${nvcc}")

set_target_properties(rose_core PROPERTIES CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES}
  CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
target_sources(rose_core PRIVATE ${ROSE_CUDA_SOURCES})
target_compile_options(rose_core PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-Werror;all-warnings;-Xcompiler=-Wall,-Wextra,-Werror>")
target_link_libraries(rose_core PUBLIC CUDA::cudart_static)
# The sampler repeats the host's arithmetic bit for bit (base/draw.h), and shares its functions.
set_source_files_properties(src/kernels/sampler/smxx_f32_draw.cu PROPERTIES
  COMPILE_OPTIONS "-fmad=false;--expt-relaxed-constexpr")
