# Tests of the C++ client and of the command line, against a broker that runs in the test.
stint_test(NAME client_worker_test SOURCES client_worker_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_lease_test SOURCES client_lease_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_stop_test SOURCES client_stop_test.cc LIBS stint_client
           stint_fake_broker)
stint_test(NAME client_status_test SOURCES client_status_test.cc LIBS stint_client)
stint_test(NAME client_client_test SOURCES client_client_test.cc LIBS stint_client
           stint_fake_broker OpenSSL::Crypto)
stint_test(NAME cli_arguments_test SOURCES cli_arguments_test.cc LIBS stint_cli)
stint_test(NAME cli_child_process_test SOURCES cli_child_process_test.cc LIBS stint_cli)
stint_test(NAME cli_batch_test SOURCES cli_batch_test.cc LIBS stint_cli stint_fake_broker)
stint_test(NAME cli_commands_test SOURCES cli_commands_test.cc LIBS stint_cli stint_fake_broker)
stint_test(NAME cli_help_test SOURCES cli_help_test.cc LIBS stint_cli stint_fake_broker)
stint_test(NAME cli_work_test SOURCES cli_work_test.cc LIBS stint_cli stint_fake_broker)
if(TARGET cli_work_test)
  target_compile_definitions(cli_work_test PRIVATE STINT_BINARY="$<TARGET_FILE:stint>")
  add_dependencies(cli_work_test stint)
endif()
stint_test(NAME client_stream_test SOURCES client_stream_test.cc LIBS stint_client stint_api
           stint_runtime stint_fake_broker)
