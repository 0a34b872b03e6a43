// SPDX-License-Identifier: Apache-2.0
//
// Files and folders that go with the program, also when a signal ends it. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "exporter/base/result.h"

namespace roce {

// Calls `make`, which makes a file or folder and tells its path; from then on a signal removes it, with all that is in
// it. No signal ends the program in between.
Result<std::string> make_leftover(const std::function<Result<std::string>()>& make);

// Removes it now. What cannot be removed is left to whoever cleans the folder that it is in.
void remove_leftover(const std::string& path);

// It stays: a file that has become what it was meant to be.
void keep_leftover(const std::string& path);

// From here on SIGTERM, SIGINT and SIGHUP remove what there is and end the program, as each does by itself; one that
// was ignored, as nohup(1) has it, stays so. Writing to a closed pipe is an error and ends nothing. To be called before
// the first thread starts, by a program that waits for these signals nowhere else.
void remove_leftovers_on_signals();

}  // namespace roce
