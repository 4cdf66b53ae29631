# One libFuzzer program for each fuzz/<name>_fuzz.cc (scripts/fuzz.sh runs them).
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "ROSE_FUZZ needs clang. Run scripts/setup.sh --dev, then cmake --preset fuzz.")
endif()
# clang finds a deprecated name within libstdc++ 12 wherever std::stable_sort is used.
target_compile_options(rose_core PRIVATE -fsanitize=fuzzer-no-link -Wno-deprecated-declarations)
file(GLOB ROSE_FUZZERS CONFIGURE_DEPENDS fuzz/*_fuzz.cc)
foreach(source ${ROSE_FUZZERS})
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE rose_core)
endforeach()
