# Tests of the real stintd and stint. They are Python with the system's gRPC, which the first
# python3 on the path need not have.
function(stint_e2e_test NAME)
  stint_script_test(NAME ${NAME} COMMAND /usr/bin/python3 -B ./${NAME}.py LABELS e2e ${ARGN})
endfunction()

stint_e2e_test(bad_input_test TIMEOUT 300)
if(STINT_SANITIZE)
  stint_declare(cost_test.py) # sanitizers have costs of their own
else()
  stint_e2e_test(cost_test TIMEOUT 600)
endif()
stint_e2e_test(disk_test TIMEOUT 600)
stint_e2e_test(freeze_test TIMEOUT 600)
stint_e2e_test(kill_test TIMEOUT 600)
stint_e2e_test(misuse_test TIMEOUT 300)
stint_e2e_test(plain_stub_test TIMEOUT 300)
stint_e2e_test(power_test TIMEOUT 600)
stint_e2e_test(reconnect_test TIMEOUT 600)
stint_e2e_test(settings_test TIMEOUT 300)
stint_e2e_test(start_test TIMEOUT 600)
stint_e2e_test(stream_test TIMEOUT 600)
stint_e2e_test(worker_loss_test TIMEOUT 600)
