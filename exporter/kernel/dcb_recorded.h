// SPDX-License-Identifier: Apache-2.0
//
// Data centre bridging as recorded in `netdev/NAME/dcb.json`: the output of `dcb -j ... show` for pfc, ets, app,
// buffer, dcbx, apptrust and maxrate, put together in any way: one document after the other, a list, an object with a
// member for each, or all members in one object. Members of other tools are passed over. Thread-safe; the file is read
// at each call.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "exporter/kernel/dcb.h"

namespace roce {

// `dir`: the recording. A network device without the file is kNotRecorded.
std::unique_ptr<DcbSource> open_dcb_recording(std::string dir);

// Takes any bytes; kMalformed where it is no JSON or a known member has not its form.
Result<DcbState> parse_dcb_json(std::string_view text);

}  // namespace roce
