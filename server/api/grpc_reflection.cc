#include "server/api/grpc_reflection.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/rpc/error_details.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/api/grpc_call.h"
#include "stint/v1/admin_service.pb.h"
#include "stint/v1/error_reason.pb.h"
#include "stint/v1/job_service.pb.h"
#include "stint/v1/queue_service.pb.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::api {
namespace {

namespace v1_reflection = grpc::reflection::v1;
namespace v1alpha_reflection = grpc::reflection::v1alpha;
using google::protobuf::FileDescriptor;

// What may be told: the files of the services and what they import.
class Catalogue {
 public:
  Catalogue() {
    Add(v1::EnqueueJobRequest::descriptor()->file());
    Add(v1::LeaseJobsRequest::descriptor()->file());
    Add(v1::CreateQueueRequest::descriptor()->file());
    Add(v1::GetServerInfoRequest::descriptor()->file());
    // What errors carry.
    Add(v1::ErrorReason_descriptor()->file());
    Add(google::rpc::ErrorInfo::descriptor()->file());
    Add(grpc::health::v1::HealthCheckRequest::descriptor()->file());
    Add(v1_reflection::ServerReflectionRequest::descriptor()->file());
    Add(v1alpha_reflection::ServerReflectionRequest::descriptor()->file());
  }

  // Services in the order they were added.
  const std::vector<std::string>& services() const { return services_; }

  // nullptr: nothing that may be told.
  const FileDescriptor* FileByName(const std::string& name) const {
    return Known(google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name));
  }
  const FileDescriptor* FileBySymbol(const std::string& symbol) const {
    return Known(
        google::protobuf::DescriptorPool::generated_pool()->FindFileContainingSymbol(symbol));
  }

 private:
  void Add(const FileDescriptor* file) {
    if (!files_.insert(file).second) return;
    for (int i = 0; i < file->service_count(); ++i) {
      services_.push_back(file->service(i)->full_name());
    }
    for (int i = 0; i < file->dependency_count(); ++i) Add(file->dependency(i));
  }
  const FileDescriptor* Known(const FileDescriptor* file) const {
    return files_.contains(file) ? file : nullptr;
  }

  absl::flat_hash_set<const FileDescriptor*> files_;
  std::vector<std::string> services_;
};

const Catalogue& TheCatalogue() {
  static const auto* const catalogue = new Catalogue();
  return *catalogue;
}

// The file and all it imports, each once, imports after what imports them.
template <typename Response>
void AddFiles(const FileDescriptor* file, absl::flat_hash_set<const FileDescriptor*>* seen,
              Response* response) {
  if (!seen->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(
      proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFiles(file->dependency(i), seen, response);
}

template <typename Response>
void SetError(grpc::StatusCode code, const std::string& message, Response* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(code));
  response->mutable_error_response()->set_error_message(message);
}

template <typename Response>
void AnswerFile(const FileDescriptor* file, Response* response) {
  if (file == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND, "this server knows no such file or symbol",
                    response);
  }
  absl::flat_hash_set<const FileDescriptor*> seen;
  AddFiles(file, &seen, response);
}

template <typename Request, typename Response>
Response Answer(const Request& request) {
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const Catalogue& catalogue = TheCatalogue();
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      AnswerFile(catalogue.FileByName(request.file_by_filename()), &response);
      break;
    case Request::kFileContainingSymbol:
      AnswerFile(catalogue.FileBySymbol(request.file_containing_symbol()), &response);
      break;
    case Request::kListServices:
      for (const std::string& service : catalogue.services()) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case Request::kFileContainingExtension:
    case Request::kAllExtensionNumbersOfType:
      SetError(grpc::StatusCode::NOT_FOUND, "the API has no extensions", &response);
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::StatusCode::INVALID_ARGUMENT, "the request asks for nothing", &response);
      break;
  }
  return response;
}

// One stream: a question, its answer, the next question.
template <typename Request, typename Response>
class Stream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit Stream(const absl::Status& refusal) {
    if (refusal.ok()) {
      this->StartRead(&request_);
    } else {
      this->Finish(ToGrpcStatus(refusal));
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::OK);
    response_ = Answer<Request, Response>(request_);
    this->StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::OK);
    this->StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  Request request_;
  Response response_;
};

template <typename Service, typename Request, typename Response>
class Reflection final : public Service::CallbackService {
 public:
  explicit Reflection(const Authenticator* authenticator) : authenticator_(authenticator) {}

  grpc::ServerBidiReactor<Request, Response>* ServerReflectionInfo(
      grpc::CallbackServerContext* context) override {
    return new Stream<Request, Response>(Authenticate(*authenticator_, *context).status());
  }

 private:
  const Authenticator* const authenticator_;
};

using ReflectionV1 =
    Reflection<v1_reflection::ServerReflection, v1_reflection::ServerReflectionRequest,
               v1_reflection::ServerReflectionResponse>;
using ReflectionV1Alpha =
    Reflection<v1alpha_reflection::ServerReflection, v1alpha_reflection::ServerReflectionRequest,
               v1alpha_reflection::ServerReflectionResponse>;

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> MakeReflectionServices(
    const Authenticator* authenticator) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<ReflectionV1>(authenticator));
  services.push_back(std::make_unique<ReflectionV1Alpha>(authenticator));
  return services;
}

}  // namespace stint::api
