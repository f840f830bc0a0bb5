# The rules of engine, runtime and storage, and the field cases, on the harness.
stint_test(NAME loop_rounds_test SOURCES loop_rounds_test.cc LIBS stint_harness LABELS tsan)
