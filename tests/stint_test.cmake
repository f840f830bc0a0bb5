# How tests are declared. One CTest entry per test program: `ctest -R NAME` runs a program,
# `build/dev/tests/NAME --gtest_filter=...` runs one case of it.
#
# stint_test(NAME n SOURCES f... [LIBS t...] [LABELS l...] [TIMEOUT seconds])
#   A GoogleTest program, linked with GTest::gmock_main and run from the source root, so that data
#   is opened as "tests/golden/...". TIMEOUT is 60 s unless given, and ten times as long under a
#   sanitizer. The label `tsan` says that the program needs neither gRPC nor anything that links
#   it; only these exist in the preset tsan, since the packaged gRPC cannot be checked there.
#
# stint_script_test(NAME n COMMAND c... [LABELS l...] [TIMEOUT seconds])
#   A command judged by its exit code. It finds the binaries in $STINT_BIN (a folder) and the
#   sources in $STINT_SOURCE. A script named *_test.sh or *_test.py must be one of the words of c.
#   The label `source` says that it judges sources, so that sanitizers have nothing to add.
#
# stint_fuzzer(NAME n SOURCES f... CORPUS folder [LIBS t...])
#   A program with LLVMFuzzerTestOneInput. The preset fuzz links libFuzzer and fuzzes for 20 s;
#   every other preset replays the corpus, so that an input that once failed stays tested.
#
# A file named *_test.cc, *_test.sh or *_test.py that no call names is a configure error.

set_property(GLOBAL PROPERTY STINT_DECLARED_TESTS "")
add_custom_target(stint_tests)
add_custom_target(stint_fuzzers)

function(stint_declare)
  foreach(word IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH word BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE
               OUTPUT_VARIABLE path)
    set_property(GLOBAL APPEND PROPERTY STINT_DECLARED_TESTS ${path})
  endforeach()
endfunction()

function(stint_test_properties NAME LABELS TIMEOUT)
  if(NOT TIMEOUT)
    set(TIMEOUT 60)
  endif()
  if(STINT_SANITIZE)
    math(EXPR TIMEOUT "${TIMEOUT} * 10")
  endif()
  set(environment "STINT_BIN=${CMAKE_BINARY_DIR}/bin" "STINT_SOURCE=${CMAKE_SOURCE_DIR}")
  if(STINT_SANITIZE STREQUAL "thread")
    list(APPEND environment
         "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:halt_on_error=1")
  elseif(STINT_SANITIZE STREQUAL "address")
    list(APPEND environment "UBSAN_OPTIONS=print_stacktrace=1")
  endif()
  set_tests_properties(
    ${NAME} PROPERTIES LABELS "${LABELS}" TIMEOUT ${TIMEOUT} ENVIRONMENT "${environment}")
endfunction()

function(stint_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  stint_declare(${T_SOURCES})
  if(STINT_SANITIZE STREQUAL "thread" AND NOT "tsan" IN_LIST T_LABELS)
    return()
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${T_NAME} PRIVATE stint_flags ${T_LIBS} GTest::gmock GTest::gmock_main)
  add_dependencies(stint_tests ${T_NAME})
  add_test(NAME ${T_NAME} COMMAND ${T_NAME} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  stint_test_properties(${T_NAME} "${T_LABELS}" "${T_TIMEOUT}")
  # A program whose filter or build left no case in it would pass for nothing.
  set_tests_properties(${T_NAME} PROPERTIES FAIL_REGULAR_EXPRESSION
                                            " 0 tests from 0 test suites ran")
endfunction()

function(stint_script_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
  stint_declare(${T_COMMAND})
  if(STINT_SANITIZE STREQUAL "thread" OR (STINT_SANITIZE AND "source" IN_LIST T_LABELS))
    return()
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  stint_test_properties(${T_NAME} "${T_LABELS}" "${T_TIMEOUT}")
endfunction()

function(stint_fuzzer)
  cmake_parse_arguments(T "" "NAME;CORPUS" "SOURCES;LIBS" ${ARGN})
  if(STINT_SANITIZE STREQUAL "thread")
    return()
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${T_NAME} PRIVATE stint_flags ${T_LIBS})
  add_dependencies(stint_fuzzers ${T_NAME})
  cmake_path(ABSOLUTE_PATH T_CORPUS BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  if(STINT_FUZZ)
    target_link_options(${T_NAME} PRIVATE -fsanitize=fuzzer)
    # New inputs go to the build folder; an input that fails is written there as well.
    set(found ${CMAKE_BINARY_DIR}/fuzz/${T_NAME}/)
    file(MAKE_DIRECTORY ${found})
    add_test(NAME ${T_NAME} COMMAND ${T_NAME} -max_total_time=20 -timeout=5 -rss_limit_mb=2048
                                    -artifact_prefix=${found} ${found} ${T_CORPUS})
  else()
    target_sources(${T_NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_dependencies(stint_tests ${T_NAME})
    add_test(NAME ${T_NAME} COMMAND ${T_NAME} ${T_CORPUS})
  endif()
  stint_test_properties(${T_NAME} "fuzz" 120)
endfunction()

# Includes every fragment (*.cmake) of the folder, so that each area keeps its own list.
macro(stint_include_fragments)
  file(GLOB fragments CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cmake)
  foreach(fragment IN LISTS fragments)
    include(${fragment})
  endforeach()
endmacro()

function(stint_check_every_test_is_declared)
  get_property(declared GLOBAL PROPERTY STINT_DECLARED_TESTS)
  set(patterns "")
  foreach(folder tests storage server client bench proto)
    foreach(ending cc sh py)
      list(APPEND patterns ${CMAKE_SOURCE_DIR}/${folder}/*_test.${ending})
    endforeach()
  endforeach()
  file(GLOB_RECURSE present CONFIGURE_DEPENDS ${patterns})
  list(REMOVE_ITEM present ${declared})
  if(present)
    list(JOIN present "\n  " lines)
    message(FATAL_ERROR "Test files that no stint_test() or stint_script_test() names; "
                        "add each to the fragment of its folder:\n  ${lines}")
  endif()
endfunction()
