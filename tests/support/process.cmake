add_library(stint_process STATIC process.cc)
target_link_libraries(stint_process PUBLIC stint_flags)
