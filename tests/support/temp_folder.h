// A folder that exists as long as the object and is then removed with all that is in it; files
// read and written whole.
// Threads: one.
#ifndef STINT_TESTS_SUPPORT_TEMP_FOLDER_H_
#define STINT_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace stint::test {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "stint-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) {
      std::perror("mkdtemp");
      std::abort();
    }
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The bytes of a file; empty when it cannot be read.
inline std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace stint::test

#endif  // STINT_TESTS_SUPPORT_TEMP_FOLDER_H_
