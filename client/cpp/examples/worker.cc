// Works on the queue `greetings` until it is told to stop (Ctrl-C).
//
//   example_worker
#include "client/cpp/worker.h"

#include <csignal>
#include <iostream>
#include <map>

namespace client = stint::client;

int main() {
  // Blocked before any thread starts, so that the signal waits for sigwait below.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  auto connection = client::Connection::Open(client::ConnectionOptions::FromEnvironment());
  if (!connection.ok()) {
    std::cerr << connection.status().message() << "\n";
    return 2;
  }

  client::WorkerOptions options;
  options.queues = {"greetings"};
  options.concurrency = 4;
  const std::map<std::string, client::Handler> handlers = {
      {"greet",
       [](client::JobContext& job) {
         if (job.payload().empty()) return client::Result::Fail("nobody to greet").NoRetry();
         return client::Result::Complete("hello " + job.payload());
       }},
  };
  client::Worker worker(*connection, options, handlers);
  const absl::Status started = worker.Start();
  if (!started.ok()) {
    std::cerr << started.message() << "\n";
    return 2;
  }
  std::cout << "working as " << worker.worker_id() << "\n";

  int signal = 0;
  sigwait(&signals, &signal);
  const client::StopReport report = worker.Stop(absl::Seconds(30));
  std::cout << worker.stats().completed << " jobs completed\n";
  return report.unsettled == 0 ? 0 : 1;
}
