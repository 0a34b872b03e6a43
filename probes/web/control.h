// SPDX-License-Identifier: Apache-2.0
//
// HTTP on the control socket, for tools of this host: curl --unix-socket PATH -X POST
// 'http://localhost/-/release?seconds=60'. One client at a time; it has a second to send its request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/control_socket.h"
#include "exporter/web/server.h"

namespace roce::probe {

Result<std::unique_ptr<ControlServer>> open_control(const std::string& path, std::vector<web::Route> routes);

// The whole answer to the head of a request (without its empty line), as it is written.
std::string control_answer(std::string_view head, const std::vector<web::Route>& routes);

}  // namespace roce::probe
