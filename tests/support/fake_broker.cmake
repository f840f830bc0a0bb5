add_library(stint_fake_broker STATIC EXCLUDE_FROM_ALL fake_broker.cc fake_broker_core.cc
                                     fake_broker_jobs.cc fake_broker_services.cc)
target_link_libraries(stint_fake_broker PUBLIC stint_flags stint_proto absl::status absl::strings
                                               absl::time gRPC::grpc++)
