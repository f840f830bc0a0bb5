add_library(
  stint_sim STATIC
  auditor.cc
  auditor_jobs.cc
  auditor_queues.cc
  auditor_sessions.cc
  auditor_stable.cc
  callers.cc
  describe.cc
  faulty_store.cc
  job_model.cc
  profile.cc
  queue_model.cc
  simulator.cc
  streamers.cc)
target_link_libraries(stint_sim PUBLIC stint_harness stint_api stint_storage)
add_executable(sim_run sim_run.cc)
set_target_properties(sim_run PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(sim_run PRIVATE stint_sim)
stint_test(NAME sim_test SOURCES sim_test.cc LIBS stint_sim TIMEOUT 300)
