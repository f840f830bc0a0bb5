stint_test(NAME keys_test SOURCES keys_test.cc LIBS stint_storage LABELS tsan)
stint_test(NAME log_scanner_test SOURCES log_scanner_test.cc LIBS stint_storage LABELS tsan)
stint_test(NAME rocks_store_test SOURCES rocks_store_test.cc LIBS stint_rocks)
