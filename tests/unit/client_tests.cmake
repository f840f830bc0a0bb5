# Tests of the C++ client and of the command line, against a broker that runs in the test.
add_library(stint_fake_broker STATIC ${CMAKE_CURRENT_LIST_DIR}/../support/fake_broker.cc)
target_link_libraries(stint_fake_broker PUBLIC stint_flags stint_proto absl::status absl::strings
                                               absl::time gRPC::grpc++)

stint_test(NAME client_worker_test SOURCES client_worker_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_lease_test SOURCES client_lease_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_stop_test SOURCES client_stop_test.cc LIBS stint_client
           stint_fake_broker)
