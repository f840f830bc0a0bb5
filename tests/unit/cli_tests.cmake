# Tests of single commands of the command line.
stint_test(NAME cli_watch_test SOURCES cli_watch_test.cc LIBS stint_cli stint_fake_broker)
stint_test(NAME cli_tail_test SOURCES cli_tail_test.cc LIBS stint_cli stint_api stint_runtime
           stint_fake_broker)
stint_test(NAME cli_bench_test SOURCES cli_bench_test.cc LIBS stint_cli stint_api stint_runtime
           stint_fake_broker)
stint_test(NAME cli_queue_file_test SOURCES cli_queue_file_test.cc LIBS stint_cli stint_api
           stint_runtime)
stint_test(NAME cli_golden_test SOURCES cli_golden_test.cc LIBS stint_cli stint_fake_broker)
stint_test(NAME cli_completion_test SOURCES cli_completion_test.cc LIBS stint_cli
           stint_fake_broker)
stint_test(NAME cli_examples_test TIMEOUT 120 SOURCES cli_examples_test.cc LIBS stint_cli
           stint_api stint_runtime)
foreach(name cli_completion_test cli_examples_test)
  if(TARGET ${name})
    target_compile_definitions(${name} PRIVATE STINT_FOLDER="$<TARGET_FILE_DIR:stint>")
    add_dependencies(${name} stint)
  endif()
endforeach()
# GCC 12 sees a null pointer in CLI11's own split() when that is all it has to inline.
set_source_files_properties(cli_examples_test.cc PROPERTIES COMPILE_OPTIONS -Wno-null-dereference)
