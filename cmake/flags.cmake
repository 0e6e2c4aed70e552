# Flags for our own code; the headers of other projects come in as system headers and are not judged.
add_library(twinpod_flags INTERFACE)
target_compile_options(twinpod_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
target_compile_definitions(twinpod_flags INTERFACE TWINPOD_CATALOG_DIR="${CMAKE_SOURCE_DIR}/catalog"
                                                   TWINPOD_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Part of clang's -Wconversion, but not of gcc's: one rule for both compilers.
  target_compile_options(twinpod_flags INTERFACE -Wno-sign-conversion)
else()
  # gcc 12 warns of overlapping copies inside its own std::string: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
  target_compile_options(twinpod_flags INTERFACE -Wno-restrict)
  if(TWINPOD_SHORTCUTS)
    # And of more inside it when it comes precompiled.
    target_compile_options(twinpod_flags INTERFACE -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
  endif()
endif()

if(TWINPOD_SANITIZE)
  add_compile_options(-fsanitize=${TWINPOD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TWINPOD_SANITIZE})
endif()
if(TWINPOD_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "TWINPOD_FUZZ needs clang: libFuzzer is part of it")
endif()
