// Answers as they are kept to be repeated.
#ifndef STINT_SERVER_ENGINE_ANSWER_H_
#define STINT_SERVER_ENGINE_ANSWER_H_

#include "server/engine/outcome.h"
#include "storage/record.pb.h"

namespace stint::engine {

record::StoredAnswer StoreAnswer(const ReplyBody& body);
ReplyBody LoadAnswer(const record::StoredAnswer& stored);

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_ANSWER_H_
