#include "tests/sim/simulator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "storage/reader.h"
#include "storage/records.h"
#include "tests/sim/describe.h"

namespace stint::sim {

namespace {

// Longer than any delay, lease, grace or step of the wall clock of a simulation.
constexpr int64_t kMostDrainMs = 2 * engine::kHourMs;

// As often as the broker looks at its sessions.
constexpr int64_t kTickMs = 250;

size_t BytesOf(const engine::Command& command) {
  size_t bytes = 50;
  if (const auto* enqueue = std::get_if<engine::EnqueueCommand>(&command)) {
    for (const engine::NewJob& job : enqueue->jobs) bytes += job.record.payload().size();
  }
  return bytes;
}

}  // namespace

Report Simulate(uint64_t seed, const SimulationOptions& options) {
  return Simulator(seed, options).Run();
}

std::vector<bool> Shrink(uint64_t seed, SimulationOptions options) {
  options.echo = false;
  size_t turns = Simulate(seed, options).turns;
  options.skip.resize(turns, false);
  for (size_t chunk = turns / 2; chunk > 0; chunk /= 2) {
    for (size_t begin = 0; begin < turns; begin += chunk) {
      SimulationOptions fewer = options;
      const auto from = fewer.skip.begin() + static_cast<int64_t>(begin);
      std::fill(from, from + static_cast<int64_t>(std::min(chunk, turns - begin)), true);
      if (fewer.skip != options.skip && !Simulate(seed, fewer).failure.empty()) {
        options.skip = std::move(fewer.skip);
      }
    }
  }
  return options.skip;
}

Simulator::Simulator(uint64_t seed, const SimulationOptions& options)
    : options_(options),
      seed_(seed),
      random_(seed),
      trace_(options.echo),
      profile_(MakeProfile(&random_)),
      auditor_(
          {profile_.options.engine.restart_grace_ms, profile_.options.engine.request_window_ms},
          &clock_),
      callers_(&profile_, &random_, this),
      streamers_(&profile_, &random_) {}

Simulator::~Simulator() {
  streamers_.Detach();
  executor_.Clear();
}

void Simulator::Note(std::string line) {
  trace_.Add(absl::StrCat(auditor_.NowMs() % 100'000'000, " ", line));
}

Report Simulator::Run() {
  const int64_t begin_ms = clock_.boot_ms;
  Boot(std::make_unique<storage::MemoryStore>());
  faults_ = profile_.faults;
  power_at_answer_ = profile_.power_at_answer;
  lost_answer_ = profile_.lost_answer;
  for (; report_.turns < static_cast<size_t>(profile_.turns) && !Failed(); ++report_.turns) {
    if (report_.turns < options_.skip.size() && options_.skip[report_.turns]) continue;
    random_ = Random(engine::Mix(seed_, report_.turns + 1));
    Turn();
  }
  random_ = Random(seed_ + 1);
  if (!Failed()) Finish();
  if (failure_.empty()) failure_ = auditor_.failure();
  if (failure_.empty()) failure_ = streamers_.failure();
  report_.failure = failure_;
  report_.trace_hash = trace_.hash();
  report_.virtual_ms += clock_.boot_ms - begin_ms;
  if (Failed()) {
    constexpr size_t kTail = 60;
    const std::string& job = auditor_.failed_job();
    const auto& lines = trace_.lines();
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool about = !job.empty() && lines[i].find(job) != std::string::npos;
      if (i + kTail >= lines.size() || about) report_.tail.push_back(lines[i]);
    }
  }
  return std::move(report_);
}

void Simulator::Call(engine::Command command, OnAnswer on_answer) {
  const CallId id = next_call_++;
  ++report_.calls;
  Note(absl::StrCat("#", id, " ", DescribeCommand(command)));
  auditor_.Submitted(id, command);
  auto abandoned = std::make_shared<bool>(false);
  open_[id] = {std::move(on_answer), abandoned};
  runtime::Call call;
  call.bytes = BytesOf(command);
  call.command = std::move(command);
  call.done = [this, id](const engine::Outcome& outcome) {
    if (random_.Chance(power_at_answer_)) throw PowerLoss{};
    Answered(id, outcome);
  };
  call.abandoned = [abandoned] { return *abandoned; };
  if (absl::Status refused = loop_->Submit(std::move(call)); !refused.ok()) {
    Answered(id, {std::move(refused), {}});
  }
}

