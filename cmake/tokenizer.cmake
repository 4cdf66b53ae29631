# The o200k ranks travel within the program. A damaged file would encode wrongly without a word.
set(ranks ${CMAKE_SOURCE_DIR}/data/o200k_base.tiktoken)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ranks})
file(SHA256 ${ranks} found)
set(published 446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d)
if(NOT found STREQUAL published)
  message(FATAL_ERROR "data/o200k_base.tiktoken is damaged: its SHA-256 is ${found}, not "
                      "${published}. Restore it with git checkout data/o200k_base.tiktoken.")
endif()
set_source_files_properties(src/tokenizer/o200k_ranks.cc PROPERTIES
  COMPILE_DEFINITIONS "ROSE_O200K_RANKS=\"${ranks}\"" OBJECT_DEPENDS ${ranks})
