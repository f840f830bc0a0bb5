#include "server/api/grpc_services.h"

#include <utility>

#include "server/api/admin_service.h"
#include "server/api/grpc_call.h"
#include "server/api/grpc_worker_stream.h"
#include "server/api/job_service.h"
#include "server/api/queue_service.h"
#include "server/api/worker_service.h"
#include "stint/v1/admin_service.grpc.pb.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "stint/v1/queue_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"

namespace stint::api {
namespace {

using Context = grpc::CallbackServerContext;
using Bytes = grpc::ByteBuffer;
using Reactor = grpc::ServerUnaryReactor;

// `Base` with each of its methods served from bytes: Raw<Service, A, B> is A<B<Service>>.
template <typename Base, template <typename> class... Methods>
struct RawOf {
  using Type = Base;
};
template <typename Base, template <typename> class First, template <typename> class... Rest>
struct RawOf<Base, First, Rest...> {
  using Type = First<typename RawOf<Base, Rest...>::Type>;
};
template <typename Base, template <typename> class... Methods>
using Raw = typename RawOf<Base, Methods...>::Type;

using RawJobService = Raw<
    v1::JobService::Service, v1::JobService::WithRawCallbackMethod_EnqueueJob,
    v1::JobService::WithRawCallbackMethod_BatchEnqueueJobs,
    v1::JobService::WithRawCallbackMethod_GetJob, v1::JobService::WithRawCallbackMethod_ListJobs,
    v1::JobService::WithRawCallbackMethod_WaitJob, v1::JobService::WithRawCallbackMethod_CancelJob,
    v1::JobService::WithRawCallbackMethod_RedriveJob,
    v1::JobService::WithRawCallbackMethod_DeleteJob,
    v1::JobService::WithRawCallbackMethod_UpdateJob,
    v1::JobService::WithRawCallbackMethod_BatchCancelJobs,
    v1::JobService::WithRawCallbackMethod_BatchRedriveJobs,
    v1::JobService::WithRawCallbackMethod_BatchDeleteJobs>;

class GrpcJobService final : public RawJobService {
 public:
  GrpcJobService(Edge* edge, Door door) : service_(edge), door_(door) {}

  Reactor* EnqueueJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::EnqueueJob);
  }
  Reactor* BatchEnqueueJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::BatchEnqueueJobs);
  }
  Reactor* GetJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::GetJob);
  }
  Reactor* ListJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::ListJobs);
  }
  Reactor* WaitJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::WaitJob);
  }
  Reactor* CancelJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::CancelJob);
  }
  Reactor* RedriveJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::RedriveJob);
  }
  Reactor* DeleteJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::DeleteJob);
  }
  Reactor* UpdateJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::UpdateJob);
  }
  Reactor* BatchCancelJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::BatchCancelJobs);
  }
  Reactor* BatchRedriveJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::BatchRedriveJobs);
  }
  Reactor* BatchDeleteJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &JobService::BatchDeleteJobs);
  }

 private:
  JobService service_;
  const Door door_;
};

using RawWorkerService =
    Raw<v1::WorkerService::Service, v1::WorkerService::WithRawCallbackMethod_LeaseJobs,
        v1::WorkerService::WithRawCallbackMethod_Heartbeat,
        v1::WorkerService::WithRawCallbackMethod_CompleteJob,
        v1::WorkerService::WithRawCallbackMethod_FailJob,
        v1::WorkerService::WithRawCallbackMethod_ReleaseJob,
        v1::WorkerService::WithRawCallbackMethod_SettleJobs,
        v1::WorkerService::WithRawCallbackMethod_StreamJobs>;

class GrpcWorkerService final : public RawWorkerService {
 public:
  GrpcWorkerService(Edge* edge, Door door, size_t max_receive_bytes)
      : service_(edge), edge_(edge), door_(door), max_receive_bytes_(max_receive_bytes) {}

