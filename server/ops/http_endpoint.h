// The HTTP listener for machines that watch the broker: /metrics, /healthz, /readyz, and a
// small page at /. GET and HEAD only; nothing here says anything about a job, and nothing
// changes anything.
//
// Bounds: connections (the one open longest gives way to a new one), the size of a request's
// header, bodies (none), and the time a request or an answer may take.
//
// How it is used: Start binds and serves on a thread of its own until destruction. Hooks are
// called on that thread; what they use must outlive the endpoint.
#ifndef STINT_SERVER_OPS_HTTP_ENDPOINT_H_
#define STINT_SERVER_OPS_HTTP_ENDPOINT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/ops/health.h"

namespace stint::ops {

struct HttpHooks {
  const Health* health = nullptr;
  // Begins to gather metrics and calls `ready`, at once or from another thread, when there is
  // nothing more to wait for. The function it gives writes the page from what is known by then;
  // it is called when `ready` was or a second has passed, and `ready` may still come later.
  std::function<std::function<std::string()>(std::function<void()> ready)> gather_metrics;
  // Whether who sends this Authorization header ("" if none) may read the metrics.
  std::function<bool(absl::string_view authorization)> may_read_metrics;
  std::string version;
};

struct HttpLimits {
  size_t connections = 64;
  size_t header_bytes = 8192;
  // For a whole request to come in, and for an answer to leave.
  int64_t request_ms = 30'000;
  int64_t answer_ms = 10'000;
  // How long /metrics waits for figures that the loop has to be asked for.
  int64_t gather_ms = 1'000;
};

class HttpEndpoint {
 public:
  // `listen` is host:port; port 0: any. Errors name the address.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const std::string& listen,
                                                             HttpHooks hooks,
                                                             HttpLimits limits = {});
  virtual ~HttpEndpoint() = default;

  // host:port as bound.
  virtual std::string address() const = 0;

 protected:
  HttpEndpoint() = default;
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;
};

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_HTTP_ENDPOINT_H_
