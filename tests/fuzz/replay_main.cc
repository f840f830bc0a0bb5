// Runs a fuzzer's entry point once over every file of the folders given, so that builds without
// libFuzzer test the corpus too. An empty corpus is an error: it would test nothing.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  int inputs = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::ostringstream bytes;
      bytes << file.rdbuf();
      const std::string input = bytes.str();
      std::cout << entry.path().string() << std::endl;  // flushed: names the input that crashes
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
      ++inputs;
    }
  }
  std::cout << inputs << " inputs replayed" << std::endl;
  return inputs > 0 ? 0 : 1;
}
