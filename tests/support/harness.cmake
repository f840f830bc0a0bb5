add_library(stint_harness STATIC broker_harness.cc)
target_link_libraries(stint_harness PUBLIC stint_flags stint_runtime GTest::gtest)
