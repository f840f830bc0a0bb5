# The image is built from sources, whatever the preset; the costs let it begin first, beside the
# many tests that mostly wait.
stint_script_test(NAME container_image COMMAND /usr/bin/python3 -B ./containers.py LABELS e2e source
                                                                                          slow
                  TIMEOUT 3600)
stint_script_test(NAME container_test COMMAND /usr/bin/python3 -B ./container_test.py LABELS e2e
                                                                                        source slow
                  TIMEOUT 600)
if(TEST container_image)
  set_tests_properties(container_image PROPERTIES COST 1000 FIXTURES_SETUP container_image)
  set_tests_properties(container_test PROPERTIES FIXTURES_REQUIRED container_image)
endif()
