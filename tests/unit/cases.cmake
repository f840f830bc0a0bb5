# The rules of engine, runtime and storage, and the field cases, on the harness.
stint_test(NAME loop_rounds_test SOURCES loop_rounds_test.cc LIBS stint_harness LABELS tsan)
stint_test(NAME engine_purge_test SOURCES engine_purge_test.cc LIBS stint_harness LABELS tsan)
stint_test(NAME lease_table_test SOURCES lease_table_test.cc LIBS stint_engine LABELS tsan)
stint_test(NAME engine_retention_test SOURCES engine_retention_test.cc LIBS stint_harness LABELS tsan)
