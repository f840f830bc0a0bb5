# Tests of the C++ client and of the command line, against a broker that runs in the test.
stint_test(NAME client_worker_test SOURCES client_worker_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_lease_test SOURCES client_lease_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_stop_test SOURCES client_stop_test.cc LIBS stint_client
           stint_fake_broker)
