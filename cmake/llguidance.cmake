# The Rust half of structured output, which scripts/setup.sh builds. Without it the program is
# complete but for that: it answers 400 where an answer's form is asked for.
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/llguidance.sh --path
  OUTPUT_VARIABLE llguidance OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  third_party/llguidance/Cargo.toml third_party/llguidance/Cargo.lock
  third_party/llguidance/src/lib.rs)
set(library ${llguidance}/librose_llguidance.a)
if(NOT EXISTS ${library})
  message(NOTICE "Structured output: OFF, since ${library} is missing. scripts/setup.sh builds it; "
    "it needs cargo >= 1.87 (Debian 12: rustc-web and cargo-web).")
  return()
endif()
set_source_files_properties(src/grammar/llguidance.cc PROPERTIES
  COMPILE_DEFINITIONS ROSE_LLGUIDANCE OBJECT_DEPENDS ${library}
  INCLUDE_DIRECTORIES ${llguidance})
target_link_libraries(rose_core PUBLIC ${library} ${CMAKE_DL_LIBS} m)
