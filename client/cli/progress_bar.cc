#include "client/cli/progress_bar.h"

#include <algorithm>
#include <string>

namespace stint::cli {

void ProgressBar::Show(int64_t done) {
  if (!shown_) return;
  constexpr int64_t kWidth = 30;
  line_open_ = true;
  if (expected_ > 0) {
    const int64_t filled = std::min(kWidth, done * kWidth / expected_);
    err_ << "\r[" << std::string(static_cast<size_t>(filled), '#')
         << std::string(static_cast<size_t>(kWidth - filled), '.') << "] " << done << "/"
         << expected_;
    if (done >= expected_) Finish();
  } else {
    err_ << "\r" << done << " jobs";
  }
  err_.flush();
}

void ProgressBar::Finish() {
  if (line_open_) err_ << '\n';
  line_open_ = false;
}

}  // namespace stint::cli
