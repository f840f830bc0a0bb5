#include "tests/sim/profile.h"

namespace stint::sim {

namespace {

std::array<int, kActs> MakeWeights(int turns, Random* random) {
  std::array<int, kActs> weights = {
      14,  // enqueue
      18,  // lease
      10,  // heartbeat
      18,  // settle
      6,   // settle again
      3,   // lie
      3,   // forget
      3,   // cancel
      3,   // redrive
      2,   // delete
      3,   // update
      4,   // wait
      1,   // create queue
      1,   // update queue
      1,   // delete queue
      1,   // pause
      2,   // resume
      1,   // purge
      3,   // stats
      8,   // repeat
      3,   // abandon
      0,   // batch
      0,   // stream
  };
  // In a third of the runs, decided without a draw, so that the others are what they were before
  // there were such calls: the seeds in regressions.txt among them. Workers with streams are in
  // half of them.
  weights[static_cast<size_t>(Act::kBatch)] = turns % 3 == 2 ? 6 : 0;
  weights[static_cast<size_t>(Act::kStream)] = turns % 2 == 1 ? 40 : 0;
  if (turns % 4 == 1) weights[static_cast<size_t>(Act::kLease)] = 2;  // most jobs are pushed
  for (size_t i = 2; i < static_cast<size_t>(Act::kBatch); ++i) {
    if (random->Chance(150)) weights[i] = 0;
    if (random->Chance(100)) weights[i] *= 4;
  }
  return weights;
}

}  // namespace

Profile MakeProfile(Random* random) {
  Profile p;
  p.turns = static_cast<int>(random->Between(150, 500));
  p.look_always = p.turns % 5 == 0;
  p.queues = {"a", "b", "c"};
  p.queues.resize(static_cast<size_t>(random->Between(1, 3)));

  p.options.engine.request_window_ms = random->Pick<int64_t>({2'000, 60'000, 3'600'000});
  p.options.engine.restart_grace_ms = random->Pick<int64_t>({1'000, 5'000, 30'000});
  p.options.trailer_ms = random->Pick<int64_t>({0, 20, 1'000});
  if (random->Chance(500)) {
    p.options.inbox.group_operations = random->Pick<size_t>({1, 2, 4, 8, 32});
  }
  if (random->Chance(300)) p.options.inbox.group_bytes = random->Pick<size_t>({1, 100, 10'000});
  if (random->Chance(200)) p.options.inbox.lane_operations = random->Pick<size_t>({1, 3, 10});
  if (random->Chance(200)) p.options.max_parked_calls = random->Pick<size_t>({0, 1, 3});

  p.weights = MakeWeights(p.turns, random);

  const int calm = random->Chance(300) ? 0 : 1;
  p.crash = calm * static_cast<int>(random->Pick<int64_t>({0, 2, 10, 30}));
  p.freeze = calm * static_cast<int>(random->Pick<int64_t>({0, 3, 15}));
  p.wall_step = calm * static_cast<int>(random->Pick<int64_t>({0, 3, 15}));
  p.low_space = calm * static_cast<int>(random->Pick<int64_t>({0, 0, 5}));
  p.drain = calm * static_cast<int>(random->Pick<int64_t>({0, 0, 3}));
  p.long_time = static_cast<int>(random->Pick<int64_t>({0, 2, 10}));
  p.power_at_answer = calm * static_cast<int>(random->Pick<int64_t>({0, 0, 5}));
  p.lost_answer = static_cast<int>(random->Pick<int64_t>({0, 50, 200}));
  if (random->Chance(500)) {
    const auto rate = [random] { return static_cast<int>(random->Pick<int64_t>({0, 0, 3, 15})); };
    p.faults = {rate(), rate(), 0, 0, rate(), rate(), rate(), rate(), rate() / 3};
    if (random->Chance(300)) p.faults.error_at_commit = p.faults.error_at_sync = 4;
  }

  p.request_ids = static_cast<int>(random->Pick<int64_t>({0, 300, 900}));
  p.own_ids = static_cast<int>(random->Pick<int64_t>({0, 200, 600}));
  p.big_payloads = static_cast<int>(random->Pick<int64_t>({0, 100}));
  p.lease_ms = random->Chance(500) ? std::vector<int64_t>{1'000}
                                   : std::vector<int64_t>{1'000, 4'000, 15'000};
  p.wait_ms =
      random->Chance(300) ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 200, 2'000, 20'000};
  return p;
}

record::QueueSettings RandomSettings(Random* random) {
  record::QueueSettings settings;
  const auto often = [random] { return random->Chance(400); };
  if (often()) settings.set_max_attempts(static_cast<int32_t>(random->Between(1, 3)));
  if (often()) settings.set_max_losses(static_cast<int32_t>(random->Between(1, 3)));
  if (often()) settings.set_loss_backoff_ms(random->Pick<int64_t>({0, 500, 60'000}));
  if (often()) settings.set_max_jobs(random->Between(2, 6));
  if (often()) settings.set_cancel_grace_ms(random->Pick<int64_t>({0, 1'000, 10'000}));
  if (random->Chance(150)) settings.set_run_limit_ms(random->Pick<int64_t>({1'000, 3'000}));
  if (often()) {
    settings.mutable_retry()->set_initial_delay_ms(random->Pick<int64_t>({0, 1, 1'000}));
    settings.mutable_retry()->set_max_delay_ms(random->Pick<int64_t>({0, 5'000, 60'000}));
    if (random->Chance(500)) settings.mutable_retry()->set_jitter(random->Chance(500) ? 0 : 1);
  }
  if (often()) {
    record::Retention* keep = settings.mutable_retention();
    if (random->Chance(500)) keep->set_finished_age_ms(random->Pick<int64_t>({0, 0, 1'000}));
    if (random->Chance(300)) keep->set_finished_count(random->Between(0, 3));
    if (random->Chance(300)) keep->set_dead_age_ms(random->Pick<int64_t>({0, 1'000}));
    if (random->Chance(200)) keep->set_dead_bytes(random->Pick<int64_t>({0, 300}));
  }
  return settings;
}

}  // namespace stint::sim
