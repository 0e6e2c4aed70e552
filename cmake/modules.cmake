# One folder in src/ is one module is one library, and a module may use only modules before it in this list.
#
#     module(sim USES core cluster program LINKS some::package)
#
# Configuring fails with `layering: sim may not use plan` when USES names a module at or after itself, and when a file in
# src/sim includes "plan/..." without USES plan. Sources are found by glob, so that none can be left out in silence:
#   *_test.cpp   of all modules go into one executable, twinpod_tests
#   *_bench.cpp  each into an executable of its own in bench/
#   *_fuzz.cpp   each into a libFuzzer executable in fuzz/, with TWINPOD_FUZZ
#   *_plugin.cpp into a library of its own, that is loaded when it is needed: plugin(NAME FILE LINKS some::package)
#   cli/main.cpp into the executable twinpod
# A module whose folder does not exist or is empty is passed over.
set(TWINPOD_MODULES core spec kernel data layout cluster model collective program chakra comm machine store ps sim train plan validate emit report
                    serve cli)

# Packages that only the modules which LINK them may include: "what the include starts with=target".
set(TWINPOD_GUARDED_HEADERS "yaml.h=PkgConfig::yaml" "Eigen/=Eigen3::Eigen" "nlohmann/=nlohmann_json::nlohmann_json"
    "pugixml.hpp=pugixml::pugixml" "et_def.pb.h=chakra_schema" "google/protobuf/=chakra_schema"
    "mpi.h=MPI::MPI_CXX" "oneapi/dnnl/=oneDNN" "hwloc.h=PkgConfig::hwloc" "xxhash.h=xxhash"
    "curl/=CURL::libcurl" "openssl/=OpenSSL::Crypto" "liburing.h=PkgConfig::uring")

# Headers of others that nearly every file includes, compiled once for all libraries with the same options: a build takes
# a third less time. Not json.hpp: gcc would instantiate what it declares in every file, half a second each time.
# `./test full` builds once without (TWINPOD_SHORTCUTS), which shows that each file includes what it uses.
set(TWINPOD_COMMON_HEADERS <fmt/format.h> <algorithm> <array> <cmath> <cstdint> <functional> <map> <optional> <string>
                           <string_view> <utility> <vector>)

# Those that share memory or index by hand, and what they stand on: `./test` runs their tests under the sanitizers, the
# others' without; `./test full` runs all of them both ways.
set(TWINPOD_LOW_MODULES core spec data comm)

# Those that read and write text, and those that fit: nobody waits for them, so they need not be fast and build in three
# quarters of the time.
set(TWINPOD_TEXT_MODULES spec validate emit report cli)

# Those whose files are compiled several at a time, because the headers that they share (json.hpp above all) take longer than
# the rest: they build in little more than half of the time. So names in the unnamed namespaces of a module's files differ.
# Only here: clang-tidy asks the asan build how a file is compiled.
if(TWINPOD_SHORTCUTS AND CMAKE_BUILD_TYPE STREQUAL "Release")
  set(TWINPOD_BATCHED_MODULES report cli)
  set(TWINPOD_ALONE "_svg|/scatter")  # pictures: they read little, and each has a kWidth and a kTop of its own
endif()

# The tests' own code need not be fast either, and builds in half of the time.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(TWINPOD_TEXT_OPTIONS -O1)
  set(TWINPOD_TEST_OPTIONS -O0)
endif()

include(GoogleTest)

