// A program run by a test: started with arguments and variables of its own, its standard
// error read line by line, ended at the latest with the object.
// Threads: one.
#ifndef STINT_TESTS_SUPPORT_PROCESS_H_
#define STINT_TESTS_SUPPORT_PROCESS_H_

#include <csignal>
#include <string>
#include <vector>

namespace stint::testing {

class Process {
 public:
  // `binary` is a name in the folder STINT_BIN. No variable of the test's own whose name begins
  // with STINT_ is passed on; `variables` are "NAME=value".
  Process(const std::string& binary, const std::vector<std::string>& arguments,
          const std::vector<std::string>& variables = {});
  // Kills what still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line of standard error that contains `text`; "" when the program has closed it
  // before.
  std::string WaitForLine(const std::string& text);
  void Signal(int signal);
  // Reads the rest of standard error and waits for the end: the exit code, or −signal.
  int WaitForExit();
  // Everything read so far.
  const std::string& output() const { return output_; }
  int pid() const { return pid_; }

 private:
  // False: closed.
  bool ReadMore();

  int pid_ = -1;
  int error_ = -1;
  std::string output_;
  size_t looked_at_ = 0;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_PROCESS_H_
