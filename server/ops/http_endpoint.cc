#include "server/ops/http_endpoint.h"

#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stint::ops {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kMetricsText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kHtml[] = "text/html; charset=utf-8";

constexpr int64_t kLastReadMs = 1'000;
constexpr size_t kLastReadBytes = 4096;

std::string Page(absl::string_view version) {
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>stintd</title>"
      "<style>body{font:16px/1.5 sans-serif;max-width:40em;margin:3em auto;padding:0 1em}"
      "</style></head><body>\n<h1>stintd ",
      version,
      "</h1>\n<p>This is a broker of Stint. It keeps jobs and leases and speaks gRPC on another "
      "port; this one is for those who watch it.</p>\n<ul>\n"
      "<li><a href=\"/metrics\">/metrics</a>: figures for Prometheus</li>\n"
      "<li><a href=\"/healthz\">/healthz</a>: 200 while the process is alive</li>\n"
      "<li><a href=\"/readyz\">/readyz</a>: 200 while it takes calls</li>\n"
      "</ul>\n<p>On the command line: <code>stint help</code>.</p>\n</body></html>\n");
}

class Session;

// What all sessions share. Whoever may still post something to the context holds it.
struct Core : std::enable_shared_from_this<Core> {
  HttpHooks hooks;
  HttpLimits limits;
  std::list<Session*> sessions;  // oldest first
  // Last: the sessions it holds take themselves off the list as they go.
  asio::io_context context{1};
};

class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Core* core)
      : stream_(std::move(socket)), gather_timer_(core->context), core_(core) {
    at_ = core_->sessions.insert(core_->sessions.end(), this);
  }
  ~Session() { Unlist(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(core_->limits.header_bytes));
    stream_.expires_after(std::chrono::milliseconds(core_->limits.request_ms));
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnRequest(error); });
  }

  // Closed it holds no connection any more, though what waits for it may keep it for a while.
  void Close() {
    Unlist();
    stream_.close();
  }

 private:
  void Unlist() {
    if (at_ != core_->sessions.end()) core_->sessions.erase(at_);
    at_ = core_->sessions.end();
  }

  void OnRequest(beast::error_code error) {
    if (error == http::error::header_limit) {
      return Answer(http::status::request_header_fields_too_large, kText,
                    "the header of the request is too large\n", true);
    }
    if (error && (error == http::error::end_of_stream || error == beast::error::timeout ||
                  error.category() == asio::error::get_system_category())) {
      return;  // gone, or too slow
    }
    if (error) {
      return Answer(http::status::bad_request, kText, "this is not HTTP/1.1\n", true);
    }
    const Request& request = parser_->get();
    // A body is not read, so nothing can follow it.
    const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    close_ = has_body || !request.keep_alive();
    head_ = request.method() == http::verb::head;
    if (request.method() != http::verb::get && !head_) {
      return Answer(http::status::method_not_allowed, kText, "only GET and HEAD\n", true);
    }
    const auto target = request.target();
    Route(absl::string_view(target.data(), target.size()));
  }

  void Route(absl::string_view target) {
    const HttpHooks& hooks = core_->hooks;
    const absl::string_view path = target.substr(0, target.find('?'));
    if (path == "/healthz") return AnswerHealth(hooks.health->Alive());
    if (path == "/readyz") return AnswerHealth(hooks.health->Ready());
    if (path == "/") return Answer(http::status::ok, kHtml, Page(hooks.version));
    if (path != "/metrics") {
      return Answer(http::status::not_found, kText,
                    "there is nothing here; / lists what there is\n");
    }
    const auto header = parser_->get()[http::field::authorization];
    if (!hooks.may_read_metrics(absl::string_view(header.data(), header.size()))) {
      return Answer(http::status::unauthorized, kText,
                    "the metrics ask for the secret of metrics_token_file: send the header "
                    "authorization: Bearer SECRET\n");
    }
    Gather();
  }

  void Gather() {
    // No limit of the connection's own: the timer ends the wait.
    stream_.expires_never();
    gathered_ = false;
    write_metrics_ = core_->hooks.gather_metrics(
        [weak = weak_from_this(), core = core_->shared_from_this(), turn = ++turn_] {
          asio::post(core->context, [weak, turn] {
            const auto self = weak.lock();
            if (self != nullptr && self->turn_ == turn) self->OnGathered();
          });
        });
    gather_timer_.expires_after(std::chrono::milliseconds(core_->limits.gather_ms));
    gather_timer_.async_wait([self = shared_from_this(), turn = turn_](beast::error_code) {
      if (self->turn_ == turn) self->OnGathered();
    });
  }

  void OnGathered() {
    if (std::exchange(gathered_, true)) return;
    gather_timer_.cancel();
    Answer(http::status::ok, kMetricsText, std::exchange(write_metrics_, nullptr)());
  }

  void AnswerHealth(const Health::Answer& health) {
    Answer(health.ok ? http::status::ok : http::status::service_unavailable, kText,
           health.why + "\n");
  }

  void Answer(http::status status, const char* type, std::string body, bool close = false) {
    close_ = close_ || close;
    response_.emplace(status, 11);
    response_->set(http::field::content_type, type);
    response_->set(http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    response_->set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
    if (status == http::status::unauthorized) {
      response_->set(http::field::www_authenticate, "Bearer");
    }
    if (status == http::status::method_not_allowed) {
      response_->set(http::field::allow, "GET, HEAD");
    }
    response_->keep_alive(!close_);
    response_->content_length(body.size());
    if (!head_) response_->body() = std::move(body);
    stream_.expires_after(std::chrono::milliseconds(core_->limits.answer_ms));
    http::async_write(stream_, *response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return;
                        if (!self->close_) return self->Read();
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                        self->stream_.expires_after(std::chrono::milliseconds(kLastReadMs));
                        self->ReadToTheEnd();
                      });
  }

  // A connection that is closed with something unread takes the answer with it.
  void ReadToTheEnd() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kLastReadBytes),
                            [self = shared_from_this()](beast::error_code error, size_t) {
                              if (!error) self->ReadToTheEnd();
                            });
  }

  beast::tcp_stream stream_;
  asio::steady_timer gather_timer_;
  Core* const core_;
  std::list<Session*>::iterator at_;
  beast::flat_buffer buffer_{16384};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<Response> response_;
  bool close_ = false;
  bool head_ = false;
  // Of the request for metrics under way; a late `ready` of an earlier one has no effect.
  uint64_t turn_ = 0;
  bool gathered_ = true;
  std::function<std::string()> write_metrics_;
};

