add_library(
  stint_sim STATIC
  auditor.cc
  auditor_jobs.cc
  auditor_order.cc
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

# The same, with the files that have deliberate faults in place of the originals: the linker takes
# objects before members of libraries.
execute_process(COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/faults.py --files
                OUTPUT_VARIABLE fault_files OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" fault_files "${fault_files}")
set(fault_folder ${CMAKE_CURRENT_BINARY_DIR}/faults)
set(fault_sources ${fault_folder}/faults.cc)
set(fault_originals)
foreach(file IN LISTS fault_files)
  string(REPLACE "/" "_" copy ${file})
  list(APPEND fault_sources ${fault_folder}/${copy})
  list(APPEND fault_originals ${CMAKE_SOURCE_DIR}/${file})
endforeach()
add_custom_command(
  OUTPUT ${fault_sources}
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/faults.py ${CMAKE_SOURCE_DIR} ${fault_folder}
  DEPENDS faults.py ${fault_originals})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS faults.py)
add_library(stint_sim_faults OBJECT ${fault_sources})
target_link_libraries(stint_sim_faults PUBLIC stint_sim)
stint_test(NAME sim_faults_test SOURCES sim_faults_test.cc LIBS stint_sim_faults stint_sim TIMEOUT 300)
