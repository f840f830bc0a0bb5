stint_test(NAME engine_life_test SOURCES engine_life_test.cc LIBS stint_harness LABELS tsan)
stint_test(NAME loop_stall_test SOURCES loop_stall_test.cc LIBS stint_harness LABELS tsan)
stint_test(NAME engine_run_limit_test SOURCES engine_run_limit_test.cc LIBS stint_harness LABELS tsan)
stint_test(NAME broker_threads_test SOURCES broker_threads_test.cc LIBS stint_harness stint_rocks
           stint_watch LABELS tsan)
