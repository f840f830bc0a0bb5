stint_test(NAME keys_test SOURCES keys_test.cc LIBS stint_storage LABELS tsan)
