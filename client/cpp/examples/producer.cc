// Puts one job into the queue `greetings` and waits for its result.
//
//   example_producer [NAME]
//
// Start example_worker beside it. The broker is found as every tool of Stint finds it:
// STINT_ADDRESS and the other variables, or 127.0.0.1:7150.
#include <iostream>

#include "client/cpp/client.h"
#include "client/cpp/status.h"

namespace client = stint::client;

int main(int argc, char** argv) {
  auto connection = client::Connection::Open(client::ConnectionOptions::FromEnvironment());
  if (!connection.ok()) {
    std::cerr << connection.status().message() << "\n";
    return 2;
  }
  client::Client producer(*connection);

  stint::v1::EnqueueJobRequest request;
  request.set_queue("greetings");
  request.mutable_job()->set_kind("greet");
  request.mutable_job()->set_payload(argc > 1 ? argv[1] : "world");
  auto enqueued = producer.EnqueueJob(request);
  if (!enqueued.ok()) {
    std::cerr << "not enqueued: " << enqueued.status().message() << "\n";
    for (const client::FieldViolation& violation : client::FieldViolations(enqueued.status())) {
      std::cerr << "  " << violation.field << ": " << violation.description << "\n";
    }
    return 1;
  }
  std::cout << "enqueued " << enqueued->job() << "\n";

  auto job = producer.AwaitJob(enqueued->job(), absl::Minutes(1));
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 1;
  }
  std::cout << stint::v1::JobState_Name(job->state()) << ": " << job->result() << "\n";
  return job->state() == stint::v1::JOB_STATE_COMPLETED ? 0 : 1;
}
