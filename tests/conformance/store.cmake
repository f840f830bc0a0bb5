stint_test(NAME store_conformance_test SOURCES store_conformance_test.cc LIBS stint_rocks
           LABELS tsan TIMEOUT 180)
