// The release, from the project() line of CMakeLists.txt.
#ifndef STINT_SERVER_VERSION_H_
#define STINT_SERVER_VERSION_H_

namespace stint {

inline constexpr char kVersion[] = STINT_VERSION;

}  // namespace stint

#endif  // STINT_SERVER_VERSION_H_
