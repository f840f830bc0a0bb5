# A load tool for tests/e2e: many sessions in one process.
add_executable(stream_crowd stream_crowd.cc)
target_link_libraries(stream_crowd PRIVATE stint_client absl::strings)
