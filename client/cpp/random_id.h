// Random bytes from the kernel, for request ids, worker ids and secrets.
// Thread rule: any thread.
#ifndef STINT_CLIENT_CPP_RANDOM_ID_H_
#define STINT_CLIENT_CPP_RANDOM_ID_H_

#include <cstddef>
#include <string>

namespace stint::client {

// `count` random bytes. The process ends with a message if the kernel gives none: going on
// with ids that are not random would make unrelated calls look like repeats.
std::string RandomBytes(size_t count);

// 128 random bits in hexadecimal, for `request_id`.
std::string RandomId();

// The default id of a worker: `HOST:PID:RANDOM`, valid as a worker id on any host.
std::string RandomWorkerId();

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_RANDOM_ID_H_