absl::Status Simulator::SubmitOfStream(runtime::Call call) {
  const CallId id = next_call_++;
  ++report_.calls;
  Note(absl::StrCat("#", id, " stream: ", DescribeCommand(call.command)));
  auditor_.Submitted(id, call.command);
  call.done = [this, id, done = std::move(call.done)](engine::Outcome outcome) {
    if (random_.Chance(power_at_answer_)) throw PowerLoss{};
    Note(absl::StrCat("#", id, " -> ", DescribeAnswer(outcome)));
    auditor_.Answered(id, outcome);
    if (done) done(std::move(outcome));
  };
  if (call.abandoned) {
    call.abandoned = [this, id, abandoned = std::move(call.abandoned)] {
      if (!abandoned()) return false;
      auditor_.Abandoned(id);
      return true;
    };
  }
  absl::Status refused = loop_->Submit(std::move(call));
  if (!refused.ok()) auditor_.Answered(id, {refused, {}});
  return refused;
}

engine::BatchCommand Simulator::FindBatch(const std::string& queue,
                                          engine::BatchCommand::Operation operation, bool force,
                                          uint64_t bound, uint64_t from) {
  constexpr size_t kMostJobs = 3;
  using Operation = engine::BatchCommand::Operation;
  engine::BatchCommand batch;
  batch.queue = queue;
  batch.operation = operation;
  batch.force = force;
  const storage::Reader reader(&store_->stable());
  const auto last = reader.LastChange();
  const auto found = reader.FindQueue(queue);
  if (!last.ok() || !found.ok() || !found->has_value()) return batch;
  batch.queue_id = (*found)->id;
  batch.bound = bound != 0 ? bound : *last;
  const auto page = reader.ListJobs(
      **found, from, kMostJobs, SIZE_MAX, false, [&](const storage::StoredJob& job) {
        const int32_t state = job.state.state();
        if (job.key.sequence > batch.bound || !job.record.job_id().empty()) return false;
        if (operation == Operation::kCancel) return !storage::IsEnded(state);
        if (operation == Operation::kRedrive) return state > storage::kStateCompleted;
        return force || storage::IsEnded(state);
      });
  if (!page.ok()) return batch;
  for (const storage::StoredJob& job : page->jobs) batch.sequences.push_back(job.key.sequence);
  if (page->next_sequence <= batch.bound) batch.next_sequence = page->next_sequence;
  return batch;
}

void Simulator::AbandonOne() {
  if (open_.empty()) return;
  auto it = open_.begin();
  std::advance(it, random_.Below(static_cast<int64_t>(open_.size())));
  Note(absl::StrCat("#", it->first, " hangs up"));
  *it->second.abandoned = true;
  auditor_.Abandoned(it->first);
}

void Simulator::Answered(CallId id, const engine::Outcome& outcome) {
  Note(absl::StrCat("#", id, " -> ", DescribeAnswer(outcome)));
  auditor_.Answered(id, outcome);
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  const OpenCall call = std::move(it->second);
  open_.erase(it);
  const bool lost = *call.abandoned || random_.Chance(lost_answer_);
  call.on_answer(lost ? nullptr : &outcome);
}

bool Simulator::Guarded(const std::function<bool()>& run) {
  bool worked = true;
  try {
    worked = run();
  } catch (const PowerLoss&) {
    LosePower("the power went in the middle");
    return true;
  }
  if (loop_->failed()) {
    LosePower("the broker stopped");
    return true;
  }
  return worked;
}

bool Simulator::Step() {
  return Guarded([this] {
    const bool worked = loop_->Step();
    if (!loop_->failed() && loop_->Idle()) {
      auditor_.Passed(!worked);
      if (profile_.look_always && report_.commits != looked_at_commit_) {
        looked_at_commit_ = report_.commits;
        CheckInvariants("");
      }
    }
    return worked;
  });
}

bool Simulator::RunPosted() {
  return Guarded([this] { return executor_.RunOne(); });
}

void Simulator::Settle() {
  constexpr int kMostSteps = 20'000;
  for (int i = 0; i < kMostSteps && !Failed(); ++i) {
    const bool stepped = Step();
    const bool ran = RunPosted();
    const bool received = streamers_.Receive();
    if (!stepped && !ran && !received) return;
  }
  if (!Failed()) failure_ = "the loop does not come to rest";
}

void Simulator::MoveClocks(int64_t ms) {
  clock_.boot_ms += ms;
  clock_.wall_ms += ms;
}

