// HTTP for machines that watch: what is answered, what is refused, and that nobody can take it
// from others.
#include "server/ops/http_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stint::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A connection on which the test says exactly what it wants.
class Connection {
 public:
  explicit Connection(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + address.rfind(':') + 1)));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
    EXPECT_TRUE(connected_);
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Send(const std::string& text) {
    EXPECT_EQ(send(socket_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Until the peer closes.
  std::string ReadAll() {
    std::string text;
    while (Read(&text)) {
    }
    return text;
  }
  std::string ReadUntil(const std::string& end) {
    std::string text;
    while (!absl::StrContains(text, end) && Read(&text)) {
    }
    return text;
  }

 private:
  bool Read(std::string* text) {
    char bytes[4096];
    const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
    if (got > 0) text->append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  int socket_ = -1;
  bool connected_ = false;
};

class HttpEndpointTest : public ::testing::Test {
 protected:
  void Start(HttpLimits limits = {}) {
    HttpHooks hooks;
    hooks.health = &health_;
    hooks.gather_metrics = [this](std::function<void()> ready) {
      if (answer_at_once_) ready();
      ready_.push_back(std::move(ready));
      if (ready_.size() == 1) asked_.set_value();
      return [this] { return absl::StrCat("metric ", ++written_, "\n"); };
    };
    hooks.may_read_metrics = [this](absl::string_view authorization) {
      return secret_.empty() || authorization == "Bearer " + secret_;
    };
    hooks.version = "1.2.3";
    auto endpoint = HttpEndpoint::Start("127.0.0.1:0", std::move(hooks), limits);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }
  std::string Ask(const std::string& request) {
    Connection connection(endpoint_->address());
    connection.Send(request);
    return connection.ReadAll();
  }
  std::string Get(const std::string& path, const std::string& headers = "") {
    return Ask(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", headers,
                            "\r\n"));
  }

  Health health_;
  std::string secret_;
  bool answer_at_once_ = true;
  std::vector<std::function<void()>> ready_;
  std::promise<void> asked_;  // kept when metrics are asked for the first time
  int written_ = 0;
  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, HealthFollowsTheBroker) {
  Start();
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get("/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("starting\n")));
  std::atomic<int64_t> stuck_ms = 0;
  health_.Watch([&stuck_ms] { return stuck_ms.load(); });
  health_.Enter(Health::Phase::kServing);
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200 "));
  stuck_ms = 29'999;
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  stuck_ms = 30'000;
  EXPECT_THAT(Get("/healthz"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("for 30 s")));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200 "));
  stuck_ms = 0;
  health_.Enter(Health::Phase::kDraining);
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503 "));
  health_.Enter(Health::Phase::kFailed);
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(HttpEndpointTest, ThePageNeedsNothingFromElsewhere) {
  Start();
  const std::string page = Get("/?x=1");
  EXPECT_THAT(page, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("text/html"), HasSubstr("1.2.3"),
                          HasSubstr("href=\"/metrics\""), HasSubstr("default-src 'none'")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("://")), Not(HasSubstr("<script"))));
}

TEST_F(HttpEndpointTest, OnlyGetAndHeadOnlyKnownPaths) {
  Start();
  EXPECT_THAT(Get("/v1/queues"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/healthz/"), StartsWith("HTTP/1.1 404 "));
  const std::string posted =
      Ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(posted, AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD")));
  const std::string head = Ask("HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Length: 6")));
  EXPECT_THAT(head, Not(HasSubstr("alive")));
}

TEST_F(HttpEndpointTest, WhatIsNoRequestIsRefused) {
  Start();
  EXPECT_THAT(Ask("GARBAGE\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string("\0\xff\r\n\r\n", 6)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/", absl::StrCat("X: ", std::string(10'000, 'x'), "\r\n")),
              StartsWith("HTTP/1.1 431 "));
  // A body is not read, so nothing that stands behind it is a request.
  const std::string smuggled =
      Ask("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcdeGET /readyz "
          "HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(smuggled, AllOf(HasSubstr("alive"), Not(HasSubstr("starting"))));
}

TEST_F(HttpEndpointTest, AConnectionServesManyRequests) {
  Start();
  Connection connection(endpoint_->address());
  for (int i = 1; i <= 3; ++i) {
    connection.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(connection.ReadUntil("metric"), HasSubstr("version=0.0.4"));
  }
}

TEST_F(HttpEndpointTest, MetricsMayAskForASecretAndHealthNeverDoes) {
  secret_ = "s3cret";
  Start();
  EXPECT_THAT(Get("/metrics"),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("WWW-Authenticate: Bearer"),
                    Not(HasSubstr("metric 1"))));
  EXPECT_THAT(Get("/metrics", "Authorization: Bearer wrong\r\n"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Get("/metrics", "Authorization: Bearer s3cret\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("metric 1\n")));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpEndpointTest, MetricsDoNotWaitForALoopThatStandsStill) {
  answer_at_once_ = false;
  HttpLimits limits;
  limits.gather_ms = 20;
  Start(limits);
  EXPECT_THAT(Get("/metrics"), HasSubstr("metric 1\n"));
  // Late, and after the end of the endpoint: nothing happens.
  ready_[0]();
  EXPECT_THAT(Get("/metrics"), HasSubstr("metric 2\n"));
  endpoint_ = nullptr;
  ready_[1]();
}

TEST_F(HttpEndpointTest, HealthIsAnsweredWhileMetricsWait) {
  answer_at_once_ = false;
  HttpLimits limits;
  limits.gather_ms = 3'600'000;
  Start(limits);
  Connection waiting(endpoint_->address());
  waiting.Send("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  asked_.get_future().wait();
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  ready_[0]();
  EXPECT_THAT(waiting.ReadAll(), HasSubstr("metric 1\n"));
}

TEST_F(HttpEndpointTest, WhoSaysNothingGivesWay) {
  HttpLimits limits;
  limits.connections = 4;
  Start(limits);
  std::vector<std::unique_ptr<Connection>> silent;
  for (int i = 0; i < 4; ++i) {
    silent.push_back(std::make_unique<Connection>(endpoint_->address()));
    silent.back()->Send("GET /hea");
  }
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(silent[0]->ReadAll(), "");
}

TEST_F(HttpEndpointTest, WhoIsTooSlowIsCutOff) {
  HttpLimits limits;
  limits.request_ms = 20;
  Start(limits);
  Connection connection(endpoint_->address());
  connection.Send("GET /healthz HT");
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST_F(HttpEndpointTest, AnAddressThatIsTakenIsNamed) {
  Start();
  const auto second = HttpEndpoint::Start(endpoint_->address(), {});
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(endpoint_->address()), HasSubstr("http_listen")));
  EXPECT_FALSE(HttpEndpoint::Start("no-such-host.invalid:1", {}).ok());
}

}  // namespace
}  // namespace stint::ops