# precompiled(NAME OPTIONS -O1 HEADERS <gtest/gtest.h> LINKS GTest::gtest): the common headers and those, for the targets
# that have these options and reuse_precompiled(TARGET NAME).
function(precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;HEADERS;LINKS")
  if(TWINPOD_SHORTCUTS)
    set(source ${CMAKE_BINARY_DIR}/precompiled.cpp)
    if(NOT EXISTS ${source})
      file(WRITE ${source} "")
    endif()
    add_library(precompiled_${name} OBJECT ${source})
    target_compile_options(precompiled_${name} PRIVATE ${arg_OPTIONS})
    target_link_libraries(precompiled_${name} PRIVATE fmt::fmt twinpod_flags ${arg_LINKS})
    target_precompile_headers(precompiled_${name} PRIVATE ${TWINPOD_COMMON_HEADERS} ${arg_HEADERS})
  endif()
endfunction()

function(reuse_precompiled target name)
  if(TWINPOD_SHORTCUTS)
    target_precompile_headers(${target} REUSE_FROM precompiled_${name})
  endif()
endfunction()

precompiled(code)
if(TWINPOD_TEXT_OPTIONS)
  precompiled(text OPTIONS ${TWINPOD_TEXT_OPTIONS})
endif()
precompiled(tests OPTIONS ${TWINPOD_TEST_OPTIONS} HEADERS <gtest/gtest.h> LINKS GTest::gtest)

# batched(NAME TESTS out): files that hold the module's tests, eight in each at most, so that the headers are read once for
# all of them: the tests build in little more than half of the time. There, each test file's namespace is one of its own, and its
# names need not differ from the others'. A file that declares more than its own, unnamed namespace stays by itself.
function(batched name tests out)
  if(NOT TWINPOD_SHORTCUTS)
    set(${out} ${tests} PARENT_SCOPE)
    return()
  endif()
  set(alone)
  foreach(file IN LISTS tests)
    file(READ ${file} text)
    if(NOT text MATCHES "^.*\nnamespace twinpod[a-z:]* {\nnamespace {\n.*\n}  // namespace\n}  // namespace twinpod[a-z:]*\n$"
       OR text MATCHES "\nnamespace {\n.*\nnamespace {\n")
      list(APPEND alone ${file})
    endif()
  endforeach()
  list(REMOVE_ITEM tests ${alone})
  list(LENGTH tests count)
  math(EXPR num_batches "(${count} + 7) / 8")
  set(files ${alone})
  set(first 0)
  while(first LESS count)
    math(EXPR size "(${count} + ${num_batches} - 1) / ${num_batches}")
    list(SUBLIST tests ${first} ${size} batch)
    set(file ${CMAKE_BINARY_DIR}/src/${name}/tests_from_${first}.cpp)
    write_batch(${file} ${batch})
    list(APPEND files ${file})
    math(EXPR first "${first} + ${size}")
  endwhile()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

function(write_batch file)
  set(text)
  set(place 0)
  foreach(source IN LISTS ARGN)
    file(READ ${source} part)
    math(EXPR place "${place} + 1")
    string(REGEX REPLACE "\nnamespace (twinpod[a-z:]*) {\n" "\nnamespace \\1::file_${place} {\n" part "${part}")
    string(APPEND text "#line 1 \"${source}\"\n${part}")
  endforeach()
  set(old)
  if(EXISTS ${file})
    file(READ ${file} old)
  endif()
  if(NOT old STREQUAL text)  # what did not change is not compiled again
    file(WRITE ${file} "${text}")
  endif()
endfunction()

# batch_code(NAME FILE...): neighbours together, seven in each batch at most, whatever is in them: an edit moves no file to
# another batch.
function(batch_code name)
  list(FILTER ARGN EXCLUDE REGEX "${TWINPOD_ALONE}")
  list(LENGTH ARGN count)
  math(EXPR num_batches "(${count} + 6) / 7")
  set(place 0)
  foreach(file IN LISTS ARGN)
    math(EXPR batch "${place} * ${num_batches} / ${count}")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${name}_${batch})
    math(EXPR place "${place} + 1")
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Configure again when a folder appears.
file(GLOB unused CONFIGURE_DEPENDS LIST_DIRECTORIES true ${CMAKE_SOURCE_DIR}/src/*)

function(check_uses name uses)
  list(FIND TWINPOD_MODULES ${name} own_place)
  if(own_place EQUAL -1)
    message(FATAL_ERROR "layering: ${name} is not in the list of modules (cmake/modules.cmake)")
  endif()
  foreach(used IN LISTS uses)
    list(FIND TWINPOD_MODULES ${used} place)
    if(place EQUAL -1 OR place GREATER_EQUAL own_place)
      message(FATAL_ERROR "layering: ${name} may not use ${used}")
    endif()
  endforeach()
endfunction()

# REQUIRES: allowed holds the module itself and its USES; links its LINKS.
function(check_includes file name allowed links)
  file(STRINGS ${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*).*$" "\\1" path "${line}")
    string(REGEX REPLACE "/.*$" "" folder "${path}")
    if(folder IN_LIST TWINPOD_MODULES AND NOT folder IN_LIST allowed)
      message(FATAL_ERROR "layering: ${name} may not use ${folder} (${file} includes ${path})")
    endif()
    check_guarded(${file} ${name} "${path}" "${links}")
  endforeach()
endfunction()

function(check_guarded file name path links)
  foreach(guard IN LISTS TWINPOD_GUARDED_HEADERS)
    string(REPLACE "=" ";" guard "${guard}")
    list(POP_FRONT guard prefix target)
    string(FIND "${path}" "${prefix}" place)
    if(place EQUAL 0 AND NOT target IN_LIST links)
      message(FATAL_ERROR "layering: ${name} may not use ${path} (${file} includes it; the module does not link ${target})")
    endif()
  endforeach()
endfunction()

function(add_module_library name uses links)
  if(ARGN)
    add_library(${name} STATIC ${ARGN})
    set(public PUBLIC)
    set(private PRIVATE)
  else()
    add_library(${name} INTERFACE)
    set(public INTERFACE)
    set(private INTERFACE)
  endif()
  target_include_directories(${name} ${public} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} ${public} fmt::fmt ${private} twinpod_flags ${links})
  if(ARGN AND TWINPOD_TEXT_OPTIONS AND name IN_LIST TWINPOD_TEXT_MODULES)
    target_compile_options(${name} PRIVATE ${TWINPOD_TEXT_OPTIONS})
    reuse_precompiled(${name} text)
  elseif(ARGN)
    reuse_precompiled(${name} code)
  endif()
  if(name IN_LIST TWINPOD_BATCHED_MODULES)
    batch_code(${name} ${ARGN})
  endif()
  foreach(used IN LISTS uses)
    if(TARGET ${used})
      target_link_libraries(${name} ${public} ${used})
    endif()
  endforeach()
endfunction()

function(module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;LINKS")
  check_uses(${name} "${arg_USES}")
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.hpp)
  list(FILTER files EXCLUDE REGEX "_plugin\\.cpp$")
  if(NOT files)
    return()
  endif()
  # Editing an include is enough to be checked again.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  foreach(file IN LISTS files)
    check_includes(${file} ${name} "${name};${arg_USES}" "${arg_LINKS}")
  endforeach()

  foreach(kind test bench fuzz)
    set(${kind}s ${files})
    list(FILTER ${kind}s INCLUDE REGEX "_${kind}\\.cpp$")
    if(kind STREQUAL "test")
      batched(${name} "${tests}" tests)
    endif()
    set_property(GLOBAL APPEND PROPERTY twinpod_${kind}s ${${kind}s})
  endforeach()
  set(sources ${files})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$|/cli/main\\.cpp$")
  add_module_library(${name} "${arg_USES}" "${arg_LINKS}" ${sources})
  set_property(GLOBAL APPEND PROPERTY twinpod_modules ${name})
  if(fuzzs)
    set_property(GLOBAL APPEND PROPERTY twinpod_fuzzed ${name} ${arg_USES})
  endif()
endfunction()

# Files *_avx2.cpp and so on are compiled for processors that have more than all have; which of them runs is decided then.
function(instructions name)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*_${name}.cpp)
    # gcc 12 warns of its own headers: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105593
    set(options ${ARGN} "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>")
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# Lies beside the program, which loads it by name. It may use headers of modules, not their libraries.
function(plugin name file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LINKS")
  add_library(${name} MODULE ${file})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE twinpod_flags ${arg_LINKS})
  add_dependencies(twinpod ${name})
endfunction()

# A program with another library, beside ours. It is not judged by our flags, and built with the program.
function(bench_peer name file)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${file})
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE ${ARGN})
    add_dependencies(twinpod ${name})
  endif()
endfunction()

# src/plan/search_bench.cpp is of plan.
function(module_of file out)
  file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/src ${file})
  string(REGEX REPLACE "/.*" "" name ${name})
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# src/plan/search_bench.cpp becomes bench/plan_search_bench; the target `bench` builds all of them,
# `bench_low` those of the low modules.
function(add_single_file_programs files folder)
  add_custom_target(${folder})
  add_custom_target(${folder}_low)
  foreach(file IN LISTS files)
    file(RELATIVE_PATH target ${CMAKE_SOURCE_DIR}/src ${file})
    string(REGEX REPLACE "\\.cpp$" "" target "${target}")
    string(REPLACE "/" "_" target "${target}")
    module_of(${file} own)
    add_executable(${target} ${file})
    target_link_libraries(${target} PRIVATE twinpod_flags ${own} ${ARGN})
    add_dependencies(${folder} ${target})
    if(own IN_LIST TWINPOD_LOW_MODULES)
      add_dependencies(${folder}_low ${target})
    endif()
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  endforeach()
endfunction()

# Coverage feedback for libFuzzer from the modules that its targets run. Others, and the tests, run and build faster without.
# The option is what -fsanitize=fuzzer-no-link stands for; it leaves the precompiled headers valid.
function(give_coverage modules)
  list(REMOVE_DUPLICATES modules)
  foreach(name IN LISTS modules)
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_compile_options(${name} PRIVATE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
    endif()
  endforeach()
endfunction()

# The objects of the modules come before those of the tests: where both have a copy of a template, the linker takes the
# first, which is the one that the program has. The tests' own are not optimized: with them, all tests took a third longer.
function(add_test_program name modules)
  set(objects)
  foreach(module IN LISTS modules)
    get_target_property(type ${module} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:${module}>)
    endif()
  endforeach()
  foreach(half IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:tests_${half}>)
  endforeach()
  add_executable(${name} ${objects})
  target_link_libraries(${name} PRIVATE ${modules} twinpod_flags nlohmann_json::nlohmann_json GTest::gtest_main)
endfunction()

# twinpod_tests has the tests of all modules; twinpod_tests_low and twinpod_tests_high those of two halves, each with the
# libraries that it needs and no others.
function(add_tests tests modules)
  list(JOIN TWINPOD_LOW_MODULES "|" low_names)
  foreach(half low high)
    set(files ${tests})
    set(libraries ${modules})
    if(half STREQUAL "low")
      list(FILTER files INCLUDE REGEX "/src/(${low_names})/")
      list(FILTER libraries INCLUDE REGEX "^(${low_names})$")
    else()
      list(FILTER files EXCLUDE REGEX "/src/(${low_names})/")
    endif()
    add_library(tests_${half} OBJECT ${files})
    target_link_libraries(tests_${half} PRIVATE ${libraries} twinpod_flags nlohmann_json::nlohmann_json GTest::gtest_main)
    target_compile_options(tests_${half} PRIVATE ${TWINPOD_TEST_OPTIONS})
    reuse_precompiled(tests_${half} tests)
    add_test_program(twinpod_tests_${half} "${libraries}" ${half})
  endforeach()
  add_test_program(twinpod_tests "${modules}" low high)
endfunction()

function(finish_modules)
  foreach(kind modules tests benchs fuzzs fuzzed)
    get_property(${kind} GLOBAL PROPERTY twinpod_${kind})
  endforeach()
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/main.cpp)
    add_executable(twinpod ${CMAKE_SOURCE_DIR}/src/cli/main.cpp)
    target_link_libraries(twinpod PRIVATE twinpod_flags cli)
  endif()
  if(tests)
    enable_testing()
    add_tests("${tests}" "${modules}")
    gtest_discover_tests(twinpod_tests DISCOVERY_MODE PRE_TEST)
  endif()
  add_single_file_programs("${benchs}" bench benchmark::benchmark_main)
  if(TWINPOD_FUZZ)
    give_coverage("${fuzzed}")
    add_single_file_programs("${fuzzs}" fuzz -fsanitize=fuzzer)
  endif()
endfunction()