void Simulator::Pass(int64_t ms, int64_t step_ms) {
  while (ms > 0 && !Failed()) {
    const int64_t step = std::min({ms, step_ms, std::max<int64_t>(1, loop_->WaitMs())});
    MoveClocks(step);
    ms -= step;
    if (clock_.boot_ms - ticked_ms_ >= kTickMs) {
      ticked_ms_ = clock_.boot_ms;
      edge_->sessions()->Tick();
    }
    // Mostly all there is to do; sometimes a sync takes its time.
    if (random_.Chance(800)) {
      Settle();
    } else {
      Step();
      if (random_.Chance(500)) RunPosted();
    }
  }
}

void Simulator::Turn() {
  const int64_t what = random_.Below(100);
  if (what < 50) {
    callers_.DoSomething();
  } else if (what < 68) {
    Step();
    streamers_.Receive();
  } else if (what < 82) {
    RunPosted();
  } else if (what < 86) {
    Settle();
    if (loop_->Idle() && random_.Chance(200)) AuditStore();
  } else {
    Pass(random_.Pick<int64_t>({1, 1, 5, 20, 100, 300, 300, 1'000, 2'500}), 250);
  }
  if (!Failed()) Fault();
}

void Simulator::Fault() {
  if (random_.Chance(profile_.crash)) LosePower("the power goes");
  if (random_.Chance(profile_.freeze)) {
    const int64_t gap_ms = random_.Pick<int64_t>({500, 1'001, 3'000, 6'000, 40'000});
    Note(absl::StrCat("freeze for ", gap_ms));
    MoveClocks(gap_ms);
    auditor_.Froze(gap_ms);
  }
  if (random_.Chance(profile_.wall_step)) {
    const int64_t step_ms = random_.Pick<int64_t>({-600'000, -5'000, -1, 1, 5'000, 600'000});
    Note(absl::StrCat("wall clock steps by ", step_ms));
    auditor_.WallSteps();
    clock_.wall_ms += step_ms;
  }
  if (random_.Chance(profile_.low_space)) {
    low_space_ = !low_space_;
    Note(low_space_ ? "disk nearly full" : "disk has room");
    store_->set_low_space(low_space_);
    if (low_space_) auditor_.DiskNearlyFull();
  }
  if (random_.Chance(profile_.long_time)) {
    const int64_t ms = random_.Pick<int64_t>({20'000, 70'000, 700'000});
    Note(absl::StrCat("time passes: ", ms));
    Pass(ms, 500);
  }
  if (random_.Chance(profile_.drain)) {
    Note("drain");
    loop_->BeginDrain();
    auditor_.Drains();
    edge_->sessions()->DrainAll();
    Settle();
    if (!loop_->Drained() && !Failed() && open_.size() > 0) {
      failure_ = absl::StrCat("the broker does not drain: ", open_.size(), " calls are open");
    }
    if (!Failed()) LosePower("stopped after a drain");
  }
}

void Simulator::LosePower(const char* why) {
  Note(why);
  ++report_.restarts;
  streamers_.Detach();
  auditor_.PowerLost();
  auto open = std::exchange(open_, {});
  for (auto& [id, call] : open) call.on_answer(nullptr);
  auto inner = store_->AfterPowerLoss();
  auditor_.WallSteps();
  const int64_t down_ms = random_.Pick<int64_t>({0, 10, 3'000, 100'000});
  if (random_.Chance(300)) {
    // Another boot, and a wall clock that was set meanwhile.
    report_.virtual_ms += clock_.boot_ms;
    clock_.boot_ms = random_.Between(0, 2'000'000);
    report_.virtual_ms -= clock_.boot_ms;
    clock_.boot_id = absl::StrCat("boot-", random_.Next());
    clock_.wall_ms += down_ms + random_.Pick<int64_t>({0, 0, -5'000, 60'000, -600'000});
  } else {
    MoveClocks(down_ms);
  }
  Boot(std::move(inner));
}

void Simulator::Boot(std::unique_ptr<storage::MemoryStore> inner) {
  executor_.Clear();
  loop_.reset();
  edge_.reset();
  ticked_ms_ = clock_.boot_ms;
  const StoreFaults faults = std::exchange(faults_, {});
  const int power_at_answer = std::exchange(power_at_answer_, 0);
  booting_ = true;
  FaultyStore::Hooks store_hooks;
  store_hooks.recovered = [this] {
    Note("store opened again");
    auditor_.Stable(ReadAll(store_->stable()), true);
  };
  store_hooks.committed = [this] {
    if (booting_) return;
    if (++report_.commits == options_.power_after_commit) throw PowerLoss{};
  };
  store_ =
      std::make_unique<FaultyStore>(std::move(inner), &faults_, &random_, std::move(store_hooks));
  store_->set_low_space(low_space_);
  runtime::LoopHooks hooks;
  hooks.entropy = random_.Next();
  hooks.on_notice = [this](const std::string& line) { Note(line); };
  hooks.on_verdict = [this](const engine::SessionVerdict& verdict) {
    if (edge_ != nullptr) edge_->sessions()->Tell(verdict);
  };
  hooks.on_fatal = [this](const absl::Status& why) { Note(why.ToString()); };
  loop_ = std::make_unique<runtime::Loop>(store_.get(), &clock_, &executor_, profile_.options,
                                          std::move(hooks));
  if (absl::Status started = loop_->Start(); !started.ok()) {
    failure_ = absl::StrCat("the broker does not start: ", started.ToString());
    return;
  }
  CheckInvariants("after a start: ");
  if (Failed()) return;
  const Dump found = ReadAll(store_->stable());
  // What time is it?
  std::optional<int64_t> broker_ms;
  runtime::Call call;
  call.command = engine::ServerInfoCommand{};
  call.done = [&broker_ms](const engine::Outcome& outcome) {
    if (const auto* info = std::get_if<engine::ServerInfoReply>(&outcome.body)) {
      broker_ms = info->broker_ms;
    }
  };
  if (loop_->Submit(std::move(call)).ok()) {
    for (int i = 0; i < 1000 && !broker_ms.has_value(); ++i) {
      loop_->Step();
      executor_.RunOne();
    }
  }
  if (!broker_ms.has_value()) {
    failure_ = "the broker does not answer after a start";
    return;
  }
  auditor_.Started(*broker_ms);
  Note("started");
  auditor_.Stable(found, true);
  OpenEdge();
  faults_ = faults;
  power_at_answer_ = power_at_answer;
  booting_ = false;
}

void Simulator::OpenEdge() {
  api::EdgeOptions options;
  options.read_threads = 0;
  options.clock = &clock_;
  options.session_numbers = [this] { return random_.Next(); };
  edge_ = std::make_unique<api::Edge>(std::move(options));
  reader_ = std::make_unique<storage::Reader>(&store_->stable());
  edge_->Open(&stream_gateway_, reader_.get(), std::string(32, 'k'));
  streamers_.Attach(edge_.get());
}

void Simulator::CheckInvariants(absl::string_view when) {
  const absl::Status sound = loop_->engine().CheckInvariants(store_->stable());
  if (!sound.ok() && failure_.empty()) failure_ = absl::StrCat(when, sound.message());
}

void Simulator::AuditStore() {
  auditor_.Stable(ReadAll(store_->stable()), false);
  CheckInvariants("");
  streamers_.CheckPushed([this](uint64_t session) { return auditor_.LeasesOf(session); });
}

void Simulator::Finish() {
  Note("faults stop");
  faults_ = {};
  power_at_answer_ = lost_answer_ = 0;
  low_space_ = false;
  store_->set_low_space(false);
  streamers_.Leave();
  Settle();
  if (!Failed()) AuditStore();
  for (const std::string& queue : profile_.queues) {
    for (bool answered = false; !answered && !Failed();) {
      Call(engine::PauseQueueCommand{queue, false, {}},
           [&answered](const engine::Outcome* outcome) { answered = outcome != nullptr; });
      Settle();
    }
  }
  const int64_t end_ms = clock_.boot_ms + kMostDrainMs;
  // A look at the store costs more than a step.
  int64_t look_ms = clock_.boot_ms;
  while (!Failed()) {
    callers_.WorkHonestly();
    Settle();
    if (clock_.boot_ms >= look_ms && loop_->Idle()) {
      AuditStore();
      if (!auditor_.AnythingLives()) break;
      look_ms = clock_.boot_ms + 5'000;
    }
    if (clock_.boot_ms > end_ms) {
      auditor_.NothingLives();
    }
    Pass(500, 500);
  }
  // Whoever waits is answered.
  for (int i = 0; i < 200 && auditor_.open_calls() > 0 && !Failed(); ++i) Pass(500, 500);
  if (!Failed() && auditor_.open_calls() > 0) {
    failure_ = absl::StrCat(auditor_.open_calls(), " calls were never answered");
  }
  Settle();
  if (!Failed()) AuditStore();
}

}  // namespace stint::sim
