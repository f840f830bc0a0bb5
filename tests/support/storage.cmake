# The process that rocks_kill_test kills.
if(NOT STINT_SANITIZE STREQUAL "thread")
  add_executable(store_writer store_writer.cc)
  set_target_properties(store_writer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(store_writer PRIVATE stint_rocks)
endif()
