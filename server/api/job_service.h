// JobService without gRPC: validate, convert, submit, answer. Reads go past the engine to the
// store's stable view; only the progress of a leased job, which is nowhere but in the engine's
// memory, is asked for there. Thread-safe.
#ifndef STINT_SERVER_API_JOB_SERVICE_H_
#define STINT_SERVER_API_JOB_SERVICE_H_

#include "server/api/edge.h"
#include "server/api/exchange.h"
#include "stint/v1/job_service.pb.h"

namespace stint::api {

class JobService {
 public:
  explicit JobService(Edge* edge) : edge_(edge) {}

  void EnqueueJob(v1::EnqueueJobRequest request, ExchangePtr exchange);
  void BatchEnqueueJobs(v1::BatchEnqueueJobsRequest request, ExchangePtr exchange);
  void GetJob(v1::GetJobRequest request, ExchangePtr exchange);
  void ListJobs(v1::ListJobsRequest request, ExchangePtr exchange);
  void WaitJob(v1::WaitJobRequest request, ExchangePtr exchange);
  void CancelJob(v1::CancelJobRequest request, ExchangePtr exchange);
  void RedriveJob(v1::RedriveJobRequest request, ExchangePtr exchange);
  void DeleteJob(v1::DeleteJobRequest request, ExchangePtr exchange);
  void UpdateJob(v1::UpdateJobRequest request, ExchangePtr exchange);
  void BatchCancelJobs(v1::BatchCancelJobsRequest request, ExchangePtr exchange);
  void BatchRedriveJobs(v1::BatchRedriveJobsRequest request, ExchangePtr exchange);
  void BatchDeleteJobs(v1::BatchDeleteJobsRequest request, ExchangePtr exchange);

 private:
  template <typename Response, typename Request>
  void ChangeJobs(const Request& request, ExchangePtr exchange);

  Edge* const edge_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_JOB_SERVICE_H_
