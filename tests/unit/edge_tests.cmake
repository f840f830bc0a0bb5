stint_test(NAME config_test SOURCES config_test.cc LIBS stint_config)
stint_test(NAME log_test SOURCES log_test.cc LIBS stint_ops)
stint_test(NAME edge_names_test SOURCES edge_names_test.cc LIBS stint_api)
stint_test(NAME edge_errors_test SOURCES edge_errors_test.cc LIBS stint_api)
stint_test(NAME edge_requests_test SOURCES edge_requests_test.cc LIBS stint_api)
stint_test(NAME edge_access_test SOURCES edge_access_test.cc LIBS stint_api)
stint_test(NAME edge_scripted_test SOURCES edge_scripted_test.cc LIBS stint_api)
stint_test(NAME job_batch_test SOURCES job_batch_test.cc LIBS stint_api stint_harness)
stint_test(NAME edge_services_test SOURCES edge_services_test.cc LIBS stint_api stint_harness)
stint_test(NAME edge_grpc_test SOURCES edge_grpc_test.cc LIBS stint_api stint_grpc_proto
           gRPC::grpc++)
stint_test(NAME edge_grpc_access_test SOURCES edge_grpc_access_test.cc LIBS stint_api
           stint_grpc_proto gRPC::grpc++ OpenSSL::Crypto)
