# What operators see: metrics, health, HTTP.
stint_test(NAME loop_metrics_test SOURCES loop_metrics_test.cc LIBS stint_harness LABELS tsan)
stint_test(NAME ops_metrics_test SOURCES ops_metrics_test.cc LIBS stint_harness stint_watch LABELS tsan)
stint_test(NAME http_endpoint_test SOURCES http_endpoint_test.cc LIBS stint_watch LABELS tsan)