class Endpoint final : public HttpEndpoint {
 public:
  Endpoint(HttpHooks hooks, HttpLimits limits)
      : core_(std::make_shared<Core>()), acceptor_(core_->context), retry_(core_->context) {
    core_->hooks = std::move(hooks);
    core_->limits = limits;
  }

  ~Endpoint() override {
    core_->context.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(const std::string& listen) {
    const size_t colon = listen.rfind(':');
    std::string host = listen.substr(0, colon);
    const std::string port = listen.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    beast::error_code error;
    tcp::resolver resolver(core_->context);
    const auto found = resolver.resolve(host, port, tcp::resolver::passive, error);
    if (!error && !found.empty()) {
      const tcp::endpoint endpoint = *found.begin();
      acceptor_.open(endpoint.protocol(), error);
      if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
      if (!error) acceptor_.bind(endpoint, error);
      if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return absl::UnavailableError(absl::StrCat(
          listen, ": ", error.message(), "; choose another address with http_listen, or none"));
    }
    address_ = absl::StrCat(listen.substr(0, colon), ":", acceptor_.local_endpoint().port());
    Accept();
    thread_ = std::thread([this] { core_->context.run(); });
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        if (core_->sessions.size() >= core_->limits.connections) {
          core_->sessions.front()->Close();
        }
        std::make_shared<Session>(std::move(socket), core_.get())->Read();
        return Accept();
      }
      // No file descriptors, most likely: again when some may be free.
      retry_.expires_after(std::chrono::milliseconds(100));
      retry_.async_wait([this](beast::error_code stopped) {
        if (!stopped) Accept();
      });
    });
  }

  const std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& listen,
                                                                  HttpHooks hooks,
                                                                  HttpLimits limits) {
  auto endpoint = std::make_unique<Endpoint>(std::move(hooks), limits);
  if (absl::Status status = endpoint->Listen(listen); !status.ok()) return status;
  return endpoint;
}

}  // namespace stint::ops
