stint_test(NAME stintd_test SOURCES stintd_test.cc LIBS stint_process stint_proto gRPC::grpc++ LABELS e2e)
if(TARGET stintd_test)
  add_dependencies(stintd_test stintd)
endif()
