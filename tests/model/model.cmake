stint_test(NAME engine_model_test SOURCES engine_model_test.cc naive_broker.cc LIBS stint_harness
           LABELS tsan TIMEOUT 120)