  Reactor* LeaseJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &WorkerService::LeaseJobs);
  }
  Reactor* Heartbeat(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &WorkerService::Heartbeat);
  }
  Reactor* CompleteJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &WorkerService::CompleteJob);
  }
  // Its text is shortened, so the call may be as large as the server receives.
  Reactor* FailJob(Context* context, const Bytes* in, Bytes* out) override {
    Door door = door_;
    door.max_call_bytes = max_receive_bytes_;
    return Serve(door, context, in, out, &service_, &WorkerService::FailJob);
  }
  Reactor* ReleaseJob(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &WorkerService::ReleaseJob);
  }
  Reactor* SettleJobs(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &WorkerService::SettleJobs);
  }
  grpc::ServerBidiReactor<Bytes, Bytes>* StreamJobs(Context* context) override {
    return BeginWorkerStream(door_, edge_, context);
  }

 private:
  WorkerService service_;
  Edge* const edge_;
  const Door door_;
  const size_t max_receive_bytes_;
};

using RawQueueService =
    Raw<v1::QueueService::Service, v1::QueueService::WithRawCallbackMethod_CreateQueue,
        v1::QueueService::WithRawCallbackMethod_GetQueue,
        v1::QueueService::WithRawCallbackMethod_ListQueues,
        v1::QueueService::WithRawCallbackMethod_UpdateQueue,
        v1::QueueService::WithRawCallbackMethod_DeleteQueue,
        v1::QueueService::WithRawCallbackMethod_PauseQueue,
        v1::QueueService::WithRawCallbackMethod_ResumeQueue,
        v1::QueueService::WithRawCallbackMethod_PurgeQueue,
        v1::QueueService::WithRawCallbackMethod_GetQueueStats>;

class GrpcQueueService final : public RawQueueService {
 public:
  GrpcQueueService(Edge* edge, Door door) : service_(edge), door_(door) {}

  Reactor* CreateQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::CreateQueue);
  }
  Reactor* GetQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::GetQueue);
  }
  Reactor* ListQueues(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::ListQueues);
  }
  Reactor* UpdateQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::UpdateQueue);
  }
  Reactor* DeleteQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::DeleteQueue);
  }
  Reactor* PauseQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::PauseQueue);
  }
  Reactor* ResumeQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::ResumeQueue);
  }
  Reactor* PurgeQueue(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::PurgeQueue);
  }
  Reactor* GetQueueStats(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &QueueService::GetQueueStats);
  }

 private:
  QueueService service_;
  const Door door_;
};

using RawAdminService =
    Raw<v1::AdminService::Service, v1::AdminService::WithRawCallbackMethod_GetServerInfo,
        v1::AdminService::WithRawCallbackMethod_DrainServer,
        v1::AdminService::WithRawCallbackMethod_ListWorkers,
        v1::AdminService::WithRawCallbackMethod_DrainWorker>;

class GrpcAdminService final : public RawAdminService {
 public:
  GrpcAdminService(Edge* edge, Door door) : service_(edge), door_(door) {}

  Reactor* GetServerInfo(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &AdminService::GetServerInfo);
  }
  Reactor* DrainServer(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &AdminService::DrainServer);
  }
  Reactor* ListWorkers(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &AdminService::ListWorkers);
  }
  Reactor* DrainWorker(Context* context, const Bytes* in, Bytes* out) override {
    return Serve(door_, context, in, out, &service_, &AdminService::DrainWorker);
  }

 private:
  AdminService service_;
  const Door door_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeServices(Edge* edge,
                                                         const Authenticator* authenticator,
                                                         std::shared_ptr<CallsUnderWay> calls,
                                                         size_t max_receive_bytes,
                                                         size_t max_answer_bytes) {
  const Door door{authenticator, std::move(calls), std::make_shared<AnswerBudget>(max_answer_bytes),
                  edge->limits().max_call_bytes, &edge->counts()};
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<GrpcJobService>(edge, door));
  services.push_back(std::make_unique<GrpcWorkerService>(edge, door, max_receive_bytes));
  services.push_back(std::make_unique<GrpcQueueService>(edge, door));
  services.push_back(std::make_unique<GrpcAdminService>(edge, door));
  return services;
}

}  // namespace stint::api
