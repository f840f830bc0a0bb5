stint_test(NAME engine_life_test SOURCES engine_life_test.cc LIBS stint_harness LABELS tsan)
