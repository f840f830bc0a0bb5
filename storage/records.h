// Rules about records that both the engine and readers beside it need: the state of a job
// that has no state row, which index rows a state has, and when a waiting job is purged.
#ifndef STINT_STORAGE_RECORDS_H_
#define STINT_STORAGE_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/store.h"

namespace stint::storage {

// Numbers of stint.v1.JobState, as far as storage has to tell them apart.
inline constexpr int32_t kStateDelayed = 1;
inline constexpr int32_t kStateHeld = 2;
inline constexpr int32_t kStateReady = 3;
inline constexpr int32_t kStateLeased = 4;
inline constexpr int32_t kStateCompleted = 5;
inline constexpr int32_t kStateCancelled = 6;
inline constexpr int32_t kStateDead = 7;

inline bool IsWaiting(int32_t state) { return state >= kStateDelayed && state <= kStateReady; }
inline bool IsEnded(int32_t state) { return state >= kStateCompleted; }

// READY as enqueued: the state of a job that has a record and no state row.
record::JobState FreshState(const record::JobRecord& record, uint64_t sequence);
// True for exactly those states.
bool IsFresh(const record::JobState& state, uint64_t sequence);

// The family of the row that holds a state; nullopt: it has none (fresh).
std::optional<Family> StateFamily(const record::JobState& state, uint64_t sequence);

// The index rows of a job in a state.
std::vector<Row> IndexRows(const JobKey& job, const record::JobRecord& record,
                           const record::JobState& state);

// A waiting job that a purge has removed, though its rows may still be there.
bool IsPurged(const record::JobState& state, const record::QueueRecord& queue);

}  // namespace stint::storage

#endif  // STINT_STORAGE_RECORDS_H_
